"""The folder of a model, a run's or a bundle's: found by name, read, checked."""
