"""Beam search whose steps run entirely on the device. Each step decodes and selects tokens for many sentences.

On a GPU, a step is one CUDA graph. While a step runs, the host reads the slot states that the previous step has
written. The host waits for the running step only to read results. On any other device, the same functions run directly,
as a reference for the graphs in tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from compiler import cuda
from compiler.capture import CudaGraphRecorder, Recorder, run_directly
from compiler.emitted import EmittedProgram, Function
from compiler.graph import Graphs, Purpose
from compiler.instruction import SentenceState
from compiler.program import BeamResult, SearchRequest
from compiler.search_graphs import CACHE, LOGITS, MEMORY, SLOTS
from compiler.slots import BufferSizes, Field, SlotLayout, Slots
from compiler.update import PackedRows

MAX_BEAM = 16
"""The largest beam size that the kernels support."""
MAX_FREE, FREE_BYTES = 8, 4e9
"""Limits on the unused pools that are kept, so that their graphs need not be recorded again: the number of pools, and
the total size of their buffers in bytes. The pool that was used last is always kept."""
MIN_POSITIONS, MIN_TOKENS = 64, 32
"""The smallest number of positions in a slot, and the smallest number of source tokens that are encoded at once."""


@dataclass(eq=False)
class _Sentence:
    """Sentence in a beam search. Its slot is -1 until the first step that decodes the sentence."""

    request: SearchRequest
    slot: int = -1
    first_step: int = 0
    """Number of the pool's first step that decodes the sentence."""


@dataclass
class SearchState:
    """Sentences that are decoded together, and the pool that contains their slots (None before the first step)."""

    sentences: list[_Sentence]
    pool: _Pool | None = None


