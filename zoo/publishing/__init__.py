"""Publish models as bundles. Verify, upload, list and remove published models."""
