"""Text rules and added tokens, which only imported vocabularies have.

Text rules are the preprocessing that a model was trained with, such as Moses tokenisation and BPE codes. They split raw
text into the tokens of a word list, and join tokens into raw text. Added tokens (a term from transformers) are found in
raw text first. Then SentencePiece tokenises the text between them.

Text rules or added tokens are stored at the beginning of the model file, in a field whose number SentencePiece reserves
for extensions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from specs import ZooError
from zoo.text.codes import SEPARATOR, BPECodes
from zoo.text.protobuf import encode_bytes, parse_fields
from zoo.text.sentences import language_tokens

ADDED_TOKENS, TEXT_RULES = 200, 201
"""Numbers of the fields of a SentencePiece model that contain the added tokens and the text rules."""
_SENTENCE_ENDS = frozenset(".:?!")
_NO_WORDS = frozenset(["(", "[", '"', "'", "&apos;", "&quot;", "&#91;", "&#93;"])
"""Tokens that are not words. At the start of a sentence, the word after them is still the first word."""
_DASH = "@-@"
_CHARACTER = re.compile(r"&(?:amp|quot|apos|lt|gt|#124|#91|#93);|.", re.DOTALL)

LANGUAGE = "[a-z]{2,3}"
"""Regular expression for the language codes that Moses accepts. Moses treats unknown languages as English."""
MAX_CONTENT = 32_000_000
"""Maximum number of characters in a file of text rules. This is about ten times the size of large files."""
FileContent = Annotated[str, Field(max_length=MAX_CONTENT)]
"""Content of a file with BPE codes, subwords or cases."""


class TextRules(BaseModel, frozen=True, strict=True, extra="forbid"):
    """Rules that split raw text into tokens, and join tokens into raw text."""

    tokenizer: Literal["moses", "space"]
    """Tokeniser: Moses, or splitting at white space."""
    language: str = Field("en", pattern=f"^{LANGUAGE}$")
    """Language of the text, for Moses."""
    dash_splits: bool = True
    """Whether Moses splits words at hyphens."""
    escape: bool = True
    """Whether Moses escapes characters that have a special meaning in XML."""
    codes: FileContent | None = None
    """Content of a file with BPE codes. If None, tokens are not split."""
    vocabulary: FileContent | None = None
    """Known subwords, separated by spaces. Other subwords are split again. If None, all subwords are known."""
    cases: FileContent | None = None
    """Words in their true case. Each line has all forms of one word, with the most frequent form first. If None, text
    is not truecased."""

    @classmethod
    def read(cls, model: bytes) -> Self | None:
        """Return the text rules at the beginning of a SentencePiece model file, or None if the file has none.

        Raises:
            ValueError: The rules are damaged.
        """
        if (content := _first_field(model, TEXT_RULES)) is None:
            return None
        rules = cls.model_validate_json(content)
        _ = rules._codes, rules._cases
        return rules

    def prepended_to(self, model: bytes) -> bytes:
        """Prepend these rules to the content of a SentencePiece model file, and return the result."""
        return encode_bytes(TEXT_RULES, self.model_dump_json(exclude_defaults=True).encode()) + model

    def split(self, text: str) -> list[str]:
        """Split a line into tokens, spelled as in the original toolkit's vocabulary. Language tokens are not split."""
        start = language_tokens(text)
        words = self._true_cases(self._words(text[len(start) :]))
        return [*start.split(), *(token for word in words for token in _marked(self._subwords(word)))]

    def join(self, tokens: Iterable[str]) -> str:
        """Join tokens into raw text."""
        words = f"{' '.join(tokens)} ".replace(f"{SEPARATOR} ", "").split()
        if self._cases:
            words = [word[:1].upper() + word[1:] if first else word for word, first in _sentence_starts(words)]
        if self.tokenizer == "space":
            return " ".join(words)
        try:
            return str(_moses(self.language)[1].detokenize(words))
        except TypeError:  # a bug in sacremoses' rules for Czech words with an apostrophe and a dash
            return str(_moses("en")[1].detokenize(words))

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end, in characters, of each token that `split` returns for a text."""
        begin = len(language_tokens(text))
        yield from (match.span() for match in re.finditer(r"\S+", text[:begin]))
        visible = [position for position in range(begin, len(text)) if not text[position].isspace()]
        words, used = self._words(text[begin:]), 0
        for word, cased in zip(words, self._true_cases(words), strict=True):
            written = self._written_characters(word)
            indices = [min(used + index, len(visible) - 1) for index, unit in enumerate(written) for _ in unit]
            positions = [visible[index] for index in indices]
            used += len(written)
            end = 0
            for subword in filter(None, self._subwords(cased)):
                start, end = end, end + len(subword)
                first, last = (start, end - 1) if len(cased) == len(word) else (0, -1)
                yield positions[first], positions[last] + 1

    def _written_characters(self, word: str) -> Sequence[str]:
        """Split a tokenised word into strings that each represent one visible character, such as `&amp;` for `&`."""
        if self.tokenizer == "space":
            return word
        return [word] if word == _DASH else _CHARACTER.findall(word) if self.escape else word

    def _words(self, text: str) -> list[str]:
        if self.tokenizer == "space":
            return text.split()
        options = {"aggressive_dash_splits": self.dash_splits, "escape": self.escape}
        return str(_moses(self.language)[0].tokenize(text, return_str=True, **options)).split()

    def _subwords(self, word: str) -> Sequence[str]:
        return self._codes.split(word) if self._codes else (word,)

    def _true_cases(self, words: Sequence[str]) -> Iterator[str]:
        """Convert words to their true case, as the Moses script `truecase.perl` does. Yield the words."""
        if self._cases is None:
            yield from words
            return
        best, known = self._cases
        for word, first in _sentence_starts(words):
            case = best.get(word.lower(), word)
            yield case if first or word not in known else word

    @cached_property
    def _codes(self) -> BPECodes | None:
        return None if self.codes is None else BPECodes(self.codes, (self.vocabulary or "").split())

    @cached_property
    def _cases(self) -> tuple[dict[str, str], frozenset[str]] | None:
        """The most frequent form of each word, keyed by the word in lower case, and the set of all forms."""
        if self.cases is None:
            return None
        lines = [line.split() for line in self.cases.split("\n")]
        return {line[0].lower(): line[0] for line in lines if line}, frozenset(self.cases.split())


class AddedTokens:
    """Added tokens in a vocabulary, with their IDs.

    Attributes:
        ids: The ID of each token, keyed by the token. The ID is None for tokens that texts must not contain, because
            they mark padding or a language.
    """

    def __init__(self, ids: Mapping[str, int | None]) -> None:
        """Store the tokens. If several tokens match at the same position of a text, the longest token is used."""
        self.ids = dict(ids)
        longest_first = sorted(self.ids, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    @classmethod
    def read(cls, model: bytes, size: int) -> Self | None:
        """Return the added tokens at the beginning of a SentencePiece model file, or None if the file has none.

        Args:
            model: Content of the model file.
            size: Number of tokens in the vocabulary.

        Raises:
            ValueError: The added tokens are damaged.
        """
        if (content := _first_field(model, ADDED_TOKENS)) is None:
            return None
        ids = json.loads(content)
        if not isinstance(ids, dict) or not ids or not all(ids):
            raise ValueError("the field is not a mapping with texts as keys")
        if not all(id is None or (type(id) is int and 0 <= id < size) for id in ids.values()):
            raise ValueError("an added token has no valid ID")
        return cls(ids)

    def prepended_to(self, model: bytes) -> bytes:
        """Prepend these added tokens to the content of a SentencePiece model file, and return the result."""
        content = json.dumps(self.ids, ensure_ascii=False).encode()
        return encode_bytes(ADDED_TOKENS, content) + model

    def split(self, text: str) -> Iterator[str | int]:
        """Split a text at added tokens. Yield the ID of each added token, and the text between added tokens as strings.

        Raises:
            ZooError: The text contains a token that texts must not contain.
        """
        for index, part in enumerate(self._pattern.split(text)):  # every second part is an added token
            if index % 2 == 0:
                yield part
            elif (id := self.ids[part]) is not None:
                yield id
            else:
                problem = f"the text contains `{part}`, a special token that this model does not accept in texts"
                hint = "remove the token from the text; choose languages with `--from` and `--to`"
                raise ZooError(problem, hint=hint)


def _first_field(model: bytes, number: int) -> bytes | None:
    """Return the content of a SentencePiece model's first field if its field number is `number`, otherwise None."""
    if not model.startswith(encode_bytes(number, b"")[:-1]):  # without the length
        return None
    content = next(parse_fields(model)).value
    assert isinstance(content, bytes)
    return content


def _marked(subwords: Sequence[str]) -> list[str]:
    """Append the BPE separator to all subwords of a word except the last. Drop the last subword if it is empty."""
    *inner, last = subwords
    return [*(subword + SEPARATOR for subword in inner), *([last] if last else [])]


def _sentence_starts(words: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield each word, and whether the word may be the first word in a sentence."""
    first = True
    for word in words:
        yield word, first
        first = word in _SENTENCE_ENDS or (first and word in _NO_WORDS)


@lru_cache
def _moses(language: str) -> tuple[Any, Any]:
    """Return Moses's tokeniser and detokeniser for a language."""
    sacremoses = import_module("sacremoses")  # imported late: it takes half a second
    tokenizer = sacremoses.MosesTokenizer(language)
    # The same functions in sacremoses take milliseconds for each word that ends with a full stop.
    letters, lower_case = frozenset(tokenizer.IsAlpha), frozenset(tokenizer.IsLower)
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    tokenizer.islower = lower_case.issuperset
    return tokenizer, sacremoses.MosesDetokenizer(language)
