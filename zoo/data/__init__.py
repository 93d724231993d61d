"""From parallel text to batches: clean, prepare, store, group."""
