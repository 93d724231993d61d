"""Triton kernels for GPUs. Only `compiler.fused` and `compiler.search` import them, because Triton is optional."""
