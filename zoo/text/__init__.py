"""Text processing: reading of lines, sentence splitting, tokenisation and vocabularies."""
