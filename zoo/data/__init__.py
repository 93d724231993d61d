"""From a corpus to batches: fetch, clean, learn word pieces, store, group."""
