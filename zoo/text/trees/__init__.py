"""Constituency trees: bracketed notation, tokenisation for parsers, and drawings."""
