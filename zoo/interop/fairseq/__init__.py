"""Models of fairseq: checkpoints with dictionaries."""
