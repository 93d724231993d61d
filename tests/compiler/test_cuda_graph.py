"""A step that is recorded and replayed gives what it gives when it is run, whatever the search does with its states."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from compiler import EmittedProgram, build
from compiler.cuda_graph import MAX_RECORDINGS, Results, bucket
from compiler.program import top_k
from compiler.switches import fast_float32
from specs import BOS, EOS, Spec
from zoo.generation.batching import Source
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.engine import search
from zoo.generation.sampling import Sampling

WAITS = ("_local_scalar_dense", "nonzero", "masked_select", "equal")
"""Operations for whose result a host waits: a GPU would refuse to record them."""


class Tape(TorchDispatchMode):
    """Stands in for a CUDA graph: the operations with the very tensors that they read and wrote, and no Python."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert operation._schema.name.removeprefix("aten::") not in WAITS, f"the host waits for {operation}"
        result = operation(*args, **(kwargs or {}))
        self.operations.append((operation, args, kwargs or {}, result))
        return result

    def play(self) -> None:
        for operation, args, kwargs, result in self.operations:
            again = tree_flatten(operation(*args, **kwargs))[0]
            for old, new in zip(tree_flatten(result)[0], again, strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class Recorder:
    """Records on a tape, or, asked not to, runs the function again; and counts."""

    def __init__(self, tape: bool = True) -> None:
        self.records = self.replays = 0
        self.tape = tape

    def __call__(self, function: Callable[[], Results]) -> tuple[Results, Callable[[], object]]:
        self.records += 1
        function()
        with Tape() as tape:
            results = function()

        def replay() -> None:
            self.replays += 1
            if self.tape:
                with fast_float32():  # as it was recorded
                    tape.play()
            else:
                function()

        return results, replay


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host does not ask whether there are ties."""
    monkeypatch.setattr("compiler.program._is_asynchronous", lambda tensor: True)


@pytest.fixture
def two(small: Callable[..., Spec]) -> Callable[..., tuple[EmittedProgram, EmittedProgram, Recorder]]:
    """A program as it runs, and the same one recorded."""

    def make(without: tuple[str, ...] = (), **architecture: object) -> tuple[EmittedProgram, EmittedProgram, Recorder]:
        spec = small(**architecture)
        spec = spec.model_copy(update={"compilation": spec.compilation.model_copy(update={"disabled_passes": without})})
        weights, recorder = build(spec).weights(), Recorder()
        plain, recorded = (build(spec, weights=weights, backend="eager") for _ in range(2))
        assert isinstance(plain, EmittedProgram)
        assert isinstance(recorded, EmittedProgram)
        recorded.record_steps(recorder)
        return plain, recorded, recorder

    return make


SHAPES: Mapping[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": "pre", "positional_encoding": "learned", "tied_embeddings": "none"},
    "a row a beam": {"disabled_passes": ("beams_as_queries",)},
}


def found(program: EmittedProgram, sources: list[tuple[int, ...]], chooser: Any, tokens: int) -> dict[int, Any]:
    rows = [Source(i, (*source, EOS), len(source) + 5, words=len(source)) for i, source in enumerate(sources)]
    return dict(search(program, [rows[:6], rows[6:]], chooser, max_batch_tokens=tokens))


TREES = BracketConstraint(range(4, 20), range(20, 36), range(36, 40), 101)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "chooser",
    [
        BeamSearch(4, 0.6, 2),
        BeamSearch(1, 0.6),
        Sampling(2, 0.6, 1.0, 0, 1.0, 1),
        BeamSearch(4, 0.6, 2, TREES),
        BeamSearch(4, 0.6, 2, SuppressedTokens((1, 9), 101), "power", True),
    ],
    ids=["beam", "greedy", "sample", "trees", "marian"],
)
def test_translations_are_the_same(two: Callable[..., Any], chooser: Any, shape: str) -> None:
    """Sentences of all lengths that leave, join and wait; batches of one, some and all."""
    plain, recorded, recorder = two(**SHAPES[shape])
    draw = random.Random(3)
    sources = [tuple(draw.choices(range(4, 101), k=draw.choice((1, 3, 9, 20)))) for _ in range(9)]
    for tokens in (60, 4096):
        theirs, mine = (found(program, sources, chooser, tokens) for program in (plain, recorded))
        for index, hypotheses in theirs.items():
            assert [each.tokens for each in mine[index]] == [each.tokens for each in hypotheses]
            for one, other in zip(mine[index], hypotheses, strict=True):
                assert one.log_probability == pytest.approx(other.log_probability, abs=1e-4)
    assert recorder.records < recorder.replays / 2


def _steps(
    program: EmittedProgram, source: Tensor, tokens: list[Tensor], count: int | None, masks: bool = False
) -> Iterator[Any]:
    state, draw = program.encode(source), torch.Generator().manual_seed(4)
    for token in tokens:
        if count is None:
            result, state = program.decode_step(state, token)
        elif masks:
            allowed = (torch.rand(len(token), 101, generator=draw) < 0.2).to(token.device)
            result, state = program.top_k(state, token, count, allowed)
        else:
            result, state = program.top_k(state, token, count)
        yield result


@pytest.mark.parametrize(
    ("shape", "count", "masks"),
    [("post", None, False), ("post", 5, False), ("post", 5, True), ("a row a beam", 5, True)],
)
def test_a_replay_is_the_step_to_the_last_bit(
    two: Callable[..., Any], shape: str, count: int | None, masks: bool
) -> None:
    """Past what the caches have room for at first; and but for padding it is the step that was never recorded."""
    plain, recorded, recorder = two(**SHAPES[shape])
    again = build(plain.spec, weights=plain.weights(), backend="eager")
    assert isinstance(again, EmittedProgram)
    again.record_steps(Recorder(tape=False))
    draw = torch.Generator().manual_seed(1)
    source = torch.randint(4, 101, (5, 9), generator=draw)
    tokens = [torch.randint(4, 101, (5,), generator=draw) for _ in range(20)]
    walks = (_steps(program, source, tokens, count, masks) for program in (recorded, again, plain))
    for replayed, run, apart in zip(*walks, strict=True):
        for one, other, third in zip(*(tree_flatten(each)[0] for each in (replayed, run, apart)), strict=True):
            assert torch.equal(one, other)
            torch.testing.assert_close(one, third, atol=1e-5, rtol=1e-5)
    # All but the one for which caches are made larger, while those of the state before are still held.
    assert (recorder.records, recorder.replays) == (2, 19)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_on_a_gpu_a_graph_is_the_step_to_the_last_bit(small: Callable[..., Spec], precision: str) -> None:
    spec = small()
    recorded, again = (build(spec, backend="eager", device="cuda", precision=precision) for _ in range(2))
    assert isinstance(recorded, EmittedProgram)
    assert isinstance(again, EmittedProgram)
    assert recorded._captured
    recorder = Recorder(tape=False)
    again.record_steps(recorder)
    source = torch.randint(4, 101, (5, 9), device="cuda")
    tokens = [torch.randint(4, 101, (5,), device="cuda") for _ in range(20)]
    for count, masks in ((None, False), (5, False), (5, True)):
        for one, other in zip(*(_steps(each, source, tokens, count, masks) for each in (recorded, again)), strict=True):
            for mine, theirs in zip(tree_flatten(one)[0], tree_flatten(other)[0], strict=True):
                assert torch.equal(mine, theirs)
    assert recorder.replays == 57


def test_a_step_that_asks_its_device_cannot_be_recorded(
    two: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in sees what a GPU would refuse: whether there are ties is such a question."""
    monkeypatch.setattr("compiler.program._is_asynchronous", lambda tensor: False)
    _, recorded, _ = two()
    with pytest.raises(AssertionError, match="the host waits"):
        list(_steps(recorded, torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS])], 5))


