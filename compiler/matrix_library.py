"""Which library computes float32 products on a CPU."""

from __future__ import annotations

import torch


def use_fast_float32() -> None:
    """Sends float32 products to oneDNN, where it computes them exactly in float32 and torch's default is slower.

    torch's name for that route is "bf16": on a processor with AMX it does round to bfloat16, so there the default
    stays. Without AMX, oneDNN has nothing narrower that it could use for it and computes in float32.
    """
    if matrix_library() == "oneDNN":
        torch.backends.mkldnn.matmul.fp32_precision = "bf16"  # type: ignore[attr-defined]


def matrix_library() -> str:
    """The library of float32 products on this processor: oneDNN, or torch's default where that would round."""
    capability = torch.backends.cpu.get_cpu_capability()
    exact = "AVX512" in capability and not torch.cpu._is_amx_tile_supported()
    return "oneDNN" if exact else "torch's default"
