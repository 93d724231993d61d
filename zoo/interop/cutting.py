"""How text becomes the tokens of a list: by the SentencePiece models beside it, or because it comes cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sentencepiece import SentencePieceProcessor

from specs import ZooError
from zoo.files.reading import file_exists
from zoo.interop.joined import cut_otherwise, section
from zoo.interop.numbering import Numbering
from zoo.interop.sentence_model import SentenceModel, Type
from zoo.interop.word_model import KIND, endless, word_model
from zoo.text.lines import clean
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import Side, Vocabulary

_OF_A_SIDE = ("{}.spm", "{}.model", "{}.spm.model", "spm.{}.model")
_OF_BOTH = ("sentencepiece.model", "sentencepiece.bpe.model", "spm.model", "spiece.model")
_CUT = (
    "No SentencePiece model came with it: text is taken as cut into tokens already, with spaces between them, and "
    "translations come so."
)


@dataclass(frozen=True)
class Listing:
    """The tokens of a side by their foreign numbers, and which of them are special."""

    names: tuple[str, ...]
    unknown: int
    end: int
    start: int | None = None
    """What decoding starts with; None: a zero embedding, or a side that nothing is decoded of."""
    pad: int | None = None

    def require(self, side: Side, rows: int) -> None:
        """Raises ZooError where the embedding has other rows than the list has tokens."""
        if len(self.names) != rows:
            problem = f"its {side} vocabulary lists {len(self.names):,} tokens, and its embedding has {rows:,}"
            raise ZooError(problem, hint="restore them from where the model came from", exit_code=1)

    def numbering(self, models: Sequence[SentenceModel]) -> Numbering:
        """Ours. What the models cut text into and is not listed is read as unknown, as the foreign engine reads it."""
        return Numbering.of(
            self.names,
            unknown=self.unknown,
            end=self.end,
            start=self.start,
            pad=self.pad,
            first=[name for model in models for name in model.named(Type.BYTE)],
            read_as_unknown=cut_otherwise(models, set(self.names)),
        )


@dataclass(frozen=True)
class Cut:
    """A vocabulary, our numbers of its tokens, what `vocabulary` of a spec says, and what the user should know."""

    vocabulary: Vocabulary
    source: Numbering
    target: Numbering
    fields: dict[str, Any]
    notes: tuple[str, ...]


def cut(place: Path, source: Listing, target: Listing, *, source_ends: bool = True) -> Cut:
    """The vocabulary of these tokens, by the SentencePiece models in the folder `place`, if there are any.

    Raises ZooError where there should be one and is none, and where one cannot be brought to these numbers.
    """
    files = [_model_of(place, side) for side in ("source", "target")]
    if (files[0] is None) != (files[1] is None):
        missing = "source" if files[0] is None else "target"
        raise ZooError(f"`{place}` has a SentencePiece model of one side, and none of the {missing}")
    models = [SentenceModel(file) for file in files if file is not None]
    alike, alone = source == target, files[0] == files[1]
    numberings = [target.numbering(models[:1] if alone else models)] * 2 if alike else []
    numberings = numberings or [each.numbering(models[i : i + 1]) for i, each in enumerate((source, target))]
    tokens = [
        models[side].numbered(numbering) if models else word_model(numbering, str(place))
        for side, numbering in enumerate(numberings)
    ]
    if not source_ends:
        tokens[0] = endless(tokens[0], str(place))
    one = alike and alone and source_ends
    vocabulary, kind = Vocabulary(*tokens[:1] if one else tokens), models[1].kind if models else KIND
    said = section(vocabulary, kind, shared=alike, separate_models=alike and not one)
    notes = () if models else (_CUT, *_joined(target.names))
    return Cut(vocabulary, numberings[0], numberings[1], said, notes)


def _model_of(place: Path, side: str) -> Path | None:
    names = (*(name.format(side) for name in _OF_A_SIDE), *_OF_BOTH)
    return next((place / name for name in names if file_exists(place / name)), None)


def _joined(names: Sequence[str]) -> tuple[str, ...]:
    """What the marks of word tokens say, if there are any."""
    if sum(name.endswith("@@") for name in names) < len(names) / 20:
        return ()
    return (
        "Tokens that end in `@@` are those of subword-nmt: `subword-nmt apply-bpe` with the model's codes cuts a text "
        "(tokenised as in training), and `sed 's/@@ //g'` joins a translation. Codes of pairs cannot be said here.",
    )


@dataclass(frozen=True)
class Tokens:
    """What the foreign engine is given and gives: tokens by name, by its own SentencePiece models or between spaces."""

    source: SentencePieceProcessor | None
    target: SentencePieceProcessor | None
    unknown: str

    @classmethod
    def of(cls, place: Path, unknown: str) -> Self:
        """As `cut` finds them in the folder. `unknown` is what the engine calls an unknown token."""
        files = (_model_of(place, side) for side in ("source", "target"))
        source, target = (None if file is None else SentencePieceProcessor(model_file=str(file)) for file in files)
        return cls(source, target, unknown)

    def cut(self, text: str) -> list[str]:
        """The tokens of a source."""
        return clean(text).split() if self.source is None else list(self.source.encode(clean(text), out_type=str))

    def joined(self, tokens: Sequence[str]) -> str:
        """The text of a translation's tokens."""
        return " ".join(tokens) if self.target is None else str(self.target.decode(list(tokens)))

    def ours(self, tokens: Sequence[str]) -> list[str]:
        """What our vocabulary calls a translation's tokens."""
        before = SPACE if self.target is None else ""
        return ["⁇" if token == self.unknown else before + token for token in tokens]