def test_what_may_come_next_is_known_without_asking_the_device() -> None:
    first, second = (
        TREES.begun([Source(i, (9, EOS), 40, words=n) for i, n in enumerate(words)], torch.device("cpu"))
        for words in ((1, 5), (9,))
    )
    with Tape() as tape:
        for step in range(40):
            tokens = first.allowed().float().argmax(1)
            first = first.after(torch.arange(len(tokens)) if step % 2 else None, tokens)
            if step == 20:
                first = first.joined(second)
    assert tape.operations
    assert first.allowed().nonzero().tolist()[:2] == [[0, EOS], [1, EOS]]


def test_states_that_live_side_by_side_do_not_meet(two: Callable[..., Any]) -> None:
    """Two searches over one program take turns, and nothing of theirs is moved away between their steps."""
    plain, recorded, recorder = two()
    sources = torch.randint(4, 101, (2, 2, 9), generator=torch.Generator().manual_seed(2))
    tokens = [torch.tensor([BOS, BOS]), *torch.randint(4, 101, (12, 2), generator=torch.Generator().manual_seed(3))]
    apart = [list(_steps(plain, source, tokens, None)) for source in sources]
    together = zip(*(_steps(recorded, source, tokens, None) for source in sources), strict=True)
    for step, both in enumerate(together):
        for number, mine in enumerate(both):
            torch.testing.assert_close(mine, apart[number][step], atol=1e-5, rtol=1e-5)
    assert recorder.replays


