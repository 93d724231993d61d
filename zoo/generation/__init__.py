"""Generation of text with a program: beam search, sampling, translators and parsers."""
