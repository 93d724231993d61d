"""What a run said to each sentence of a set: kept beside its scores, so that systems can be compared without them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from specs import ZooError
from zoo.evaluation.answers import Answers
from zoo.files.atomic import atomic_file
from zoo.files.reading import read_bytes


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """To one sentence: the best output, and the reference's natural log-probability over its tokens, EOS counted."""

    output: str
    log_probability: float
    tokens: int


def keep(file: Path, answers: Answers) -> None:
    """Writes a line of JSON a sentence."""
    kept = [
        KeptAnswer(output, forced.log_probability, forced.tokens)
        for output, forced in zip(answers.outputs, answers.forced, strict=True)
    ]
    with atomic_file(file) as partial:
        partial.write_text("".join(f"{json.dumps(asdict(each))}\n" for each in kept), encoding="utf-8")


_LARGEST = 1_000_000_000  # bytes: of a set of millions of sentences


def kept(file: Path) -> Sequence[KeptAnswer]:
    """In the order of the set. Raises ZooError where there is no such file, or where it is damaged."""
    try:
        return [_answer(json.loads(line)) for line in read_bytes(file, _LARGEST).splitlines()]
    except (ValueError, TypeError, KeyError):
        hint = "remove it: `zoo evaluate --model RUN --set SET` writes it anew"
        raise ZooError(f"`{file}` is damaged: not every line is an answer", hint=hint, exit_code=1) from None


def _answer(line: dict[str, object]) -> KeptAnswer:
    found = KeptAnswer(**line)  # type: ignore[arg-type]
    if not isinstance(found.output, str) or not isinstance(found.tokens, int) or found.tokens < 1:
        raise ValueError
    return KeptAnswer(found.output, float(found.log_probability), found.tokens)
