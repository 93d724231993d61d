"""The verbs that a search asks of a program."""

from typing import Any, Protocol, TypeVar

from jaxtyping import Float32, Int
from torch import Tensor

from compiler.likeliest import Likeliest

State = TypeVar("State")


class Steps(Protocol[State]):
    """A program, seen by a search: it starts, goes one piece on, and rearranges its rows. Nothing else.

    A row is a hypothesis; those of a sentence stand together, and all sentences of a state have equally many. A state
    that was handed to any of these is used up.
    """

    def encode(self, source: Int[Tensor, "sentences source"], /) -> State:
        """A state before the first piece, a row a sentence. Sources end with EOS and are filled up with PAD."""

    def decode_step(self, state: State, token: Int[Tensor, " rows"], /) -> tuple[Float32[Tensor, "rows V"], State]:
        """Log-probabilities of the piece after `token` (BOS at first), and the state that has read it."""

    def likeliest(self, state: State, token: Int[Tensor, " rows"], count: int, /) -> tuple[Likeliest, State]:
        """As `decode_step`, but of each row only the `count` likeliest pieces."""

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"], /) -> State:
        """These sentences, in ascending order, each with rows that go on from the `parents` within it."""

    def join(self, first: State, second: State, /) -> State:
        """The sentences of both, those of the first first; both have equally many rows a sentence."""


class Scoring(Steps[Any], Protocol):
    """A program that can also be asked for the probability of a given translation."""

    def score(
        self, source: Int[Tensor, "rows source"], target: Int[Tensor, "rows 1+target"], /
    ) -> Float32[Tensor, "rows target"]:
        """Log-probability of target[:, 1:], 0 at padding; a target is BOS ... EOS PAD*."""
