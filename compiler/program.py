"""Interfaces of a program, the runnable model that a backend builds. Search and scoring use these interfaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from jaxtyping import Bool, Float32, Int, Int32, Int64
    from torch import Tensor

    from compiler.graph import Graphs
    from compiler.padded_batch import PaddedBatch
    from specs import Spec

State = TypeVar("State")
MAX_PREFIX_TOKENS = 8
"""Maximum number of prefix tokens that a search reads in one step. A larger number would need more memory for logits,
and TensorRT engines read at most 8 tokens per step."""


class TopK(NamedTuple):
    """The most probable next tokens for each row. If tokens are equally probable, the lowest ID comes first.

    PAD, BOS and tokens that are not allowed are never included. If a decoder step reads k tokens per hypothesis, the
    result has k consecutive rows for each hypothesis: one row for each token.
    """

    values: Float32[Tensor, "rows count"]
    """The log-probabilities of `tokens`, in descending order. If fewer than `count` are allowed, the rest are -inf."""
    tokens: Int[Tensor, "rows count"]
    ends: Float32[Tensor, " rows"]
    """The log-probability of EOS, even if EOS is not in `tokens`. It is -inf if EOS is not allowed."""


class StepwiseDecoder(Protocol[State]):
    """Interface of a compiled model that decodes step by step. Search algorithms use this interface.

    Each row of a state is a hypothesis. The hypotheses for a sentence are consecutive rows, and all sentences have the
    same number of rows. A state is invalid after it has been passed to any of these methods.
    """

    def encode(self, source: PaddedBatch, /) -> State:
        """Encode sources that end with EOS. Return the state before the first token, with one row per sentence."""

    def advance(self, state: State, tokens: Int[Tensor, "rows k"], /) -> tuple[Float32[Tensor, "rows k V"], State]:
        """Read k tokens per row. Return the log-probabilities of the next token after each token, and the next state.

        Args:
            state: The state before the tokens are read. Its sentences may have read different numbers of tokens.
            tokens: The tokens to read. The first token that a row reads is BOS.
        """

    def top_k(
        self,
        state: State,
        tokens: Int[Tensor, "rows k"],
        count: int,
        allowed: Bool[Tensor, "#rows·k V"] | None = None,
        /,
    ) -> tuple[TopK, State]:
        """Read k tokens per row. Return the `count` most probable next tokens after each token, and the next state.

        Args:
            state: The state before the tokens are read.
            tokens: The tokens to read. The first token that a row reads is BOS.
            count: How many tokens to return after each token.
            allowed: A mask that is True for the tokens that may be returned. It has one row for all tokens that are
                read, or one row for each of these tokens. If None, all tokens may be returned.

        Returns:
            The most probable tokens, in k rows for each row of the state, and the next state.
        """

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"], /) -> State:
        """Return the state with only the given sentences. `parents` selects and reorders their hypotheses.

        Args:
            state: The state to select from.
            sentences: The indices of the sentences to keep, in ascending order. If any sentences are dropped, pass a
                tensor on the CPU, because reading a GPU tensor would wait for the GPU.
            parents: For each new row, the index of the row that it continues, counted within the sentence.
        """

    def join(self, first: State, second: State, /) -> State:
        """Return one state with the sentences of `first`, followed by the sentences of `second`.

        Both states must have the same number of rows per sentence.
        """


class DecoderOnly(Protocol):
    """Interface of a compiled model without an encoder. `begin` replaces `StepwiseDecoder.encode`."""

    def begin(self, rows: int, /) -> Any:
        """Return the state before the first token, with one row per sentence."""


class BeamOptions(NamedTuple):
    """Beam search options for one sentence in a `SearchingDecoder`."""

    size: int
    candidates: int
    """Number of continuations that a step selects."""
    n_best: int
    full: bool
    """Whether the stopping rule is "full" (see `zoo.generation.beam_search.BeamSearch`)."""
    shrinking: bool
    """Whether the stopping rule is "shrinking"."""
    min_length: int
    """Minimum number of tokens in a hypothesis, without EOS."""
    max_length: int
    """Maximum number of tokens in a hypothesis, without EOS."""


class TreeLimits(NamedTuple):
    """Constraints on the parse trees that the decoder may generate for one sentence."""

    words: int
    """Number of words."""
    constituents: int
    """Maximum number of constituents."""
    word_tokens: Sequence[int]
    """Required token for each word. PAD permits any word token. An empty sequence permits any words."""


class TreeRules(NamedTuple):
    """Constraints that ensure that a `SearchingDecoder` generates valid parse trees (see `BracketConstraint`)."""

    kinds: Int32[np.ndarray, " V"]
    """Kind of each token: 1 is a word, 2 n + 2 and 2 n + 3 are label n's brackets, and 0 is any other token."""
    max_opening_run: int
    """Maximum number of consecutive opening brackets."""
    sentences: Sequence[TreeLimits]


