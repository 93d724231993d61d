"""Reimplementation of EVALB (Sekine and Collins 1997), which compares a parser's brackets with a treebank."""
