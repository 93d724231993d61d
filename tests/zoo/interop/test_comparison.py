"""What `zoo import --check` holds against an engine, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compiler import TRANSLATE
from specs import ZooError
from zoo.generation.compilation import build_with_message
from zoo.generation.translator import Translator
from zoo.interop.comparison import Comparison, compared
from zoo.interop.formats import format_of
from zoo.interop.imported import Answer, Imported, Wanted
from zoo.report import Report

LONG = " ".join(["the old dog"] * 20)


class Warned(Report):
    def __init__(self) -> None:
        self.told: list[str] = []

    def warn(self, text: str) -> None:
        self.told.append(text)


class Ours:
    """An engine that answers as we do, and that no text above ten words is given to."""

    version = "an engine"

    def __init__(self, place: Path, imported: Imported) -> None:
        program = build_with_message(
            imported.spec, TRANSLATE, imported.tensors, Report(), device="cpu", backend="eager"
        )
        self.translator = Translator(program, imported.vocabulary, imported.spec)

    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[Answer]:
        if any(len(text.split()) > 10 for text in texts):
            raise IndexError("index out of range in self\nand more")
        found = [best for best, *_ in self.translator.hypotheses(texts)]
        named = self.translator.vocabulary.named
        return [Answer(each.text, each.log_probability, named(each.tokens)) for each in found]


@pytest.fixture
def imported(tiny: SimpleNamespace, tmp_path: Path) -> Imported:
    """A tiny model that takes sources of up to twelve tokens."""
    spm = tiny.sentence_pieces(tiny.TEXT, 60)
    (tmp_path / "vocab.spm").write_bytes(spm)
    rows = tiny.opened(spm).get_piece_size()
    weights = tiny.marian_weights(tiny.OPTIONS, (rows, rows))
    weights["decoder_ff_logit_out_b"][0, 0] = 3.0  # so that translations end
    place = tiny.write_marian(tmp_path, tiny.OPTIONS, weights)
    found = format_of(place).read(place, Wanted("mine"))
    decoding = found.spec.decoding.model_copy(update={"max_source_length": 12})
    compilation = found.spec.compilation.model_copy(update={"backend": "eager"})
    spec = found.spec.model_copy(update={"decoding": decoding, "compilation": compilation})
    return Imported(spec, found.vocabulary, found.tensors, found.origin)


def check(imported: Imported, texts: list[str], report: Report) -> Comparison:
    of: Any = SimpleNamespace(engine="an_engine", open=Ours)
    return compared(of, Path("nowhere"), imported, texts, report)


def test_what_is_too_long_is_left_out_and_counted(imported: Imported) -> None:
    report = Warned()
    found = check(imported, ["a house", LONG, "a dog"], report)
    assert (found.sentences, found.identical) == (2, 2)
    assert [line for line in report.told if "the check" in line] == [
        "1 of 3 sentences is left out of the check: the model takes 1 to 12 tokens"
    ]
    with pytest.raises(ZooError, match="no sentence to check with"):
        check(imported, [LONG], report)


def test_what_goes_wrong_in_an_engine_is_told_as_its_own(imported: Imported) -> None:
    with pytest.raises(ZooError, match=r"`an_engine` fails: IndexError: index out of range in self\n\n") as told:
        check(imported, ["a " * 11], Report())
    assert told.value.exit_code == 1
    assert "leave `--check` out" in str(told.value.hint)
