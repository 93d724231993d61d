"""Models of Marian: an .npz file, vocabularies, and `decoder.yml`."""
