"""Text generation with a compiled model: beam search, sampling, translators and parsers."""
