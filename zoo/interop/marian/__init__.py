"""Models as Marian itself writes them: an .npz, its vocabularies, its decoder.yml."""
