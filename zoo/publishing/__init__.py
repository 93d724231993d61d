"""Publish models: bundles, their cards and checks, upload to registries, and removal."""
