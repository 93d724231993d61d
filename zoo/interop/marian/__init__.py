"""Marian models: an .npz or .bin file, vocabularies, and `decoder.yml`."""
