"""Corpora: clean and prepare parallel text, store its tokens, and form batches."""
