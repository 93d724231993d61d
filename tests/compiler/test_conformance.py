"""Every backend that is present computes what the interpreter does, and goes on from any state as eager does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler import TRANSLATE, Purpose, build, graphs
from compiler.agree import disagreement
from compiler.backends import BACKENDS, Order
from compiler.initial import initial_weights
from specs import Spec

SHAPES: dict[str, dict[str, object]] = {
    "post": {},
    "pre": {
        "norm": "pre",
        "positional_encoding": "learned",
        "tied_embeddings": "none",
        "projection_bias": True,
        "d_k": 8,
        "d_v": 8,
    },
}
STEPPING = [name for name in BACKENDS if name != "ctranslate2"]
"""Backends with a decode_step; CTranslate2 has only a whole search (see test_ctranslate2.py)."""
COMPILED = {"inductor", "aot"}
"""What takes a minute to compile is compiled for one shape here, and for the others in the slow proofs."""
CASES = [
    pytest.param((name, shape), id=f"{name}-{shape}", marks=[pytest.mark.slow] * (name in COMPILED and shape != "post"))
    for name in STEPPING
    for shape in SHAPES
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture
def built(folder: Path) -> Callable[..., Any]:
    """Builds with a backend, or says why it cannot be had."""

    def make(name: str, spec: Spec, precision: str = "float32") -> Any:
        backend = BACKENDS[name]
        if problem := backend.absent():
            pytest.skip(problem)
        compilation = spec.compilation.model_copy(update={"precision": precision})
        asked = spec.model_copy(update={"compilation": compilation})
        lowered = graphs(asked, TRANSLATE)
        weights = initial_weights(asked, lowered)
        if problem := backend.refuses(Order(asked, lowered, weights, precision=precision, folder=folder)):
            pytest.skip(f"it says so itself: {problem}")
        return build(asked, TRANSLATE, weights=weights, backend=name, folder=folder)

    return make


@pytest.mark.parametrize("case", CASES)
def test_it_agrees_with_the_interpreter(
    small: Callable[..., Spec], built: Callable[..., Any], case: tuple[str, str]
) -> None:
    name, shape = case
    found = disagreement(built(name, small(N=1, **SHAPES[shape])))
    assert set(found) == {Purpose.SCORE, Purpose.DECODE_STEP}
    assert all(error < 1e-5 for error in found.values()), found


@pytest.mark.parametrize("name", STEPPING)
def test_in_int8_it_is_near(small: Callable[..., Spec], built: Callable[..., Any], name: str) -> None:
    spec = small(N=1)
    found = disagreement(built(name, spec, "int8"), weights=initial_weights(spec, graphs(spec)))
    assert 1e-5 < found[Purpose.DECODE_STEP] < 0.05, found


@pytest.mark.parametrize("case", CASES)
def test_it_goes_on_as_eager_does(small: Callable[..., Spec], built: Callable[..., Any], case: tuple[str, str]) -> None:
    """Steps, moved beams, sentences that leave and others that join, past what a cache has room for at first."""
    name, shape = case
    spec = small(N=1, **SHAPES[shape])
    for mine, theirs in zip(_walk(built(name, spec)), _walk(build(spec, backend="eager")), strict=True):
        torch.testing.assert_close(mine, theirs, atol=2e-5, rtol=1e-5)


def test_in_int8_it_rounds_as_eager_does(small: Callable[..., Spec], built: Callable[..., Any]) -> None:
    spec = small()
    theirs = build(spec, weights=initial_weights(spec, graphs(spec)), backend="eager", precision="int8")
    for mine, other in zip(_walk(built("native", spec, "int8")), _walk(theirs), strict=True):
        # A number that lies between two 8-bit ones may fall to either side.
        torch.testing.assert_close(mine, other, atol=2e-2, rtol=0)
        assert ((mine - other).abs() < 1e-4).float().mean() > 0.5


def _walk(program: Any) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)

    def tokens(rows: int) -> torch.Tensor:
        return torch.randint(4, 101, (rows,), generator=generator)

    def start(*sources: list[int]) -> Any:
        width = max(map(len, sources))
        source = torch.tensor([[*row, *[0] * (width - len(row))] for row in sources])
        _, state = program.likeliest(program.encode(source), torch.full((len(sources),), 2), 4)
        return program.select(state, torch.arange(len(sources)), torch.zeros(len(sources), 3, dtype=torch.long))

    state, sentences = start([7, 8, 9, 10, 11, 3], [5, 3], [9, 6, 3]), 3
    for step in range(24):
        if step % 5 == 4:
            found, state = program.likeliest(state, tokens(3 * sentences), 6)
            yield found.values
            yield found.pieces
            yield found.ends
        else:
            every, state = program.decode_step(state, tokens(3 * sentences))
            yield every
        if step == 7:
            state, sentences = program.join(state, start([20, 21, 22, 23, 24, 25, 26, 27, 3], [30, 3])), 5
        kept = [0, 2, 3] if step == 12 else [1, 2] if step == 19 else list(range(sentences))
        parents = torch.randint(0, 3, (len(kept), 3), generator=generator)
        state, sentences = program.select(state, torch.tensor(kept), parents), len(kept)
