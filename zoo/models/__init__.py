"""Models: folders of runs and published models, weights, the local store, registries, and cards of public models."""
