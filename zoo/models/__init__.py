"""Models on disk: folders of runs and bundles, weights, the local model store, and registries."""
