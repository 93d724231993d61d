"""From a spec to its graph: the transformer as Figure 1, and a file for each kind of sub-layer."""

from compiler.lower.transformer import lower

__all__ = ["lower"]