@torch.inference_mode()
def test_who_is_in_inference_mode_gets_the_same(two: Callable[..., Any]) -> None:
    """Side by side, so that steps are both replayed and run as they are."""
    plain, recorded, recorder = two()
    tokens = [torch.tensor([BOS, BOS]), *torch.randint(4, 101, (18, 2))]
    sources = torch.randint(4, 101, (2, 2, 9))
    both = [
        list(zip(*(_steps(each, source, tokens, 3) for source in sources), strict=True)) for each in (plain, recorded)
    ]
    for theirs, mine in zip(*both, strict=True):
        assert [each.tokens.tolist() for each in mine] == [each.tokens.tolist() for each in theirs]
    assert 0 < recorder.replays < 2 * len(tokens)


def test_results_are_the_callers_own(two: Callable[..., Any]) -> None:
    _, recorded, _ = two()
    steps = _steps(recorded, torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS]), torch.tensor([7])], None)
    first = next(steps)
    kept = first.clone()
    next(steps)
    assert torch.equal(first, kept)


def test_what_cannot_be_recorded_runs_as_it_is(two: Callable[..., Any]) -> None:
    plain, recorded, _ = two()

    def refuse(function: Callable[[], Results]) -> Any:
        function()
        raise RuntimeError("operation not permitted when stream is capturing")

    recorded.record_steps(refuse)
    given = torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS]), torch.tensor([7])], None
    with pytest.warns(UserWarning, match="cannot be recorded, and runs as it is: operation not permitted"):
        mine = list(_steps(recorded, *given))
    for one, other in zip(mine, _steps(plain, *given), strict=True):
        assert torch.equal(one, other)


def test_a_lack_of_memory_is_told_and_gives_all_of_it_back(two: Callable[..., Any]) -> None:
    """The search then takes smaller batches, which are recorded anew."""
    plain, recorded, recorder = two()
    sources = [tuple(range(4, 9 + index)) for index in range(9)]

    def short(function: Callable[[], Results]) -> Any:
        results, replay = recorder(function)
        if results["values"].shape[0] > 8:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return results, replay

    recorded.record_steps(short)
    beam = BeamSearch(2, 0.6)
    theirs, mine = (found(program, sources, beam, 4096) for program in (plain, recorded))
    assert {i: each[0].tokens for i, each in mine.items()} == {i: each[0].tokens for i, each in theirs.items()}
    assert recorder.records > 2


def test_caches_that_grow_in_each_step_are_not_recorded(two: Callable[..., Any]) -> None:
    plain, recorded, recorder = two(without=("plan_cache",))
    given = torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS]), torch.tensor([7])], 3
    for one, other in zip(_steps(recorded, *given), _steps(plain, *given), strict=True):
        assert torch.equal(one.tokens, other.tokens)
    assert not recorder.records


def test_only_so_many_buckets_are_kept(two: Callable[..., Any]) -> None:
    """The latest ones; each count of tokens is a bucket of its own."""
    _, recorded, recorder = two()

    def step(count: int) -> int:
        recorded.top_k(recorded.encode(torch.tensor([[5, EOS]])), torch.tensor([7]), count)
        return recorder.records

    assert [step(count) for count in range(MAX_RECORDINGS + 2, 0, -1)] == list(range(1, MAX_RECORDINGS + 3))
    assert step(1) == step(MAX_RECORDINGS) == MAX_RECORDINGS + 2
    assert step(MAX_RECORDINGS + 2) == MAX_RECORDINGS + 3


def test_buckets_are_at_most_a_half_too_large() -> None:
    for size in range(1, 5000):
        assert size <= bucket(size) <= max(size, 1.5 * size)
        assert bucket(bucket(size)) == bucket(size)
    assert len({bucket(size) for size in range(1, 4097)}) == 24


@pytest.mark.parametrize("levels", [1, 3, 40, 10**6])
def test_ties_are_broken_alike_whether_or_not_the_host_is_asked(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = -torch.randint(levels, (40, 60), generator=torch.Generator().manual_seed(levels)).float()
    rows[1] = torch.nan
    rows[2, 8:] = -torch.inf
    rows[3] = -torch.inf
    unasked = top_k(rows, 6)
    monkeypatch.undo()
    for one, other in zip(unasked, top_k(rows, 6), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
