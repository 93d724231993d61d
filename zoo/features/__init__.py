"""Modalities of features: files that are not text, such as audio, as the vectors that a model reads (section 7)."""
