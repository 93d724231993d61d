"""The shelf: bundles of published models, found by name, opened, verified."""
