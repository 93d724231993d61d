"""Compiled models for the kernels: instructions, packed weights and beam search. This module does not import torch."""

from __future__ import annotations

import ctypes
import json
import mmap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from compiler.instruction import SentenceState, Status
from compiler.kernels.library import POINTERS, InstructionStruct
from compiler.program import MAX_PREFIX_TOKENS, BeamResult, SearchRequest, TreeRules
from specs import BOS

if TYPE_CHECKING:
    from jaxtyping import Bool, Float32, Int64

_CODE, _WEIGHTS = "code.json", "weights.bin"
ALIGNMENT = 64
"""Alignment of each tensor in the packed weights, in bytes."""
MAX_DRAFTS = 3
"""Maximum number of draft tokens per step."""
MIN_DRAFTING_MODEL_BYTES = 1 << 20
"""Minimum size of the packed weights for drafting. In smaller models, draft tokens make the search slower."""


class Memory:
    """Block of memory whose first byte is at `address`. It is freed when this object is garbage-collected."""

    def __init__(self, size: int) -> None:
        """Allocate `size` bytes, all 0, in huge pages if possible, because huge pages make the kernels faster."""
        try:
            self._map = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            raise MemoryError(f"{size:,} bytes of weights do not fit into memory") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # the system may have no huge pages
                self._map.madvise(mmap.MADV_HUGEPAGE)
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    @property
    def content(self) -> memoryview:
        """The contents of the memory block."""
        return memoryview(self._map)[: self.size]


@dataclass(frozen=True)
class PackedModel:
    """Model that the kernels can run: instructions, and weights in the layout that this processor's kernels expect."""

    code: Mapping[str, Any]
    """The fields of `NativeCode`. An instruction is a mapping, and a pointer is None or an offset in the weights."""
    weights: Memory

    def write(self, folder: Path) -> None:
        """Write the model to a folder."""
        (folder / _CODE).write_text(json.dumps(self.code), encoding="utf-8")
        with (folder / _WEIGHTS).open("wb") as file:
            file.write(self.weights.content)

    @classmethod
    def read(cls, folder: Path) -> PackedModel:
        """Read a model that `write` has written to a folder."""
        code = json.loads((folder / _CODE).read_text(encoding="utf-8"))
        with (folder / _WEIGHTS).open("rb") as file:
            weights = Memory((folder / _WEIGHTS).stat().st_size)
            file.readinto(weights.content)
        return cls(code, weights)


class KernelState:
    """Decoder state in the memory of the C++ kernels.

    Each sentence has `beams` rows. During a search, the number of rows may differ between sentences, and `beams` is 0.
    """

    def __init__(self, program: KernelProgram, handle: int | None, sentences: int) -> None:
        self.program, self.handle, self.sentences, self.beams = program, handle, sentences, 1

    def __del__(self) -> None:
        self.program.library.zoo_free_state(self.handle)


