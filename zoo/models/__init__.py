"""Models: folders of runs and of published models, weights, the local store, registries, and cards of public models."""
