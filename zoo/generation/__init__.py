"""From a program and a source to hypotheses."""
