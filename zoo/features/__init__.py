"""Feature modalities, which convert audio and image files to the vectors that a model reads (section 7)."""
