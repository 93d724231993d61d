"""Attention over packed rows (torch's varlen_attn) and over padded buckets: forward and backward of one layer.

The lengths are those of a batch of 25,000 tokens with a distribution as in WMT: log-normal, mean about 27, 5 to 200.
A padded batch contains sentences of similar lengths, and its padding counts as tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from tests.benchmarks.gpu_parts.setting import Absent, Figures, Setting

SHAPES = {"base": (8, 64), "big": (16, 64)}
LONGEST = 200


def packed(setting: Setting) -> Iterator[tuple[str, Figures]]:
    """Measure padded attention first, which runs on every device."""
    tokens = 400 if setting.toy else 25_000
    every = lengths(8 * tokens)
    for name, (heads, width) in list(SHAPES.items())[: 1 if setting.toy else None]:
        for causal in (False, True):
            row = f"{name}{', causal' if causal else ''}"
            buckets = [of_bucket(every, at, tokens) for at in (0.2, 0.5, 0.8)]
            padded = sum(setting.seconds(_padded(setting, bucket, heads, width, causal)) for bucket in buckets)
            real = sum(map(sum, buckets))
            yield (
                f"{row}, padded",
                {
                    "tokens/s": real / padded,
                    "padding": 1 - real / sum(len(bucket) * max(bucket) for bucket in buckets),
                    "of the peak": sum(_flops(bucket, heads, width, causal) for bucket in buckets)
                    / padded
                    / setting.flops,
                },
            )
            try:
                yield f"{row}, packed", _packed(setting, every, tokens, heads, width, causal)
            except Absent as reason:
                yield f"{row}, packed", {"absent": str(reason)}


def lengths(tokens: int) -> list[int]:
    """Return the lengths of random sentences with `tokens` tokens in total."""
    random = np.random.default_rng(1)
    drawn = random.lognormal(np.log(23.5), 0.5, tokens).clip(5, LONGEST).astype(int)
    found: list[int] = drawn[: int((drawn.cumsum() <= tokens).sum())].tolist()
    return found


def of_bucket(every: list[int], at: float, tokens: int) -> list[int]:
    """Return sentences of similar lengths that fill a padded batch, from the quantile `at` of the lengths on."""
    found: list[int] = []
    for length in sorted(every)[int(at * len(every)) :]:
        if (len(found) + 1) * length > tokens:
            break
        found.append(length)
    return found


def _packed(setting: Setting, every: list[int], tokens: int, heads: int, width: int, causal: bool) -> Figures:
    if not setting.cuda:
        raise Absent("varlen_attn runs on a GPU only")
    from torch.nn.attention.varlen import varlen_attn

    if "window_size" in inspect.signature(varlen_attn).parameters:
        attend: Callable[..., Any] = partial(varlen_attn, window_size=(-1, 0) if causal else (-1, -1))
    else:
        before: Any = varlen_attn  # an earlier version of torch
        attend = partial(before, is_causal=causal)
    row = every[: int((np.cumsum(every) <= tokens).sum())]
    # A CUDA graph needs constant shapes: a fixed number of sequences, the last ones empty, and a fixed maximum length.
    empty = max(1, tokens // 20 - len(row))
    ends = torch.tensor([0, *np.cumsum(row + [0] * empty)], dtype=torch.int32, device=setting.device)
    q, k, v = _numbers(setting, (sum(row), heads, width))

    def work(most: int, marks: Tensor) -> Tensor:
        for each in (q, k, v):
            each.grad = None
        result: Tensor = attend(q, k, v, marks, marks, most, most)
        torch.autograd.backward(result, torch.ones_like(result))
        return result

    fixed = setting.seconds(lambda: work(LONGEST, ends))
    gradients = [each.grad.clone() for each in (q, k, v)]
    tight = setting.seconds(lambda: work(max(row), ends[: len(row) + 1]))
    same = all(torch.equal(a, each.grad) for a, each in zip(gradients, (q, k, v), strict=True))
    error = _error(work(LONGEST, ends), (q, k, v), row, causal)
    return {
        "tokens/s": sum(row) / fixed,
        "with exact lengths, tokens/s": sum(row) / tight,
        "slack": 1 - sum(row) / tokens,
        "of the peak": _flops(row, heads, width, causal) / fixed / setting.flops,
        "gradients as with exact lengths": same,
        **error,
    }


def _error(result: Tensor, given: tuple[Any, ...], row: list[int], causal: bool) -> Figures:
    """Return the relative errors of result and gradients, compared with each sentence alone in float32."""
    apart = [each.detach().float().requires_grad_() for each in given]
    parts = [each.split(row) for each in apart]
    attend: Any = functional.scaled_dot_product_attention
    alone = torch.cat(
        [
            attend(*(x.transpose(0, 1) for x in three), is_causal=causal).transpose(0, 1)
            for three in zip(*parts, strict=True)
        ]
    )
    torch.autograd.backward(alone, torch.ones_like(alone))
    pairs = [(result, alone), *((a.grad, b.grad) for a, b in zip(given, apart, strict=True))]
    errors = [float((a.detach().float() - b).abs().max() / b.abs().max()) for a, b in pairs]
    return {"error": errors[0], "error of gradients": max(errors[1:])}


def _padded(setting: Setting, bucket: list[int], heads: int, width: int, causal: bool) -> Callable[[], object]:
    longest = max(bucket)
    q, k, v = _numbers(setting, (len(bucket), heads, longest, width))
    place = torch.arange(longest, device=setting.device)
    real = (place < torch.tensor(bucket, device=setting.device)[:, None])[:, None, None, :]
    mask = real & (place <= place[:, None]) if causal else real

    def work() -> None:
        result = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        torch.autograd.backward(result, torch.ones_like(result))

    return work


def _numbers(setting: Setting, shape: tuple[int, ...]) -> tuple[Any, ...]:
    made = (torch.randn(shape, device=setting.device, dtype=torch.bfloat16) for _ in range(3))
    return tuple(each.requires_grad_() for each in made)


def _flops(row: list[int], heads: int, width: int, causal: bool) -> float:
    """Return the FLOPs without padding: two products forward, and five backward, as in fused kernels."""
    return 3.5 * 4 * heads * width * sum(n * n for n in row) / (2 if causal else 1)
