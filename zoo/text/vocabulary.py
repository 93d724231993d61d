"""The tokens of both sides: word tokens of text, and of a parser's target the brackets of trees."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol, Self

import specs
from specs import EOS, PAD, UNK, Parsing, Task, ZooError
from zoo.files.atomic import atomic_file
from zoo.files.reading import MAX_BYTES, MAX_VOCABULARY_BYTES, file_exists, read_bytes
from zoo.text.lines import clean
from zoo.text.tokenizer import BYTES, Tokenizer, damaged
from zoo.text.trees.symbols import Symbols

Side = Literal["source", "target"]
Pairs = Callable[[], Iterable[tuple[str, str]]]

MAX_PAIRS = 1_000_000
"""What a vocabulary is learned from at most: SentencePiece holds all of it in memory."""
_SHARED, _SIDES, _SYMBOLS = "vocabulary.model", "vocabulary.{}.model", "vocabulary.target.json"


class _OneSide(Protocol):
    """What `Tokenizer` and `Symbols` have in common."""

    @property
    def size(self) -> int: ...
    @property
    def content(self) -> bytes: ...
    def encode(self, text: str) -> list[int]: ...
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]: ...
    def decode(self, ids: Iterable[int]) -> str: ...
    def named(self, ids: Iterable[int]) -> list[str]: ...
    def sample(self, ids: list[int], alpha: float) -> list[int]: ...


def require_to_learn(section: specs.Vocabulary, task: Task | None = None) -> None:
    """Raises ZooError where no text could give such a vocabulary."""
    if section.separate_models:
        raise ZooError(
            "a vocabulary of separate models is imported, and never learned (`vocabulary.separate_models`)",
            hint="write `separate_models: false`, or `training.start_from` with the model that has it",
        )
    taken, sides = BYTES + EOS + 1, dict(zip(("size", "target_size"), section.sizes, strict=True))
    if isinstance(task, Parsing):
        del sides["target_size"]  # brackets
    for field, size in sides.items():
        if section.byte_fallback and size <= taken:
            raise ZooError(
                f"`vocabulary.{field}` is {size:,}, and bytes and the special tokens alone take {taken}",
                hint=f"write a larger `vocabulary.{field}`, or `vocabulary.byte_fallback=false`",
            )


class Vocabulary:
    """Tokens of the source and of the target, which may be the same ones.

    Ids of PAD, UNK, BOS and EOS are those of `specs`. A parser's target is `Symbols`, whose text is bracketed trees.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer | Symbols | None = None) -> None:
        """One for both sides where `target` is None."""
        self.shared = target is None
        """Whether one model cuts the text of both sides."""
        self.source, self.target = source, source if target is None else target

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of tokens of the source and of the target, the special ones included."""
        return self.source.size, self.target.size

    @property
    def source_end(self) -> int:
        """What is put behind the tokens of a source: EOS, or PAD where the model that was imported reads no EOS."""
        return EOS if self.source.ends else PAD

    @property
    def alike(self) -> bool:
        """Whether both sides have the same tokens under the same numbers, be it from one model or from two."""
        (most, other), sides = self.sizes, (self.source, self.target)
        return self.shared or (most == other and len({tuple(side.named(range(most))) for side in sides}) == 1)

    def has_the_pieces_of(self, other: Vocabulary) -> bool:
        """Whether both have the same tokens under the same numbers, whoever wrote their files."""
        source, target = map(range, self.sizes)
        return (
            (self.sizes, self.shared) == (other.sizes, other.shared)
            and self.named(source, "source") == other.named(source, "source")
            and self.named(target, "target") == other.named(target, "target")
        )

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a token are spelled in bytes, so that none is unknown."""
        return all(each.byte_fallback for each in (self.source, self.target) if isinstance(each, Tokenizer))

    @property
    def digest(self) -> str:
        """Tells it from any other."""
        return hashlib.sha256(b"\0".join(self._files().values())).hexdigest()

    def encode(self, text: str, side: Side = "source") -> list[int]:
        """The ids of a line's tokens, without BOS and EOS; of a parser's target, of a bracketed tree."""
        return self._of(side).encode(text)

    def encode_all(self, texts: Sequence[str], side: Side = "source") -> list[list[int]]:
        """`encode` of many lines."""
        return self._of(side).encode_all(texts)

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """The text of tokens, one line; of a parser's target the brackets as they are, since it knows no words."""
        return self._of(side).decode(ids)

    def named(self, ids: Iterable[int], side: Side = "target") -> list[str]:
        """What each token is called, `▁` where it begins a word; UNK is ⁇."""
        return self._of(side).named(ids)

    def unknown(self, text: str, side: Side = "source") -> list[str]:
        """What of a text has no token, each once: characters, or words where tokens are whole words."""
        parts = clean(text).split(" ") if self.has_words(side) else clean(text)
        return [part for part in dict.fromkeys(parts) if UNK in self.encode(part, side)]

    def has_words(self, side: Side) -> bool:
        """Whether its tokens are whole words."""
        tokens = self._of(side)
        return isinstance(tokens, Tokenizer) and tokens.of_words

    def sample(self, ids: list[int], alpha: float, side: Side = "source") -> list[int]:
        """Other tokens of the same text, drawn at random; these where there is no other way to write it."""
        return self._of(side).sample(ids, alpha)

    def save(self, folder: Path) -> None:
        """Writes `vocabulary.model`, or `vocabulary.source.model` and `vocabulary.target.model` (brackets: `.json`)."""
        for name, written in self._files().items():
            with atomic_file(folder / name) as partial:
                partial.write_bytes(written)

    @classmethod
    def load(cls, folder: Path, read: Callable[[Path, int], bytes] = read_bytes) -> Self:
        """From the files that `save` writes, by `read`, which is told how many bytes each may have.

        Raises ZooError where there are none, where they may not be read, or are damaged.
        """

        def tokens(name: str) -> Tokenizer:
            return Tokenizer(read(folder / name, MAX_VOCABULARY_BYTES), name=str(folder / name))

        source, target = (_SIDES.format(side) for side in ("source", "target"))
        if file_exists(folder / _SYMBOLS):
            return cls(tokens(source), _symbols(read(folder / _SYMBOLS, MAX_BYTES), folder / _SYMBOLS))
        if file_exists(folder / source) or file_exists(folder / target):
            return cls(tokens(source), tokens(target))
        return cls(tokens(_SHARED))

    @classmethod
    def learn(cls, pairs: Pairs, section: specs.Vocabulary, count: int = 0, task: Task | None = None) -> Self:
        """Learns tokens from the lines of pairs; `pairs` is called once for a shared vocabulary, else twice.

        Where they are told to be a `count` of more than MAX_PAIRS, from every second pair, or every third, and so
        on (see `learned_from`); brackets from all. The same pairs in the same order give the same bytes. Raises
        ZooError where the text has too little variety for `vocabulary.size` tokens, or too many letters, and where
        the tokens are such as are imported alone.
        """
        require_to_learn(section, task)
        step = _step(count)
        if section.shared:
            lines = (line for pair in islice(pairs(), 0, None, step) for line in pair)
            return cls(Tokenizer.learned(lines, section, section.size))
        source, target = section.sizes
        of_source = Tokenizer.learned((pair[0] for pair in islice(pairs(), 0, None, step)), section, source)
        if isinstance(task, Parsing):
            return cls(of_source, Symbols.learned((pair[1] for pair in pairs()), task.linearisation, target))
        field = "size" if section.target_size is None else "target_size"
        of_target = (pair[1] for pair in islice(pairs(), 0, None, step))
        return cls(of_source, Tokenizer.learned(of_target, section, target, field))

    def _of(self, side: Side) -> _OneSide:
        return self.source if side == "source" else self.target

    def _files(self) -> dict[str, bytes]:
        if self.shared:
            return {_SHARED: self.source.content}
        target = _SYMBOLS if isinstance(self.target, Symbols) else _SIDES.format("target")
        return {_SIDES.format("source"): self.source.content, target: self.target.content}


def learned_from(count: int) -> int:
    """How many of so many pairs a vocabulary is learned from."""
    return -(-count // _step(count))


def _step(count: int) -> int:
    return max(1, -(-count // MAX_PAIRS))


def _symbols(read: bytes, path: Path) -> Symbols:
    try:
        return Symbols.of(read)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise damaged(str(path), "it does not hold the brackets of trees") from None
