"""Training: from a spec and a corpus to checkpoints and averaged weights."""
