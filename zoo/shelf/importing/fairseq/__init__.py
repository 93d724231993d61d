"""Checkpoints of fairseq."""
