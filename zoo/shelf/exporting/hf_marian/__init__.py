"""transformers' Marian, written."""
