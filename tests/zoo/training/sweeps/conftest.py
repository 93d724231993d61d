"""A folder of two specs that train in a second: one that extends tiny, and one that extends the first."""

from __future__ import annotations

from pathlib import Path

import pytest

_PLAIN = """
extends: tiny
name: micro
architecture: {N: 2, d_model: 16, d_ff: 24, h: 2, d_k: 6, d_v: 4}
vocabulary: {size: 200}
corpus: {train: [{grammar: 300}], dev: [{grammar: 8}]}
training:
  {steps: 30, source_tokens: 400, target_tokens: 400, warmup_steps: 10, checkpoint_steps: 5, log_steps: 5, average: 1}
decoding: {beam: 2, extra_length: 5}
compilation: {backend: eager}
"""


@pytest.fixture
def own_specs(home: Path) -> Path:
    folder = Path("own")
    folder.mkdir()
    (folder / "plain.yaml").write_text(_PLAIN)
    (folder / "flat.yaml").write_text("extends: plain.yaml\nname: flat\narchitecture: {N: 1}\n")
    return folder
