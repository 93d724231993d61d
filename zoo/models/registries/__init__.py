"""Registries, to which models are published and from which they are pulled. This package does not load torch."""
