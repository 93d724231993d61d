"""What shows the attention of a model that was opened: a program of its own, built when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from compiler import EmittedProgram, Program
from specs import BOS, EOS, ZooError
from zoo.generation.attention import Attention, Row, attention
from zoo.generation.intake import Intake
from zoo.generation.lengths import Split
from zoo.generation.source import Source
from zoo.text.lines import clean
from zoo.text.sentences import checked_texts

if TYPE_CHECKING:
    from zoo.generation.translator import Translator


class Attending:
    """`build` makes a program that can attend."""

    def __init__(self, build: Callable[[], Program]) -> None:
        self._build = build

    @cached_property
    def _program(self) -> EmittedProgram:
        made = self._build()
        assert isinstance(made, EmittedProgram)
        return made

    def over(self, translator: Translator, source: str, target: str | None) -> Attention:
        """That of the translator's model over a text and a translation of it, its own where none is given."""
        intake = translator.intake()
        (read,) = intake.sources(checked_texts([source]), [""], 0)
        _require_whole(read, intake)
        if target is None:
            ((best, *_),) = translator.hypotheses([source])
            row, text = [BOS, *best.tokens, EOS], best.text
        else:
            _, (text,) = translator.given([source], [target])
            (row,) = intake.rows([text], "target")
            with intake.lengths:
                intake.lengths.count([read])
        reads = Row(clean(source), read.tokens, intake.spelled(source))
        writes = Row(text, row, translator.vocabulary.token_strings(row[1:-1]))
        return attention(self._program, reads, writes, forced=target is not None)


def _require_whole(read: Source | Split, intake: Intake) -> None:
    if read.tokens == intake.empty:
        raise ZooError("there is no word to attend to: the text is empty", hint="give a sentence")
    if isinstance(read, Split):
        raise ZooError(
            f"the text has {len(read.tokens) - 1:,} tokens, and the model takes {intake.most:,} at once "
            "(`decoding.max_source_length`): it is translated in parts",
            hint="attend to one of its sentences",
        )
