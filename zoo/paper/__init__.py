"""Claims of the paper "Attention Is All You Need", and what is found of each of them here."""
