"""Sweeps: several specs, each trained with several seeds, and a comparison of their scores."""
