"""An attention made by hand: two layers of the encoder, three heads, words of several tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from zoo.generation.attention import Attention

Made = Callable[..., Attention]


@pytest.fixture
def attended() -> Made:
    def made(
        text: str = "the big dog",
        source: Sequence[str] = ("▁the", "▁b", "ig", "▁dog"),
        layers: int = 2,
        heads: int = 3,
    ) -> Attention:
        generator = torch.Generator().manual_seed(1)

        def weights(layers: int, rows: int, columns: int) -> Tensor:
            return (4 * torch.randn(layers, heads, rows, columns, generator=generator)).softmax(-1)

        reads, writes = (*source, "</s>"), ("▁Hund", "</s>")
        return Attention(
            text=text,
            translation="Hund",
            forced=True,
            log_probability=-1.25,
            source=reads,
            target_input=("<s>", "▁Hund"),
            target=writes,
            encoder=weights(layers, len(reads), len(reads)),
            decoder=weights(1, 2, 2),
            cross=weights(1, 2, len(reads)),
            backend="eager",
            precision="float32",
        )

    return made
