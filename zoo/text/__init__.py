"""Lines, sentences and vocabularies."""
