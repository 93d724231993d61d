"""Log-probabilities of given translations, token by token (forced decoding)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from compiler.lazy import no_grad
from compiler.padded_batch import PaddedBatch
from specs import ZooError
from zoo.generation.translation import group_by_length, pad_sequences
from zoo.report import Progress
from zoo.system.memory import MEMORY_ERRORS, is_out_of_memory

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.generation.translator import Translator


@dataclass(frozen=True, slots=True)
class TokenScores:
    """Natural log-probabilities that a model assigns to the tokens in a given translation. The last token is EOS."""

    token_log_probabilities: tuple[float, ...]

    @property
    def log_probability(self) -> float:
        """The natural log-probability of the whole translation."""
        return sum(self.token_log_probabilities)

    @property
    def tokens(self) -> int:
        """The number of scored tokens, including EOS."""
        return len(self.token_log_probabilities)


@no_grad()
def score_targets(
    translator: Translator,
    sources: Sequence[Sequence[int] | Tensor] | None,
    targets: Sequence[Sequence[int]],
    max_batch_tokens: int,
    progress: Progress,
    first: int,
) -> list[TokenScores]:
    """Return the log-probabilities of each target's tokens, given its source.

    Args:
        translator: The model.
        sources: Token IDs or frames of each source. None if the model has no encoder.
        targets: Token IDs of each target, from BOS to EOS.
        max_batch_tokens: Maximum number of tokens in a batch, on each side, including padding.
        progress: Progress bar, which counts the scored pairs.
        first: Number of the first pair in error messages.

    Raises:
        ZooError: A pair does not fit into memory even in a batch of its own.
    """
    device, sides = translator.device, [side for side in (sources, targets) if side is not None]
    lengths = [max(map(len, row)) for row in zip(*sides, strict=True)]
    scores = [TokenScores(())] * len(lengths)
    groups = deque(group_by_length(lengths, max_batch_tokens))
    while groups:
        group = groups.popleft()
        try:
            target = pad_sequences([targets[index] for index in group], device)
            source = None if sources is None else PaddedBatch.pad([sources[index] for index in group], device)
            rows = translator.program.score(source, target).tolist()
        except MEMORY_ERRORS as error:
            if not is_out_of_memory(error):
                raise
            if len(group) == 1:
                read = "" if sources is None else f"{len(sources[group[0]]):,} source tokens and "
                raise ZooError(
                    f"there is not enough memory to score pair {group[0] + first:,} alone: {read}"
                    f"{len(targets[group[0]]) - 1:,} target tokens, including EOS",
                    hint="split the line into sentences, one per line",
                    exit_code=1,
                ) from error
            middle = len(group) // 2
            groups.extendleft([group[middle:], group[:middle]])
            continue
        for index, row in zip(group, rows, strict=True):
            scores[index] = TokenScores(tuple(row[: len(targets[index]) - 1]))
        progress.advance(len(group))
    return scores
