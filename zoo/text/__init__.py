"""Lines, sentences and word tokens."""
