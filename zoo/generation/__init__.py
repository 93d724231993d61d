"""Generation: beam search and sampling over a program, and the translators and parsers built on them."""