class Searcher:
    """Beam search on a GPU. It implements `SearchingDecoder`, but does not support parse trees or shortlists."""

    def __init__(
        self,
        program: EmittedProgram,
        graphs: Graphs,
        functions: Mapping[Purpose, Function],
        record: Recorder | None = None,
    ) -> None:
        """Create a searcher for a compiled model. The first search allocates device memory.

        Args:
            program: The compiled model, which contains the weights.
            graphs: The graphs that `search_graphs` returned.
            functions: The implementation of each graph.
            record: Function that records steps. If None, record CUDA graphs on a GPU, and run steps directly elsewhere.
        """
        self._program, self._functions = program, functions
        step, encode = graphs[Purpose.DECODE_STEP], graphs[Purpose.ENCODE]
        shapes = {name: type_.shape[1:] for name, type_ in step.inputs.items() if name != SLOTS}
        caches = {name: shape[-1].constant for name, shape in shapes.items() if name.endswith(CACHE)}
        self.sizes = BufferSizes(
            caches=caches,
            recurrent={name: [n.constant for n in shape] for name, shape in shapes.items() if name not in caches},
            memory=encode.types[encode.outputs[MEMORY]].shape[-1].constant,
            vocabulary=step.types[step.outputs[LOGITS]].shape[-1].constant,
        )
        on_gpu = program.device.type == "cuda"
        self.record: Recorder = record or (CudaGraphRecorder(program.device) if on_gpu else run_directly)
        self._encoders: dict[int, tuple[PackedRows, Tensor, Callable[[], object]]] = {}
        self._free: list[_Pool] = []
        self.pinned: list[Tensor] = []
        """Buffers on the host that recorded steps write to. They live as long as the search, because a step that is
        still running may write to the buffer of a pool that is no longer in use."""
        self._lock = Lock()

    def can_search(self, beam: int, *, trees: bool, shortlist: bool) -> bool:
        """Return whether the kernels support the search. If not, `zoo.generation.beam_search` runs it step by step."""
        return beam <= MAX_BEAM and not trees and not shortlist

    def start_search(
        self, requests: Sequence[SearchRequest], shortlists: object = None, rules: object = None
    ) -> SearchState:
        """Return the state of a new search (see `SearchingDecoder.start_search`). `search` will encode the sources."""
        return SearchState([_Sentence(each) for each in requests])

    def search(
        self, state: SearchState, microseconds: int, allowed: npt.NDArray[np.bool_] | None
    ) -> tuple[list[BeamResult], SearchState]:
        """Run search steps until a quarter of the sentences are done or the time limit is reached.

        See `SearchingDecoder.search`.
        """
        with self._lock, torch.inference_mode(False), torch.no_grad():
            try:
                return self._search(state, microseconds, allowed) if state.sentences else [], state
            except Exception:  # the memory may be exhausted
                self._free.clear()
                self._encoders.clear()
                raise

    def _search(self, state: SearchState, microseconds: int, allowed: npt.NDArray[np.bool_] | None) -> list[BeamResult]:
        end = time.perf_counter() + microseconds / 1e6
        pool = self._admit(state, allowed)
        while True:
            pool.step()
            states = pool.states_before()
            done = []
            if max(states) > SentenceState.RUNNING:
                done = [
                    each
                    for each in state.sentences
                    if each.first_step <= pool.known_step and states[each.slot] > SentenceState.RUNNING
                ]
            if 4 * len(done) >= len(state.sentences) or time.perf_counter() >= end:
                break
        results = self._results(state, pool, done) if done else []
        self._remove(state, done)
        return results

    def keep(self, state: SearchState, sentences: Sequence[int]) -> SearchState:
        """Return the state with only the given sentences. The indices must be in ascending order."""
        kept = set(sentences)
        with self._lock:
            self._remove(state, [each for number, each in enumerate(state.sentences) if number not in kept])
        return state

    def join(self, first: SearchState, second: SearchState) -> SearchState:
        """Return `first` with the sentences of `second` appended. `second` must not have run any search steps."""
        if second.pool:
            raise ValueError("the search of the second state has already begun: join it before its first step")
        first.sentences += second.sentences
        return first

    def run(self, purpose: Purpose, inputs: Mapping[str, Any]) -> Tensor:
        """Run the encoder or a decoder step. Return the encoder's output, or the step's logits."""
        outputs = self._functions[purpose](self._program, inputs)
        return outputs[MEMORY if purpose is Purpose.ENCODE else LOGITS]

    def encoder(self, tokens: int) -> tuple[PackedRows, Tensor, Callable[[], object]]:
        """Return an encoder for at least `tokens` tokens: its input buffer, its output, and a function that runs it."""
        length = _rounded(tokens, MIN_TOKENS)
        if length not in self._encoders:
            like = next(self._program.parameters())
            rows, output = PackedRows(length, 0, like.device), like.new_empty(length, self.sizes.memory)
            encode = self.record(lambda: output.copy_(self.run(Purpose.ENCODE, rows.inputs)[0]))
            self._encoders[length] = rows, output, encode
        return self._encoders[length]

    def new_pool(self, layout: SlotLayout, count: int) -> _Pool:
        """Return a pool of free slots. Reuse an unused pool if there is one of this size."""
        for number, pool in enumerate(self._free):
            if pool.layout == layout and pool.slots.count == count:
                return self._free.pop(number)
        return _Pool(self, layout, count, next(self._program.parameters()))

    def _admit(self, state: SearchState, allowed: npt.NDArray[np.bool_] | None) -> _Pool:
        """Give slots to waiting sentences, and return the pool. First move to a larger or smaller pool if necessary."""
        pool, count = state.pool, _rounded(len(state.sentences), 1)
        waiting = [each for each in state.sentences if each.slot < 0]
        layout = _layout(waiting) if waiting or pool is None else pool.layout
        if pool:
            layout = SlotLayout(*map(max, astuple(pool.layout), astuple(layout)))
        if pool is None or layout != pool.layout or count > pool.slots.count or 4 * count <= pool.slots.count:
            larger = self.new_pool(layout, count)
            if pool:
                larger.take(pool, [each for each in state.sentences if each.slot >= 0])
                self._return_pool(pool)
            state.pool = pool = larger
        pool.allow(allowed)
        if waiting:
            pool.enter(waiting)
        return pool

    def _results(self, state: SearchState, pool: _Pool, done: Sequence[_Sentence]) -> list[BeamResult]:
        numbers = {each: number for number, each in enumerate(state.sentences)}
        slots = pool.read([each.slot for each in done])
        reasons = [SentenceState(state).name.lower() for state in slots[:, Field.STATE].tolist()]
        return [
            BeamResult(numbers[each], reason, found)
            for each, reason, found in zip(done, reasons, pool.layout.read(slots), strict=True)
        ]

    def _remove(self, state: SearchState, sentences: Sequence[_Sentence]) -> None:
        """Remove sentences from a search, and free their slots. If no sentences remain, make the pool available again.

        The caller must hold the lock.
        """
        removed = set(sentences)
        state.sentences = [each for each in state.sentences if each not in removed]
        if state.pool:
            state.pool.release(sentences)
        if state.pool and not state.sentences:
            self._return_pool(state.pool)
            state.pool = None

    def _return_pool(self, pool: _Pool) -> None:
        pool.reset()
        self._free = [*self._free, pool][-MAX_FREE:]
        while sum(each.slots.bytes for each in self._free) > FREE_BYTES and len(self._free) > 1:
            self._free.pop(0)


