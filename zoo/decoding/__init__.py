"""Search: from a program and a source to hypotheses, and from text to text."""