class SearchRequest(NamedTuple):
    """Sentence for which a `SearchingDecoder` searches for the best translations."""

    source: Sequence[int]
    """Token IDs, ending with EOS."""
    prefix: Sequence[int]
    """Tokens that the hypotheses start with."""
    options: BeamOptions
    penalties: Sequence[float]
    """The length penalties for 0, 1, 2, ... tokens, at least up to `max_length` + 1."""


class BeamResult(NamedTuple):
    """Result of the beam search for one sentence in a `SearchingDecoder`."""

    sentence: int
    """Index of the sentence in the state."""
    stop_reason: str
    hypotheses: list[tuple[list[int], float, float]]
    """Tokens (without prefix and EOS), log-probability and score of each finished hypothesis, best first."""


class SearchingDecoder(Protocol[State]):
    """Interface of a beam search that runs many steps per call. It uses numpy arrays instead of tensors.

    A state is invalid after it has been passed to any of these methods.
    """

    def can_search(self, beam: int, *, trees: bool, shortlist: bool) -> bool:
        """Return whether the search supports this beam size and, if requested, parse trees and shortlists."""

    def start_search(
        self,
        requests: Sequence[SearchRequest],
        shortlists: Sequence[Int64[np.ndarray, " listed"]] | None = None,
        rules: TreeRules | None = None,
        /,
    ) -> State:
        """Return the state before the first step of the search.

        Args:
            requests: The sentences. All prefixes have the same length.
            shortlists: For each sentence, the tokens that its output may contain (see `ShortlistDecoder.restrict`).
                If None, an output may contain all tokens.
            rules: Rules that restrict the search to well-formed parse trees. The prefixes must be valid.
        """

    def search(
        self, state: State, microseconds: int, allowed: Bool[np.ndarray, "2 V"] | None, /
    ) -> tuple[list[BeamResult], State]:
        """Run search steps until a quarter of the sentences are done or the time limit is reached.

        Return the results of the finished sentences, and the state of the other sentences.

        Args:
            state: The state of the search.
            microseconds: The time limit. At least one step runs, even if it takes longer.
            allowed: Mask of permitted tokens. Row 0 applies to hypotheses below the minimum length, row 1 to all
                others. None permits all tokens.
        """

    def keep(self, state: State, sentences: Sequence[int], /) -> State:
        """Return the state with only the given sentences. The indices must be in ascending order."""

    def join(self, first: State, second: State, /) -> State:
        """Return one state with the sentences of `first`, followed by the sentences of `second`."""


@runtime_checkable
class SearchingProgram(Protocol):
    """Interface of a compiled model that may have its own beam search."""

    @property
    def searcher(self) -> SearchingDecoder[Any] | None:
        """The compiled model's own beam search, or None if it only decodes step by step."""


@runtime_checkable
class ShortlistDecoder(Protocol[State]):
    """Interface of a compiled model that computes, for each sentence, only the logits of a shortlist of tokens."""

    def restrict(self, state: State, tokens: Sequence[Int64[np.ndarray, " listed"]], /) -> State:
        """Return the state with each sentence restricted to its shortlist of tokens.

        Log-probabilities are normalised over the shortlist of the sentence. Other tokens have the log-probability -inf.

        Args:
            state: A state that has not read any tokens.
            tokens: For each sentence, the IDs of the tokens in ascending order, including EOS.
        """


class Scorer(Protocol):
    """Interface of a compiled model that computes the log-probabilities of given translations."""

    @property
    def concurrent(self) -> bool:
        """Whether several threads can run the compiled model at the same time, and are faster than one thread."""

    def score(
        self, source: PaddedBatch | None, target: Int[Tensor, "rows 1+target"], /
    ) -> Float32[Tensor, "rows target"]:
        """Return the log-probability of each token in target[:, 1:], in nats. The value is 0 at PAD.

        A target starts with BOS and ends with EOS, after which PAD may follow. `source` is None if the model has no
        encoder.
        """


class TranslationModel(StepwiseDecoder[Any], Scorer, Protocol):
    """Interface of a model that can translate. Compiled models and ensembles implement it."""


class Program(TranslationModel, Protocol):
    """Compiled model, built by a backend from the graphs of a spec. `compiler.build` returns a `Program`."""

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
        """Return the weights in the layout of a weights file, with a separate tensor for each matrix in the paper.

        Tied matrices share one tensor.
        """
