"""Lowering of a spec to a graph: the transformer as in Figure 1, and one module for each family of sub-layers."""

from compiler.lowering.transformer import lower

__all__ = ["lower"]
