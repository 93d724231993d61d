"""Constituency trees: bracketed notation, tokens of a parser, and drawings."""
