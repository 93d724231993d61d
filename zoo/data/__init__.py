"""Prepare parallel corpora: clean the text, store it as token IDs, and form training batches."""
