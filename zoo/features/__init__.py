"""Modalities of features: files that are not text, such as sounds, as the vectors that a model reads (section 7)."""
