"""Constituency trees: written in brackets, as a sequence, and as pictures."""
