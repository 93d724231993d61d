"""Constituency trees: bracketed notation, and tokenisation for parsers."""
