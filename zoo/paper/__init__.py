"""Claims of the paper "Attention Is All You Need", and the checks that decide whether they hold."""
