"""One sentence to be translated, in tokens."""

from __future__ import annotations

from dataclasses import dataclass

from specs import ZooError
from zoo.text.sentences import excerpt


@dataclass(frozen=True, slots=True)
class Source:
    """`tokens` end with EOS; a translation starts with `prefix` and has at most `limit` tokens, EOS not counted.

    `index` is the sentence's place among all, counted from 0; where it is a part of a longer text, among its parts, and
    `of` is the text's. `text` is what it is called in a message; `words` are counted between white space. Of a tree,
    `spelled` are the tokens that its words are written as, UNK where any may be; none where all may be any.
    """

    index: int
    tokens: tuple[int, ...]
    limit: int
    prefix: tuple[int, ...] = ()
    text: str = ""
    words: int = 0
    spelled: tuple[int, ...] = ()
    of: int | None = None

    def __post_init__(self) -> None:
        if self.limit < len(self.prefix):
            raise ValueError(f"a translation of {self.limit} tokens cannot start with {len(self.prefix)}")

    @property
    def line(self) -> int:
        """Of the input, counted from 0."""
        return self.index if self.of is None else self.of

    @property
    def part(self) -> int:
        """Of the text, counted from 0."""
        return 0 if self.of is None else self.index


def too_long(source: Source) -> ZooError:
    """One sentence does not fit the memory, and a sentence cannot be split."""
    return ZooError(
        f"there is not enough memory to translate sentence {source.line + 1:,} alone: {excerpt(source.text)}, "
        f"{len(source.tokens) - 1:,} tokens",
        hint="split it, take a smaller beam, or end other programs",
        exit_code=1,
    )
