"""Preparation of parallel corpora: cleaning of the text, storage as token IDs, and batches for training."""
