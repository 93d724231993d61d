"""Preparation of parallel corpora: clean the text, store it as tokens, and form batches."""
