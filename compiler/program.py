"""Interfaces of a program, the runnable model that a backend builds. Search and scoring call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int, Int64
from torch import Tensor

from compiler.graph import Graphs
from compiler.stream import Stream
from specs import BOS, EOS, PAD, Spec

State = TypeVar("State")


class TopK(NamedTuple):
    """The most probable next tokens of each row. Of equally probable tokens, the one with the lower ID comes first.

    PAD, BOS and tokens that are not allowed are never included. If a decoder step reads k tokens per hypothesis, the
    result has k successive rows for each hypothesis: one after each token.
    """

    values: Float32[Tensor, "rows count"]
    """The log-probabilities of `tokens`, descending; -inf if a row has fewer than `count` tokens to choose from."""
    tokens: Int[Tensor, "rows count"]
    ends: Float32[Tensor, " rows"]
    """The log-probability of EOS, even if EOS is not in `tokens`; -inf if EOS is not allowed."""


class StepwiseDecoder(Protocol[State]):
    """Methods of a program that a search calls: encode sources, read and take back tokens, and reorder hypotheses.

    Each row of a state is a hypothesis. The hypotheses of a sentence are consecutive rows, and all sentences have the
    same number of rows. A state is invalid after it was passed to any of these methods.
    """

    def encode(self, source: Stream, /) -> State:
        """Encode sources that end with EOS. Return the state before the first token, with one row per sentence."""

    def advance(self, state: State, tokens: Int[Tensor, "rows k"], /) -> tuple[Float32[Tensor, "rows k V"], State]:
        """Read k tokens per row. Return the log-probabilities of the next token after each, and the next state.

        Args:
            state: The state that the tokens continue. Its rows may have read different numbers of tokens.
            tokens: The tokens; the first that a row reads is BOS.
        """

    def top_k(
        self,
        state: State,
        tokens: Int[Tensor, "rows k"],
        count: int,
        allowed: Bool[Tensor, "#rows·k V"] | None = None,
        /,
    ) -> tuple[TopK, State]:
        """Read k tokens per row. Return the `count` most probable next tokens after each, and the next state.

        Args:
            state: The state that the tokens continue.
            tokens: The tokens; the first that a row reads is BOS.
            count: How many tokens to return after each token.
            allowed: True for the tokens that may be returned. One row for all tokens that are read, or one row for each
                of them. None: all tokens may be returned.

        Returns:
            The most probable tokens, in k rows for each row of the state, and the next state.
        """

    def rewind(self, state: State, counts: Int[Tensor, " rows"], /) -> State:
        """Take back the last tokens of each row. Return the state as if these tokens had never been read.

        Only tokens that the last `advance` or `top_k` has read can be taken back, because recurrences, convolutions and
        restricted attention store no earlier states. `select` and `join` may be called in between.

        Args:
            state: The state.
            counts: How many tokens to take back from each row. Pass a tensor on the CPU, because the CPU reads the
                values.
        """

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"], /) -> State:
        """Return the state of some of the sentences. New rows continue the hypotheses of old rows.

        Args:
            state: The state to select from.
            sentences: The indices of the sentences to keep, ascending. If some are dropped, pass a tensor on the CPU,
                because reading a GPU tensor would wait for the GPU.
            parents: For each new row, the index of the row that it continues, counted within the sentence.
        """

    def join(self, first: State, second: State, /) -> State:
        """Return one state with the sentences of `first`, then those of `second`.

        Both must have the same number of rows per sentence.
        """


class BeamOptions(NamedTuple):
    """Options of the beam search for one sentence in a `SearchingDecoder`."""

    size: int
    candidates: int
    """Number of continuations that a step takes."""
    n_best: int
    full: bool
    """Whether the stopping rule is "full" (see `zoo.generation.beam_search.BeamSearch`)."""
    shrinking: bool
    """Whether the stopping rule is "shrinking"."""
    length: int
    """Number of tokens of the prefix."""
    min_length: int
    """Number of tokens without EOS that a hypothesis needs before EOS is allowed."""
    max_length: int
    """Maximum number of tokens of a hypothesis, without EOS."""
    token: int
    """The last token of the prefix, or BOS, which the decoder has not read yet."""


class BeamResult(NamedTuple):
    """Result of the beam search for one sentence in a `SearchingDecoder`."""

    sentence: int
    """Index of the sentence in the state."""
    stop_reason: str
    hypotheses: list[tuple[list[int], float, float]]
    """Tokens without prefix and EOS, log-probability and score of each finished hypothesis, best first."""


@runtime_checkable
class SearchingDecoder(StepwiseDecoder[State], Protocol[State]):
    """Methods of a program that can run many steps of a beam search in one call."""

    def start_search(
        self,
        state: State,
        options: Sequence[BeamOptions],
        totals: Float32[Tensor, " sentences"],
        penalties: Sequence[Sequence[float]],
        /,
    ) -> State:
        """Return the state for `search`. Afterwards, only `search`, `keep` and `join` accept it.

        Args:
            state: A state with one row per sentence.
            options: Options of each sentence.
            totals: Log-probability of each prefix.
            penalties: For each sentence, the length penalties of 0 to `max_length` + 1 tokens, or more.
        """

    def search(
        self, state: State, microseconds: int, allowed: Bool[Tensor, "2 V"] | None, /
    ) -> tuple[list[BeamResult], State]:
        """Run steps until a sentence is done. Return the results of such sentences, and the state without them.

        Args:
            state: The state.
            microseconds: Return after at least one step if this time has passed.
            allowed: True for the tokens that may be chosen: by hypotheses that are too short for EOS, and by others.
        """

    def keep(self, state: State, sentences: Int[Tensor, " kept"], /) -> State:
        """Return the state of some of the sentences, whose indices are ascending."""


@runtime_checkable
class ShortlistDecoder(StepwiseDecoder[State], Protocol[State]):
    """Method of a program that can restrict each sentence to a list of tokens, and computes only their logits."""

    def restrict(self, state: State, tokens: Sequence[Int64[np.ndarray, " listed"]], /) -> State:
        """Return the state whose sentences choose their tokens from lists.

        Log-probabilities are normalised over the list of the sentence. Other tokens have the log-probability -inf.

        Args:
            state: A state that has read no token.
            tokens: For each sentence, the IDs of the tokens in ascending order, with EOS.
        """


class Scorer(Protocol):
    """Interface of a program that computes the probabilities of given translations."""

    @property
    def concurrent(self) -> bool:
        """Whether several threads can use the program at the same time, and are faster than one thread."""

    def score(self, source: Stream, target: Int[Tensor, "rows 1+target"], /) -> Float32[Tensor, "rows target"]:
        """Return the log-probability of each token in target[:, 1:], in nats. The value is 0 at PAD.

        A target starts with BOS and ends with EOS, after which PAD may follow.
        """


class TranslationModel(StepwiseDecoder[Any], Scorer, Protocol):
    """Interface of a model that can translate. Programs and ensembles of programs implement it."""


class Program(TranslationModel, Protocol):
    """Program that a backend has built from the graphs of a spec. `compiler.build` returns one."""

    spec: Spec
    graphs: Graphs
    """The graphs that the program computes, after all passes."""
    backend: str
    """The name of the backend that built the program."""
    precision: str

    @property
    def device(self) -> torch.device:
        """The device of the weights."""

    def weights(self) -> dict[str, Tensor]:
        """Return the weights as a weights file stores them: one tensor for each matrix that the paper names.

        Matrices that are tied are one tensor.
        """


def top_k(
    log_probabilities: Float32[Tensor, "rows vocabulary"],
    count: int,
    allowed: Bool[Tensor, "#rows vocabulary"] | None = None,
) -> TopK:
    """Return the `count` most probable tokens of each row. If several are equally probable, prefer the lowest IDs.

    Tokens that are not allowed are never returned. The log-probabilities of the other tokens do not change.

    Args:
        log_probabilities: The log-probabilities of all tokens, in nats.
        count: How many tokens to return for each row. If the vocabulary has fewer tokens, all of them are returned.
        allowed: True for the tokens that may be returned. None: all tokens may be returned.
    """
    if allowed is not None:
        log_probabilities = torch.where(allowed, log_probabilities, -torch.inf)
    vocabulary, ends = log_probabilities.shape[1], log_probabilities[:, EOS]
    # Take three more: PAD and BOS may be among the first, and the third one shows whether there is a tie at the end.
    _, tokens = log_probabilities.topk(min(count + 3, vocabulary), dim=1)
    values, tokens = _sort_by_value_and_id(log_probabilities, tokens)
    if values.shape[1] <= count:
        return TopK(values, tokens, ends)
    last = values[:, count - 1]
    is_tied = (last == values[:, count]) & last.isfinite()
    values, tokens = values[:, :count], tokens[:, :count]
    # torch.topk may return any of several equal values, so choose those with the lowest IDs. On a GPU, do this for
    # every row, because testing whether there are ties would wait for the GPU.
    if _is_asynchronous(log_probabilities):
        lowest = _lowest_ids(log_probabilities, last.unsqueeze(1), count)
        exact = _sort_by_value_and_id(log_probabilities, lowest)
        values, tokens = (torch.where(is_tied.unsqueeze(1), a, b) for a, b in zip(exact, (values, tokens), strict=True))
    elif bool(is_tied.any()):
        values, tokens = values.clone(), tokens.clone()
        rows = log_probabilities[is_tied]
        lowest = _lowest_ids(rows, last[is_tied].unsqueeze(1), count)
        values[is_tied], tokens[is_tied] = _sort_by_value_and_id(rows, lowest)
    return TopK(values, tokens, ends)


def _lowest_ids(
    rows: Float32[Tensor, "rows vocabulary"], last: Float32[Tensor, "rows 1"], count: int
) -> Int[Tensor, "rows count"]:
    """Return the most probable tokens of each row, in any order. Of tokens with a probability of `last`, use low IDs.

    Args:
        rows: The log-probabilities of all tokens.
        last: For each row, the log-probability of the least probable token to return.
        count: How many tokens to return.
    """
    size = rows.shape[1]
    negative_id = -torch.arange(size, dtype=torch.int32, device=rows.device)
    excluded = torch.full_like(rows, -size, dtype=torch.int32)
    priority = torch.where(rows == last, negative_id, excluded.masked_fill(rows > last, 1))
    for token in (PAD, BOS):
        priority[:, token] = -size
    return priority.topk(count, dim=1).indices


def _sort_by_value_and_id(
    log_probabilities: Float32[Tensor, "rows vocabulary"], tokens: Int[Tensor, "rows chosen"]
) -> tuple[Float32[Tensor, "rows chosen"], Int[Tensor, "rows chosen"]]:
    tokens = tokens.sort(dim=1).values
    values = log_probabilities.gather(1, tokens)
    values = values.masked_fill((tokens == PAD) | (tokens == BOS), -torch.inf)
    values, order = values.sort(dim=1, descending=True, stable=True)
    return values, tokens.gather(1, order)


def _is_asynchronous(tensor: Tensor) -> bool:
    """Return whether operations on the tensor run asynchronously, as on a GPU."""
    return tensor.is_cuda
