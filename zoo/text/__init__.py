"""Lines, sentences and word pieces."""