class _Pool:
    """Slots for sentences, and the decoder step that advances all slots. On a GPU, the step is a CUDA graph."""

    def __init__(self, searcher: Searcher, layout: SlotLayout, count: int, like: Tensor) -> None:
        self.searcher, self.layout = searcher, layout
        self.slots = Slots(layout, count, like, searcher.sizes)
        self._inputs = {SLOTS: self.slots, **self.slots.caches, **self.slots.recurrent}
        self._on_gpu = like.is_cuda
        self._host = torch.zeros(count, dtype=torch.int32, pin_memory=self._on_gpu)
        searcher.pinned.append(self._host)
        self._replay: Callable[[], object] | None = None
        self._allowed: object = None
        self.steps = self.known_step = 0
        """Number of steps that were started, and number of the last step whose states the host has read."""
        self.reset()

    def reset(self) -> None:
        """Free all slots."""
        self.slots.table[:, Field.STATE] = SentenceState.FREE
        self._unused = list(range(self.slots.count))[::-1]
        self._events: list[torch.cuda.Event] = []

    def allow(self, allowed: npt.NDArray[np.bool_] | None) -> None:
        """Set the mask of permitted tokens. None permits all tokens."""
        if allowed is not self._allowed:
            self._allowed = allowed
            self.slots.allowed.copy_(
                torch.ones_like(self.slots.allowed) if allowed is None else torch.from_numpy(allowed)
            )

    def enter(self, sentences: Sequence[_Sentence]) -> None:
        """Encode sentences, and put each into a free slot."""
        slots = self._assign(sentences)
        sources, prefixes, options, penalties = zip(*(each.request for each in sentences), strict=True)
        lengths = np.array([len(source) for source in sources])
        packed, output, encode = self.searcher.encoder(int(lengths.sum()))
        packed.buffer.copy_(packed.host_sources(sources), non_blocking=True)
        encode()
        # The index of each token in the concatenated memory of all slots.
        starts = slots * self.layout.source - lengths.cumsum() + lengths
        place = np.repeat(starts, lengths) + np.arange(lengths.sum())
        memory = self.slots.memory.view(-1, self.slots.memory.shape[2])
        memory.index_copy_(0, self._sent(place), output[: len(place)])
        rows = self.layout.new(options, lengths.tolist(), prefixes, penalties)
        self.slots.table.index_copy_(0, self._sent(slots), self._sent(rows))

    def take(self, other: _Pool, sentences: Sequence[_Sentence]) -> None:
        """Move sentences from another pool to this pool. The slots of this pool must be at least as large."""
        if not sentences:
            return
        old = self._sent(np.array([each.slot for each in sentences]))
        new = self._sent(self._assign(sentences))
        slots, before = self.slots, other.slots
        moved = slots.table.new_zeros(len(sentences), self.layout.columns.width)
        moved[:, self.layout.columns.totals : self.layout.columns.forced].view(torch.float32).fill_(-torch.inf)
        for here, there in zip(self.layout.arrays(moved), other.layout.arrays(before.table[old]), strict=True):
            here[tuple(map(slice, there.shape))] = there
        slots.table.index_copy_(0, new, moved)
        slots.memory[new, : before.memory.shape[1]] = before.memory[old]
        for into, source in zip(slots.by_slot, before.by_slot, strict=True):
            into[new, : source.shape[1], : source.shape[2]] = source[old]

    def _assign(self, sentences: Sequence[_Sentence]) -> npt.NDArray[np.int64]:
        """Assign a free slot to each sentence, and return the slot numbers."""
        for each in sentences:
            each.slot, each.first_step = self._unused.pop(), self.steps + 1
        return np.array([each.slot for each in sentences])

    def release(self, sentences: Sequence[_Sentence]) -> None:
        """Free the slots of sentences. An unfinished search continues until another sentence takes the slot."""
        for each in sentences:
            if each.slot >= 0:
                self._unused.append(each.slot)
                each.slot = -1

    def step(self) -> None:
        """Start a decoder step for all slots, without waiting for its results."""
        if self._replay is None:
            changed = (self.slots.table, *self.slots.recurrent.values())  # the run before the recording changes them
            before = [each.clone() for each in changed]
            self._replay = self.searcher.record(self._step)
            for each, value in zip(changed, before, strict=True):
                each.copy_(value)
        self._replay()
        self.steps += 1
        if self._on_gpu:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(self.slots.table.device))
            self._events.append(event)

    def states_before(self) -> list[int]:
        """Return the `SentenceState` of each slot, as last copied to the host, without waiting for the running step."""
        if not self._on_gpu:
            self.known_step = self.steps
        elif len(self._events) > 1:
            self._events.pop(0).synchronize()
            self.known_step = self.steps - len(self._events)
        return self._host.tolist()

    def read(self, slots: Sequence[int]) -> npt.NDArray[np.int32]:
        """Wait for the device, and copy the fields and finished hypotheses of the given slots to the host."""
        table = self.slots.table[:, : self.layout.columns.sequences]
        chosen = table if len(slots) == self.slots.count == 1 else table[self._sent(np.array(slots))]
        rows: npt.NDArray[np.int32] = chosen.cpu().numpy()
        return rows

    def _step(self) -> None:
        logits = self.searcher.run(Purpose.DECODE_STEP, self._inputs)
        cuda.search.select(self.slots, logits.flatten(0, 1).contiguous())
        self._host.copy_(self.slots.states, non_blocking=True)

    def _sent(self, array: npt.NDArray[Any]) -> Tensor:
        """Copy an array to the device, and return the tensor."""
        host = torch.empty(array.shape, dtype=torch.from_numpy(array).dtype, pin_memory=self._on_gpu)
        host.numpy()[...] = array  # torch would divide the copy between threads, which can take longer than the copy
        return host.to(self.slots.table.device, non_blocking=True)


def _layout(sentences: Sequence[_Sentence]) -> SlotLayout:
    """Return a slot layout that is large enough for the given sentences. Sizes are rounded up."""
    options = [each.request.options for each in sentences]
    return SlotLayout(
        rows=_rounded(max(each.size for each in options), 1),
        capacity=_rounded(max(each.max_length for each in options) + 2, MIN_POSITIONS),
        source=_rounded(max(len(each.request.source) for each in sentences), MIN_POSITIONS),
        n_best=_rounded(max(each.n_best for each in options), 1),
        candidates=_rounded(max(each.candidates for each in options), 1),
    )


def _rounded(number: int, least: int) -> int:
    """Round a number up to a power of two that is at least `least`."""
    return max(least, 1 << (number - 1).bit_length())
