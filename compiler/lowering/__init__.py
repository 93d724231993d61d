"""Lowering of a spec to a graph: the transformer as in Figure 1, and one module for each kind of sub-layer."""

from compiler.lowering.transformer import lower

__all__ = ["lower"]
