"""An attention with known weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from zoo.generation.attention import Attention

DOG = ("▁the", "▁b", "ig", "▁dog")


@pytest.fixture
def make_attention() -> Callable[..., Attention]:
    """A function that makes an attention with random weights: words of several tokens, three heads."""

    def make(text: str = "the big dog", source: Sequence[str] = DOG, layers: int = 2, heads: int = 3) -> Attention:
        generator, size = torch.Generator().manual_seed(1), len(source) + 1

        def weights(layers: int, rows: int, columns: int) -> Tensor:
            return (4 * torch.randn(layers, heads, rows, columns, generator=generator)).softmax(-1)

        tokens = {"source": (*source, "</s>"), "target_input": ("<s>", "▁Hund"), "target": ("▁Hund", "</s>")}
        found = {"encoder": weights(layers, size, size), "decoder": weights(1, 2, 2), "cross": weights(1, 2, size)}
        texts = {"text": text, "translation": "Hund", "backend": "eager", "precision": "float32"}
        return Attention(**texts, **tokens, **found, forced=True, log_probability=-1.25)

    return make
