"""Acceptance test: a model that reads patches of pictures is trained on handwritten digits, and used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import specs
import zoo as library
from specs import ZooError
from zoo.features import written_digits

pytest.importorskip("PIL", reason="needs the `pictures` extra")
pytest.importorskip("sklearn", reason="needs the `pictures` extra")
PATCHES: dict[str, Any] = {
    "task.source.patch": {"height": 16, "width": 8},
    "architecture": {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 8, "d_v": 8},
    "architecture.source": {"width": 128, "subsampling": []},
    "architecture.positions": {"kind": "sinusoidal_2d", "rows": 2},
    "training": {"steps": 4, "checkpoint_steps": 2, "warmup_steps": 1, "cooldown_steps": None},
    "corpus": {"train": [{"digits": 40}], "dev": [{"digits": 4}], "test": []},
}


@pytest.mark.integration
def test_patches_of_handwritten_digits_are_learned_and_recognised(zoo: Callable[..., Any]) -> None:
    library.train(specs.load("pictures/digits", PATCHES), run="run", quiet=True)
    Path("digits").mkdir()
    for number in range(3):
        written_digits.draw_string("test", number).save(f"digits/{number}.jpeg")
    model = library.load("run")
    texts = model.translate(sorted(map(str, Path("digits").iterdir())))
    assert zoo("decode", "--model", "run", "--input", "digits").out.splitlines() == texts
    Path("digits/2.jpeg").write_bytes(b"no picture")
    damaged = zoo("decode", "--model", "run", "--input", "digits")
    assert (damaged.status, "not a valid PNG or JPEG file" in damaged.err) == (2, True)


def test_a_spec_must_know_the_rows_of_its_pictures() -> None:
    with pytest.raises(ZooError, match=r"`architecture.positions.rows` is 4, but `task.source` gives 2"):
        specs.load("pictures/digits", {**PATCHES, "architecture.positions.rows": 4})
    with pytest.raises(ZooError, match=r"the image height \(32\) is not a multiple of the patch height \(12\)"):
        specs.load("pictures/digits", {**PATCHES, "task.source.patch.height": 12})
