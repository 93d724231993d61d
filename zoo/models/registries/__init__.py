"""Registries: where models are published to and pulled from. Revisions, blobs, names; no torch, and no shelf."""
