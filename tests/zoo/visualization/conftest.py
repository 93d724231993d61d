"""An attention with known weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from zoo.generation.attention import Attention


@pytest.fixture
def make_attention() -> Callable[..., Attention]:
    """A function that makes an attention with random weights: words of several tokens, three heads."""

    def make(
        text: str = "the big dog",
        source: Sequence[str] = ("▁the", "▁b", "ig", "▁dog"),
        layers: int = 2,
        heads: int = 3,
    ) -> Attention:
        generator = torch.Generator().manual_seed(1)

        def weights(layers: int, rows: int, columns: int) -> Tensor:
            return (4 * torch.randn(layers, heads, rows, columns, generator=generator)).softmax(-1)

        fields: dict[str, Any] = {
            "target_input": ("<s>", "▁Hund"),
            "target": ("▁Hund", "</s>"),
            "source": (*source, "</s>"),
        }
        size = len(fields["source"])
        return Attention(
            text=text,
            translation="Hund",
            forced=True,
            log_probability=-1.25,
            encoder=weights(layers, size, size),
            decoder=weights(1, 2, 2),
            cross=weights(1, 2, size),
            backend="eager",
            precision="float32",
            **fields,
        )

    return make
