"""Bundles written in the formats of other engines: a file for each."""
