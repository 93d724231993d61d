"""Models of other engines, read as ours: a file for each format."""
