"""Models on disk: folders of training runs and of published models, weights, the local model store, and registries."""
