"""The three verbs that a search asks of a program."""

from typing import Protocol, TypeVar

from jaxtyping import Float32, Int
from torch import Tensor

State = TypeVar("State")


class Steps(Protocol[State]):
    """A program, seen by a search: it starts, goes one piece on, and rearranges its rows. Nothing else."""

    def encode(self, source: Int[Tensor, "rows source"], /) -> State:
        """A state before the first piece. A row of the source ends with EOS and is filled up with PAD."""

    def decode_step(
        self, state: State, token: Int[Tensor, " rows"], /
    ) -> tuple[Float32[Tensor, "rows vocabulary"], State]:
        """Log-probabilities of the piece after `token` (BOS at first), and the state that has read it."""

    def select(self, state: State, rows: Int[Tensor, " chosen"], /, *, within_sentences: bool = False) -> State:
        """The state of these rows, in this order; a row may come again or not at all.

        `within_sentences` promises that each row is followed by one of the same sentence, so that what comes
        from the source alone may stay where it is.
        """
