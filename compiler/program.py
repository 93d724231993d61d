"""What a program is to those who call it, whichever backend made it.

A backend makes one of two kinds. `search` says which: of most a search asks step by step (`Stepping`), and a few bring
a whole search of their own (`Searching`). What `compiler.trainable` makes can be trained, too (`compiler/emitted.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import torch
from jaxtyping import Bool, Float32, Int
from torch import Tensor

from compiler.graph import Graphs
from compiler.top_k import TopK
from specs import Spec

State = TypeVar("State")


class Steps(Protocol[State]):
    """A program, seen by a search: it starts, goes one token on, and rearranges its rows. Nothing else.

    A row is a hypothesis; those of a sentence stand together, and all sentences of a state have equally many. A state
    that was handed to any of these is used up.
    """

    def encode(self, source: Int[Tensor, "sentences source"], /) -> State:
        """A state before the first token, a row a sentence. Sources end with EOS and are filled up with PAD."""

    def decode_step(self, state: State, token: Int[Tensor, " rows"], /) -> tuple[Float32[Tensor, "rows V"], State]:
        """Log-probabilities of the token after `token` (BOS at first), and the state that has read it."""

    def top_k(
        self, state: State, token: Int[Tensor, " rows"], count: int, allowed: Bool[Tensor, "#rows V"] | None = None, /
    ) -> tuple[TopK, State]:
        """As `decode_step`, but of each row only the `count` top_k tokens; where `allowed` says so, of those."""

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"], /) -> State:
        """These sentences, in ascending order, each with rows that go on from the `parents` within it.

        Where a sentence leaves, `sentences` are best given on the host: their numbers are read there.
        """

    def join(self, first: State, second: State, /) -> State:
        """The sentences of both, those of the first first; both have equally many rows a sentence."""


class Scoring(Protocol):
    """A program that can be asked for the probability of a given translation."""

    @property
    def concurrent(self) -> bool:
        """Whether several threads may run it at once, and are faster than one."""

    def score(
        self, source: Int[Tensor, "rows source"], target: Int[Tensor, "rows 1+target"], /
    ) -> Float32[Tensor, "rows target"]:
        """Log-probability of target[:, 1:] in nats, 0 at padding; a target is BOS ... EOS PAD*."""


class Stepping(Steps[Any], Scoring, Protocol):
    """A program that our search translates with."""

    search: Literal["steps"]


class Found(NamedTuple):
    """A translation without BOS and EOS, and its log-probability with EOS."""

    tokens: tuple[int, ...]
    log_probability: float


class Searching(Scoring, Protocol):
    """A program that brings a beam search of its own, and has no single step."""

    search: Literal["own"]

    def hypotheses(
        self,
        source: Int[Tensor, "sentences source"],
        limits: Sequence[int],
        *,
        beam: int,
        alpha: float,
        suppressed_tokens: Sequence[int],
        least: int,
    ) -> Sequence[Sequence[Found]]:
        """What a beam finds of each source, in no order, without a token that is suppressed.

        A translation has at most so many tokens and at least `least`, where it may, EOS not counted; `alpha` is that of
        the length penalty.
        """


class Built(Protocol):
    """What a backend says of a program that it has made."""

    spec: Spec
    graphs: Graphs
    """Those that it computes, after all passes."""
    backend: str
    """The name of the one that was chosen."""
    precision: str

    @property
    def device(self) -> torch.device: ...

    def weights(self) -> dict[str, Tensor]:
        """The tensors of a weights file, in its layout: one for each matrix of the paper, tied ones once."""


class SteppingProgram(Stepping, Built, Protocol):
    """Made by a backend, and searched by ours."""


class SearchingProgram(Searching, Built, Protocol):
    """Made by a backend, with a search of its own."""


Translating = Stepping | Searching
Program = SteppingProgram | SearchingProgram
"""What `compiler.build` gives."""
