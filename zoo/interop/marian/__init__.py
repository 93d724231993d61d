"""Models of Marian: an .npz or .bin file, vocabularies, and `decoder.yml`."""
