"""Text processing: line reading, sentence splitting, tokenisation and vocabularies."""
