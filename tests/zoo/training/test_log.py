"""The log of a training that was killed while it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from zoo.training.events import Events
from zoo.training.log import Log


@pytest.mark.parametrize("rest", [b"", b'{"step": 3, "lo', b"\x00\x00\x00", b'{"step": 3, "name": "M\xc3'])
def test_lines_that_are_whole_stay(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "log.jsonl"
    whole = b'{"step": 1}\n{"step": 2}\n'
    path.write_bytes(whole + rest)
    Log(path, 2, 1e9, torch.device("cpu"), Events(tmp_path / "events", 2)).close()
    assert path.read_bytes() == whole
