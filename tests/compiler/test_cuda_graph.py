"""A decoder step that is recorded and replayed gives what it gives when it runs, whatever a search does with states.

Tests without a GPU record with `Tape`; how torch is asked to record a CUDA graph is tested with a stand-in for torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from compiler import TRANSLATE, EmittedProgram, Purpose, build, graphs, trainable
from compiler.backends.backend import BuildRequest
from compiler.backends.eager import record_steps_on_gpu
from compiler.cuda_graph import MAX_RECORDINGS, CudaGraphRecorder, Results, bucket
from compiler.stream import Stream
from compiler.switches import fast_float32
from specs import BOS, EOS, Spec

pytestmark = pytest.mark.integration
WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "equal")
"""Operations for whose result a host waits: a GPU would refuse to record them."""


class Tape(TorchDispatchMode):
    """Stand-in for a CUDA graph: replays operations on the tensors that they read and wrote, without Python code."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert operation._schema.name.removeprefix("aten::") not in WAITING, f"the host waits for {operation}"
        result = operation(*args, **(kwargs or {}))
        self.operations.append((operation, args, kwargs or {}, result))
        return result

    def play(self) -> None:
        for operation, args, kwargs, result in self.operations:
            again = tree_flatten(operation(*args, **kwargs))[0]
            for old, new in zip(tree_flatten(result)[0], again, strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


class TapeRecorder:
    """Recorder that counts, and replays a tape or, without `tape`, runs the function again."""

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
                with fast_float32():  # as when it was recorded
                    tape.play()
            else:
                function()

        return results, replay


@pytest.fixture(autouse=True)
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not ask the device whether there are ties."""
    monkeypatch.setattr("compiler.top_k._is_asynchronous", lambda tensor: True)


@pytest.fixture
def two(small: Callable[..., Spec]) -> Callable[..., tuple[EmittedProgram, EmittedProgram, TapeRecorder]]:
    """Return a program, the same program recorded, and its recorder."""

    def make(disabled: tuple[str, ...] = (), **architecture: object) -> Any:
        spec = small(**architecture)
        spec = spec.model_copy(
            update={"compilation": spec.compilation.model_copy(update={"disabled_passes": disabled})}
        )
        weights, recorder = build(spec).weights(), TapeRecorder()
        plain, recorded = (build(spec, weights=weights, backend="eager") for _ in range(2))
        assert isinstance(plain, EmittedProgram)
        assert isinstance(recorded, EmittedProgram)
        recorded.record_steps(recorder)
        return plain, recorded, recorder

    return make


ARCHITECTURES: Mapping[str, dict[str, Any]] = {
    "post": {},
    "pre": {"norm": {"placement": "pre"}, "positions": {"kind": "learned", "rows": 128}, "tied_embeddings": "none"},
    "row per beam": {"disabled": ("beams_as_queries",)},
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_search_with_changing_batches_gives_the_same(two: Callable[..., Any], architecture: str) -> None:
    """Sentences of different lengths leave and join; hypotheses are selected at random; batches of one to nine."""
    plain, recorded, recorder = two(**ARCHITECTURES[architecture])
    for beams in (1, 4):
        for actual, expected in zip(_search(recorded, beams), _search(plain, beams), strict=True):
            torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)
    assert recorder.records < recorder.replays / 2


def _search(program: EmittedProgram, beams: int) -> Iterator[Tensor]:
    draw = torch.Generator().manual_seed(beams)

    def start(sentences: int, length: int) -> Any:
        source = torch.randint(4, 101, (sentences, length), generator=draw)
        source[:, -1] = EOS
        _, state = program.top_k(program.encode(Stream.full(source)), torch.full((sentences, 1), BOS), beams)
        return program.select(state, torch.arange(sentences), torch.zeros(sentences, beams, dtype=torch.long))

    state, sentences = start(6, 9), 6
    for step in range(40):
        tokens = torch.randint(4, 101, (sentences * beams, 3 if 20 <= step < 28 else 1), generator=draw)
        allowed = torch.rand(tokens.numel(), 101, generator=draw) < 0.2 if step % 3 == 2 else None
        best, state = program.top_k(state, tokens, 2 * beams, allowed)
        yield from (best.values, best.ends)
        if tokens.shape[1] > 1:
            state = program.rewind(state, torch.randint(tokens.shape[1], (len(tokens),), generator=draw))
        if step % 10 == 4 and sentences > 1:  # one sentence is finished
            sentences -= 1
        kept = torch.arange(sentences)
        state = program.select(state, kept, torch.randint(beams, (sentences, beams), generator=draw))
        if step % 10 == 7:  # others take its place
            new = 1 + step // 10
            state, sentences = program.join(state, start(new, 4 * new)), sentences + new


def _steps(
    program: EmittedProgram, source: Tensor, tokens: list[Tensor], count: int | None, masks: bool = False
) -> Iterator[Any]:
    state, draw = program.encode(Stream.full(source)), torch.Generator().manual_seed(4)
    for token in tokens:
        if count is None:
            result, state = program.advance(state, token[:, None])
        else:
            allowed = (torch.rand(len(token), 101, generator=draw) < 0.2).to(token.device) if masks else None
            result, state = program.top_k(state, token[:, None], count, allowed)
        yield result


@pytest.mark.parametrize(
    ("architecture", "count", "masks"),
    [("post", None, False), ("post", 5, False), ("post", 5, True), ("row per beam", 5, True)],
)
def test_a_replay_is_bitwise_equal_to_the_recorded_step(
    two: Callable[..., Any], architecture: str, count: int | None, masks: bool
) -> None:
    """Also after the caches have grown. The step without padding is equal up to rounding."""
    plain, recorded, recorder = two(**ARCHITECTURES[architecture])
    again = build(plain.spec, weights=plain.weights(), backend="eager")
    assert isinstance(again, EmittedProgram)
    again.record_steps(TapeRecorder(tape=False))
    draw = torch.Generator().manual_seed(1)
    source = torch.randint(4, 101, (5, 9), generator=draw)
    tokens = [torch.randint(4, 101, (5,), generator=draw) for _ in range(20)]
    walks = (_steps(program, source, tokens, count, masks) for program in (recorded, again, plain))
    for results in zip(*walks, strict=True):
        for replayed, padded, unpadded in zip(*(tree_flatten(result)[0] for result in results), strict=True):
            assert torch.equal(replayed, padded)
            if unpadded.is_floating_point():
                torch.testing.assert_close(replayed, unpadded, atol=1e-5, rtol=1e-5)
    # The step that enlarges the caches is not replayed, because the caches of the state before are still alive.
    assert (recorder.records, recorder.replays) == (2, 19)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_cuda_graph_is_bitwise_equal_to_the_step(small: Callable[..., Spec], precision: str) -> None:
    spec = small()
    recorded, again = (build(spec, backend="eager", device="cuda", precision=precision) for _ in range(2))
    assert isinstance(recorded, EmittedProgram)
    assert isinstance(again, EmittedProgram)
    assert recorded._recorded
    recorder = TapeRecorder(tape=False)
    again.record_steps(recorder)
    source = torch.randint(4, 101, (5, 9), device="cuda")
    tokens = [torch.randint(4, 101, (5,), device="cuda") for _ in range(20)]
    for count, masks in ((None, False), (5, False), (5, True)):
        walks = (_steps(program, source, tokens, count, masks) for program in (recorded, again))
        for one, other in zip(*walks, strict=True):
            for actual, expected in zip(tree_flatten(one)[0], tree_flatten(other)[0], strict=True):
                assert torch.equal(actual, expected)
    assert recorder.replays == 57


def test_the_tape_refuses_a_step_that_waits_for_the_device(
    two: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compiler.top_k._is_asynchronous", lambda tensor: False)
    _, recorded, _ = two()
    with pytest.raises(AssertionError, match="the host waits"):
        list(_steps(recorded, torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS])], 5))


@pytest.mark.parametrize("inference", [False, True])
def test_states_of_two_searches_do_not_overwrite_each_other(two: Callable[..., Any], inference: bool) -> None:
    """In inference mode or not, so that steps are both replayed and run directly."""
    plain, recorded, recorder = two()
    sources = torch.randint(4, 101, (2, 2, 9), generator=torch.Generator().manual_seed(2))
    tokens = [torch.tensor([BOS, BOS]), *torch.randint(4, 101, (12, 2), generator=torch.Generator().manual_seed(3))]
    with torch.inference_mode(inference):
        expected = [list(_steps(plain, source, tokens, None)) for source in sources]
        together = zip(*(_steps(recorded, source, tokens, None) for source in sources), strict=True)
        for step, results in enumerate(together):
            for number, actual in enumerate(results):
                torch.testing.assert_close(actual, expected[number][step], atol=1e-5, rtol=1e-5)
    assert 0 < recorder.replays < 2 * len(tokens)


def test_results_are_copies(two: Callable[..., Any]) -> None:
    _, recorded, _ = two()
    steps = _steps(recorded, torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS]), torch.tensor([7])], None)
    first = next(steps)
    copy = first.clone()
    next(steps)
    assert torch.equal(first, copy)


def test_a_step_that_cannot_be_recorded_runs_directly(two: Callable[..., Any]) -> None:
    plain, recorded, _ = two()

    def refuse(function: Callable[[], Results]) -> Any:
        function()
        raise RuntimeError("operation not permitted when stream is capturing")

    recorded.record_steps(refuse)
    arguments = torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS]), torch.tensor([7])], None
    with pytest.warns(UserWarning, match="recording one failed: operation not permitted"):
        results = list(_steps(recorded, *arguments))
    for actual, expected in zip(results, _steps(plain, *arguments), strict=True):
        assert torch.equal(actual, expected)


def test_without_memory_the_error_is_raised_and_the_buffers_are_freed(two: Callable[..., Any]) -> None:
    """The search then tries smaller batches, which are recorded again."""
    plain, recorded, recorder = two()

    def limited(function: Callable[[], Results]) -> Any:
        results, replay = recorder(function)
        if results["values"].shape[0] > 8:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return results, replay

    recorded.record_steps(limited)
    for rows in (4, 9, 4):
        source, tokens = torch.randint(4, 101, (rows, 5)), [torch.full((rows,), BOS)]
        if rows > 8:
            with pytest.raises(torch.OutOfMemoryError):
                list(_steps(recorded, source, tokens, 3))
            assert not recorded._recorded._buffers
            continue
        for actual, expected in zip(_steps(recorded, source, tokens, 3), _steps(plain, source, tokens, 3), strict=True):
            torch.testing.assert_close(actual.values, expected.values, atol=1e-5, rtol=1e-5)
    assert recorder.records == 3


def test_steps_with_growing_caches_are_not_recorded(two: Callable[..., Any]) -> None:
    plain, recorded, recorder = two(disabled=("plan_cache",))
    arguments = torch.tensor([[5, 6, EOS]]), [torch.tensor([BOS]), torch.tensor([7])], 3
    for actual, expected in zip(_steps(recorded, *arguments), _steps(plain, *arguments), strict=True):
        assert torch.equal(actual.tokens, expected.tokens)
    assert not recorder.records


def test_only_the_latest_recordings_are_kept(two: Callable[..., Any]) -> None:
    """Each count of tokens needs its own recording."""
    _, recorded, recorder = two(N=1)

    def step(count: int) -> int:
        recorded.top_k(recorded.encode(Stream.pad([[5, EOS]])), torch.tensor([[7]]), count)
        return int(recorder.records)

    assert [step(count) for count in range(MAX_RECORDINGS + 2, 0, -1)] == list(range(1, MAX_RECORDINGS + 3))
    assert step(1) == step(MAX_RECORDINGS) == MAX_RECORDINGS + 2
    assert step(MAX_RECORDINGS + 2) == MAX_RECORDINGS + 3


def test_a_bucket_is_at_most_half_larger_than_the_size() -> None:
    for size in range(1, 5000):
        assert size <= bucket(size) <= max(size, 1.5 * size)
        assert bucket(bucket(size)) == bucket(size)
    assert len({bucket(size) for size in range(1, 4097)}) == 24


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace torch's streams and graphs by objects that list their calls, in order."""
    calls: list[str] = []

    class Stream:
        def __init__(self, device: Any = None) -> None:
            self.name = "own" if device else "caller's"

        def wait_stream(self, other: Stream) -> None:
            calls.append(f"{self.name} waits for {other.name}")

    class Graph:
        def capture_begin(self, pool: Any, capture_error_mode: str) -> None:
            assert capture_error_mode == "thread_local"
            calls.append(f"begin in {pool}")

        def capture_end(self) -> None:
            calls.append("end")
            if "fail" in calls:
                raise RuntimeError("the capture was invalidated")

        def pool(self) -> str:
            return "the pool"

        def replay(self) -> None:
            calls.append("replay")

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    return calls


def test_a_function_runs_once_before_it_is_recorded_and_all_graphs_share_a_pool(calls: list[str]) -> None:
    def work() -> dict[str, Tensor]:
        calls.append("work")
        return {}

    record = CudaGraphRecorder(torch.device("cuda"))
    expected = ["own waits for caller's", "work", "begin in None", "work", "end", "caller's waits for own"]
    _, replay = record(work)
    assert calls == expected
    record(work)
    assert calls == expected + [call.replace("None", "the pool") for call in expected]
    replay()
    assert calls[-1] == "replay"


def test_the_error_of_the_function_is_raised_not_that_of_the_recording(calls: list[str]) -> None:
    def work() -> dict[str, Tensor]:
        if "begin in None" in calls:
            calls.append("fail")
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return {}

    with pytest.raises(torch.OutOfMemoryError):
        CudaGraphRecorder(torch.device("cuda"))(work)
    assert calls[-2:] == ["fail", "end"]


@pytest.mark.parametrize("device", ["cpu", "cuda:1"])
def test_programs_are_recorded_on_a_gpu_if_they_only_translate(
    small: Callable[..., Spec], calls: list[str], device: str
) -> None:
    spec = small()
    program = build(spec, backend="eager")
    assert isinstance(program, EmittedProgram)
    request = BuildRequest(spec, program.graphs, program.weights(), device)
    assert (record_steps_on_gpu(program, request)._recorded is not None) == (device != "cpu")
    for purposes in ([Purpose.SCORE], [Purpose.TRAIN, *TRANSLATE]):
        other = trainable(spec, purposes) if Purpose.TRAIN in purposes else build(spec, purposes, backend="eager")
        assert isinstance(other, EmittedProgram)
        request = BuildRequest(spec, graphs(spec, purposes), other.weights(), device)
        assert record_steps_on_gpu(other, request)._recorded is None
