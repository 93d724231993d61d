"""Dropout masks as a function of a seed, a key and the index of an element, so that nothing needs to store them.

An element is kept if a 32-bit hash of its index is at least `probability` · 2^32. The hash consists of two rounds of
the finaliser of MurmurHash3, with one half of the seed added before each. The backward pass computes the mask again,
and a resumed run computes the same masks as one that was never stopped. `compiler.fused.keep_mask` is the same function
in PyTorch.
"""

# ruff: noqa: D103 - Triton functions are described by the module

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mixed(h):
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    return h ^ (h >> 16)


@triton.jit
def kept(seed, key, index, threshold):
    """Return whether dropout keeps the elements with these indices.

    Args:
        seed: Pointer to the seed, which is a 64-bit integer.
        key: Number of the dropout layer.
        index: Indices of the elements, as 32-bit integers.
        threshold: The probability of dropout times 2^32.
    """
    whole = tl.load(seed)
    low, high = (whole & 0xFFFFFFFF).to(tl.uint32), ((whole >> 32) & 0xFFFFFFFF).to(tl.uint32)
    first = mixed(low + key.to(tl.uint32))
    second = mixed(high ^ first)
    return mixed(mixed(index.to(tl.uint32) + first) ^ second) >= threshold.to(tl.uint32)
