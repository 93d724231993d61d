"""Registries, to which models are published and from which they are pulled. Loads no torch."""