class KernelProgram:
    """Compiled model that runs on the C++ kernels. It encodes sources and runs searches (see `SearchingDecoder`).

    Each method runs on the calling thread. Methods change states in place. A state is invalid after it has been passed
    to a method.

    Attributes:
        max_drafts: Maximum number of tokens that a greedy search drafts per step. This limit does not affect results.
    """

    backend = "native"
    concurrent = True
    handle: int | None = None

    def __init__(self, library: Any, model: PackedModel) -> None:
        """Load a packed model with the kernel library.

        Args:
            library: The kernel library that `load_kernels` returned.
            model: The model, packed by the same kernels.
        """
        self.library, self.model, self.vocabulary = library, model, model.code["vocabulary"]
        self.max_drafts = MAX_DRAFTS if model.weights.size >= MIN_DRAFTING_MODEL_BYTES else 0
        instructions = [self._instructions(model.code[part]) for part in ("encode", "step")]
        widths = [(ctypes.c_int32 * len(w))(*w) for w in (model.code[name] for name in ("buffers", "memory", "cache"))]
        arguments = [argument for array in (*instructions, *widths) for argument in (array, len(array))]
        handle = ctypes.c_void_p()
        raise_for(library.zoo_open(*arguments, ctypes.byref(handle)), "this model")
        self.handle = handle.value

    def __del__(self) -> None:
        if self.handle:
            self.library.zoo_close(self.handle)

    @property
    def searcher(self) -> Self:
        """The beam search of the kernels, which consists of methods of this class."""
        return self

    def can_search(self, beam: int, *, trees: bool, shortlist: bool) -> bool:
        """Return True, because the kernels support all searches of a `SearchingDecoder`."""
        return True

    def start_search(
        self,
        requests: Sequence[SearchRequest],
        shortlists: Sequence[Int64[np.ndarray, " listed"]] | None = None,
        rules: TreeRules | None = None,
    ) -> KernelState:
        """Encode the sources, and run the decoder on the prefixes (see `SearchingDecoder.start_search`)."""
        sources, prefixes, options, penalties = zip(*requests, strict=True)
        state = self._encode(_concatenated(sources), np.fromiter(map(len, sources), np.int32))
        if shortlists is not None:
            state = self.restrict(state, shortlists)
        totals, tokens = np.zeros(len(sources), np.float32), np.array([(BOS, *prefix) for prefix in prefixes], np.int64)
        for start in range(0, tokens.shape[1] - 1, MAX_PREFIX_TOKENS):
            read, forced = (tokens[:, first : first + MAX_PREFIX_TOKENS] for first in (start, start + 1))
            log_probabilities, new = np.empty((*forced.shape, self.vocabulary), np.float32), forced.shape[1]
            self._step(state, read[:, :new].flatten(), new, 1, log_probabilities=log_probabilities)
            for place, column in enumerate(forced.T):
                totals += log_probabilities[np.arange(len(sources)), place, column]
        longest = max(each.max_length for each in options) + 2
        table = np.zeros((len(options), longest))
        for row, each, values in zip(table, options, penalties, strict=True):
            row[: each.max_length + 2] = values[: each.max_length + 2]
        length = len(prefixes[0])
        fields = np.array(
            [(*each, length, token) for each, token in zip(options, tokens[:, -1].tolist(), strict=True)], np.int64
        )
        pointers = (each.ctypes.data for each in (fields, totals, table))
        raise_for(self.library.zoo_start_search(state.handle, *pointers, longest))
        state.beams = 0
        if rules is not None:
            self._constrain(state, rules, prefixes)
        return state

    def restrict(self, state: KernelState, tokens: Sequence[Int64[np.ndarray, " listed"]]) -> KernelState:
        """Restrict the output for each sentence to its list of tokens (see `ShortlistDecoder.restrict`)."""
        if len(tokens) != state.sentences:
            raise ValueError(f"got {len(tokens)} shortlists for {state.sentences} sentences: pass one per sentence")
        counts, listed = np.fromiter(map(len, tokens), np.int64), np.concatenate(tokens).astype(np.int64)
        raise_for(self.library.zoo_restrict(self.handle, state.handle, listed.ctypes.data, counts.ctypes.data))
        return state

    def _constrain(self, state: KernelState, rules: TreeRules, prefixes: Sequence[Sequence[int]]) -> None:
        """Restrict a search to well-formed parse trees that start with the prefixes. Call this before the first step.

        All prefixes have the same length.
        """
        if len(rules.sentences) != state.sentences:
            raise ValueError(f"got limits for {len(rules.sentences)} sentences, but the state has {state.sentences}")
        if rules.kinds.shape != (self.vocabulary,) or rules.kinds.dtype != np.int32:
            raise ValueError(f"`kinds` is {rules.kinds.dtype} {rules.kinds.shape}, not int32 ({self.vocabulary},)")
        counts = _concatenated([(each.words, each.constituents, len(each.word_tokens)) for each in rules.sentences])
        words = _concatenated([each.word_tokens for each in rules.sentences])
        forced = _concatenated(prefixes)
        arguments = (rules.kinds.ctypes.data, self.vocabulary, rules.max_opening_run, counts.ctypes.data)
        lists = (words.ctypes.data, forced.ctypes.data, len(prefixes[0]))
        raise_for(self.library.zoo_constrain(state.handle, *arguments, *lists))

    def search(
        self, state: KernelState, microseconds: int, allowed: Bool[np.ndarray, "2 V"] | None
    ) -> tuple[list[BeamResult], KernelState]:
        """Run search steps until a quarter of the sentences are done or the time limit is reached.

        See `SearchingDecoder.search`.
        """
        if allowed is not None and allowed.shape != (2, self.vocabulary):
            raise ValueError(f"`allowed` has the shape {allowed.shape}; it should be (2, {self.vocabulary})")
        numbers, count, scores = ctypes.c_void_p(), ctypes.c_int64(), ctypes.c_void_p()
        mask = None if allowed is None else allowed.ctypes.data
        outputs = (ctypes.byref(each) for each in (numbers, count, scores))
        arguments = (microseconds, self.max_drafts, mask, self.vocabulary, *outputs)
        raise_for(self.library.zoo_search(self.handle, state.handle, *arguments))
        if not count.value:
            return [], state
        results = _read_results(numbers.value or 0, count.value, scores.value or 0)
        state.sentences -= len(results)
        return results, state

    def keep(self, state: KernelState, sentences: Sequence[int]) -> KernelState:
        """Return the state with only the given sentences. The indices must be in ascending order."""
        kept = np.array(sentences, np.int64)
        raise_for(self.library.zoo_keep(state.handle, kept.ctypes.data, len(kept)))
        state.sentences = len(kept)
        return state

    def join(self, first: KernelState, second: KernelState) -> KernelState:
        """Return one state with the sentences of two states. Both states must have the same number of beams."""
        if first is second:
            raise ValueError("a state cannot be joined with itself")
        if first.beams != second.beams:
            raise ValueError(f"cannot join a state with {first.beams} beams and a state with {second.beams} beams")
        raise_for(self.library.zoo_join(first.handle, second.handle))
        first.sentences += second.sentences
        return first

    def _encode(self, tokens: Int64[np.ndarray, " tokens"], lengths: np.ndarray) -> KernelState:
        """Encode sources, given their concatenated tokens and their lengths. Return the state before the first step."""
        handle = ctypes.c_void_p()
        arguments = (tokens.ctypes.data, lengths.ctypes.data, len(lengths))
        raise_for(self.library.zoo_encode(self.handle, *arguments, ctypes.byref(handle)))
        return KernelState(self, handle.value, len(lengths))

    def _step(
        self,
        state: KernelState,
        tokens: Int64[np.ndarray, " tokens"],
        k: int,
        count: int,
        allowed: tuple[int | None, int] = (None, 0),
        log_probabilities: Float32[np.ndarray, "tokens V"] | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Read k tokens per row, and find the `count` most probable next tokens after each token.

        Args:
            state: The state before the tokens are read.
            tokens: The tokens to read, row by row.
            k: Number of tokens in each row.
            count: Number of next tokens to return for each token.
            allowed: Address of the mask of allowed tokens, or None, and the stride of the mask's rows.
            log_probabilities: Array that receives all log-probabilities. If None, they are not stored.

        Returns:
            The log-probabilities and IDs of the best tokens [tokens, count], and the log-probability of EOS [tokens].
        """
        rows = len(tokens)
        if rows != k * state.sentences * state.beams:
            problem = f"got {rows // k} rows of tokens for a state with {state.sentences * state.beams} rows"
            raise ValueError(f"{problem}: pass one row of tokens per row of the state")
        values, best = np.empty((rows, count), np.float32), np.empty((rows, count), np.int64)
        ends = np.empty(rows, np.float32)
        outputs: list[int | None] = [each.ctypes.data for each in (values, best, ends)]
        outputs.append(None if log_probabilities is None else log_probabilities.ctypes.data)
        raise_for(self.library.zoo_step(self.handle, state.handle, tokens.ctypes.data, k, count, *outputs, *allowed))
        return values, best, ends

    def _instructions(self, part: Sequence[Mapping[str, Any]]) -> Any:
        """Convert instructions to the kernels' structs, with addresses in place of offsets."""
        base = self.model.weights.address

        def struct(fields: Mapping[str, Any]) -> InstructionStruct:
            places = {name: base + fields[name] for name in POINTERS if fields[name] is not None}
            return InstructionStruct(**{name: value for name, value in fields.items() if value is not None} | places)

        return (InstructionStruct * len(part))(*map(struct, part))


def _concatenated(rows: Sequence[Sequence[int]]) -> Int64[np.ndarray, " tokens"]:
    return np.array([token for row in rows for token in row], np.int64)


def _read_results(numbers_address: int, count: int, scores_address: int) -> list[BeamResult]:
    """Read the search results from the arrays of the C++ struct `SearchResults`."""
    numbers = iter((ctypes.c_int64 * count).from_address(numbers_address))
    results: list[BeamResult] = []
    for sentence in numbers:
        reason, hypotheses = SentenceState(next(numbers)).name.lower(), next(numbers)
        scores = iter((ctypes.c_double * (2 * hypotheses)).from_address(scores_address))
        scores_address += 16 * hypotheses
        found = []
        for score, total in zip(scores, scores, strict=True):
            tokens = [next(numbers) for _ in range(next(numbers))]
            found.append((tokens, total, score))
        results.append(BeamResult(sentence, reason, found))
    return results


_ERRORS: Mapping[int, tuple[type[Exception], str]] = {
    Status.NO_MEMORY: (MemoryError, "the native kernels ran out of memory"),
    Status.OUT_OF_RANGE: (IndexError, "a token, position, row or sentence does not exist in the model or the state"),
    Status.TOO_LARGE: (ValueError, "a matrix is too large for exact sums in the native kernels"),
    Status.UNKNOWN: (ValueError, "the native kernels do not implement one of the instructions"),
}


def raise_for(status: int, subject: str = "this batch") -> None:
    """Raise an exception if a call into the kernels has failed.

    Args:
        status: The status that the call returned.
        subject: Name of the call's input, for the start of the error message.
    """
    if status != Status.DONE:
        error, problem = _ERRORS[status]
        raise error(f"{subject}: {problem}")
