"""Modality `trees`, the output of a parser. It converts trees to token IDs for brackets and words (section 6.3)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from specs import EOS, UNK, Vocabulary, ZooError
from zoo.files.reading import damaged
from zoo.text.lines import read_sentences, without_control
from zoo.text.modality import Modality, Options
from zoo.text.trees.tree import ESCAPED, MAX_DEPTH, ROOT, XX, Tree, leaf, node, read_tree, read_treebank, with_root

Linearisation = Literal["vinyals", "tensor2tensor", "initials"]
MAX_OPENING_RUN = 64
"""Upper limit for `TreeTokenizer.max_opening_run`. In treebanks, up to about ten constituents begin at one word."""
_FIRST = EOS + 1
_Name = Annotated[str, Field(pattern=r"^[^()\s]+$")]
_UNKNOWN = "⁇"


class _StoredTokenizer(BaseModel):
    """Content of a tree tokenizer's JSON file."""

    model_config = ConfigDict(strict=True, extra="forbid")

    linearisation: Linearisation
    size: int
    in_a_row: Annotated[int, Field(ge=1, le=MAX_OPENING_RUN)] | None = None
    labels: Annotated[list[_Name], Field(min_length=1)]
    tags: Annotated[list[_Name], Field(min_length=1)]


class TreeTokenizer(Modality):
    """Modality `trees`: each constituent label has an opening and a closing bracket token.

    The linearisation determines the tokens that stand for words:

    - `vinyals`: every word is `XX`, so `(NP XX XX )NP` is a noun phrase of two words (Vinyals et al., 2015).
    - `initials`: every word is its first character, as in `(NP t d )NP`. The decoder then knows which word comes next.
    - `tensor2tensor` (the code of the paper's authors): every word is its part of speech, as in `NP DT NN /NP`.

    If ROOT has only one child, ROOT is omitted. The IDs start with the special tokens of `specs`, followed by the
    opening brackets, the closing brackets and the words.

    Attributes:
        opening: IDs of the opening brackets, one per label.
        closing: IDs of the closing brackets, in the same order.
        words: IDs of the tokens that stand for words, in the order of `tags`.
        max_opening_run: Maximum number of constituents that begin at the same word, or None if it is unknown.
    """

    suffix = ".json"
    sampled = False

    def __init__(
        self,
        labels: Sequence[str],
        tags: Sequence[str],
        linearisation: Linearisation,
        size: int | None = None,
        max_opening_run: int | None = None,
    ) -> None:
        """Assign IDs to labels and tags, in the given order.

        Args:
            labels: Labels of constituents, such as `NP`.
            tags: Tokens that stand for words, such as `XX`.
            linearisation: Rule that determines which token stands for a word.
            size: Number of IDs, including unused IDs. Default: the number of tokens.
            max_opening_run: Maximum number of constituents that begin at the same word, if known.

        Raises:
            ZooError: `size` is smaller than the number of tokens.
        """
        self.labels, self.tags, self.linearisation = tuple(labels), tuple(tags), linearisation
        self.max_opening_run = max_opening_run
        first = [_FIRST, _FIRST + len(labels), _FIRST + 2 * len(labels), _FIRST + 2 * len(labels) + len(tags)]
        self.opening, self.closing, self.words = (range(*ends) for ends in pairwise(first))
        self.size = first[-1] if size is None else size
        if self.size < first[-1]:
            raise ZooError(
                f"`vocabulary.target_size` is {self.size:,}, but these trees need {first[-1]:,} IDs for "
                f"{len(labels):,} labels and {len(tags):,} word tokens",
                hint=f"set `vocabulary.target_size` to at least {first[-1]}",
            )
        self._opening_ids = dict(zip(labels, self.opening, strict=True))
        self._closing_ids = dict(zip(labels, self.closing, strict=True))
        self._word_ids = dict(zip(tags, self.words, strict=True))
        opens, closes = ("{}", "/{}") if linearisation == "tensor2tensor" else ("({}", "){}")
        names = [*map(opens.format, labels), *map(closes.format, labels), *tags]
        self._names = dict(enumerate(names, start=_FIRST))
        run = {} if max_opening_run is None else {"in_a_row": max_opening_run}
        fields = {"linearisation": linearisation, "size": self.size, **run, "labels": self.labels, "tags": self.tags}
        self.content = (json.dumps(fields, ensure_ascii=False, indent=1) + "\n").encode()

    @staticmethod
    def read(path: Path) -> Iterator[str]:
        """Yield the simplified trees in a treebank file, in bracketed notation."""
        # Clean lines before parsing, so that a control character in a word is an error with a line number.
        return map(str, read_treebank(map(without_control, read_sentences(path)), str(path)))

    @classmethod
    def learn(
        cls, lines: Iterable[str], section: Vocabulary, stream: str, language_tokens: Sequence[str], options: Options
    ) -> Self:
        """Create a tokenizer for all labels and tags in bracketed trees. The top node of each tree must be ROOT.

        The option `linearisation` is required. See `Modality.learn` for the arguments.

        Raises:
            ZooError: There are no trees, or the vocabulary size is smaller than the number of tokens.
        """
        linearisation: Linearisation = options["linearisation"]
        labels, tags, longest_run = set[str](), set[str](), 1
        for tree in map(read_tree, lines):
            hidden, run = tree if _hides_root(tree) else None, 0
            for visited, closes in tree.walk():
                if visited.word:
                    tags.add(_word_token(linearisation, visited.label, visited.word))
                    longest_run, run = max(longest_run, run), 0
                elif not closes:
                    run += 1
                    if visited is not hidden:
                        labels.add(visited.label)
        if not labels:
            raise ZooError("there are no trees to learn a vocabulary from", hint="add a treebank to `corpus.train`")
        known_run = longest_run if longest_run <= MAX_OPENING_RUN else None
        return cls(sorted(labels), sorted(tags), linearisation, section.sizes[1], known_run)

    @classmethod
    def from_content(cls, content: bytes, name: str) -> Self:
        """Load a tokenizer from JSON, as in the `content` attribute. `name` is the name of the file in error messages.

        Raises:
            ZooError: The content is damaged.
        """
        try:
            stored = _StoredTokenizer.model_validate_json(content)
            if len({*stored.labels}) < len(stored.labels) or len({*stored.tags}) < len(stored.tags):
                raise ValueError("a label occurs twice")
            return cls(stored.labels, stored.tags, stored.linearisation, stored.size, stored.in_a_row)
        except (ValueError, ZooError):
            raise damaged(name, "it does not contain the brackets of trees") from None

    def encode(self, text: str) -> list[int]:
        """Return the token IDs of a bracketed tree. Labels and words without a token become UNK.

        Raises:
            ZooError: The text is not exactly one tree.
        """
        return list(self._ids(with_root(read_tree(text))))

    def _ids(self, tree: Tree) -> Iterator[int]:
        hidden = tree if _hides_root(tree) else None
        for visited, closes in tree.walk():
            if visited.word:
                yield self._word_ids.get(_word_token(self.linearisation, visited.label, visited.word), UNK)
            elif visited is not hidden:
                yield (self._closing_ids if closes else self._opening_ids).get(visited.label, UNK)

    def word_ids(self, words: Iterable[str]) -> tuple[int, ...]:
        """Return the ID of the token that must represent each word in a sentence in its linearised tree.

        Returns:
            One ID per word. The ID is UNK if the word may have any token, because its initial is unknown or the
            linearisation is not `initials`.
        """
        known = self._word_ids if self.linearisation == "initials" else {}
        return tuple(known.get(_initial(word), UNK) for word in words)

    def decode(self, ids: Iterable[int]) -> str:
        """Return a linearised tree as text, for instance `(S (NP XX )NP )S`."""
        return " ".join(self._names.get(id, _UNKNOWN) for id in ids if id >= _FIRST or id == UNK)

    def token_strings(self, ids: Iterable[int]) -> list[str]:
        """Return each token as a string, such as `▁(S`."""
        return [f"▁{self._names.get(id, _UNKNOWN)}" for id in ids]

    def to_tree(self, ids: Iterable[int], words: Sequence[str]) -> Tree:
        """Build a tree from token IDs and the words in the sentence. Accept invalid token sequences.

        A closing bracket of an outer constituent also closes the constituents inside it. Closing brackets without an
        opening bracket, and empty constituents, are dropped. Remaining words are added to the constituent that is open
        at the end.

        Args:
            ids: The token IDs. They need not form a valid tree.
            words: The words in the sentence. There must be at least one word.
        """
        children: list[list[Tree]] = [[]]
        labels: list[int] = []
        remaining = list(reversed(words))

        def close() -> int:
            constituents, label = children.pop(), labels.pop()
            if constituents:
                children[-1].append(node(self.labels[label - _FIRST], *constituents))
            return label

        for id in ids:
            if id in self.opening and len(labels) < MAX_DEPTH - 2:
                labels.append(id)
                children.append([])
            elif id in self.words and remaining:
                tag = self._names[id] if self.linearisation == "tensor2tensor" else XX
                children[-1].append(leaf(tag, remaining.pop()))
            elif id in self.closing and (opening := id - len(self.labels)) in labels:
                while close() != opening:
                    pass
        children[-1] += (leaf(XX, word) for word in reversed(remaining))
        while labels:
            close()
        trees = children[0]
        has_root = len(trees) == 1 and trees[0].label == ROOT and not trees[0].word
        return trees[0] if has_root else node(ROOT, *trees)


def _initial(word: str) -> str:
    """Return a word's token for `initials`: its first character, `0` for a digit, or an escaped bracket."""
    first = next((escape for escape in ESCAPED if word.startswith(escape)), word[0])
    return "0" if first.isdigit() else first


def _word_token(linearisation: Linearisation, tag: str, word: str) -> str:
    return {"vinyals": XX, "tensor2tensor": tag, "initials": _initial(word)}[linearisation]


def _hides_root(tree: Tree) -> bool:
    """Return whether ROOT is omitted from the linearised tree, because ROOT has only one child."""
    return len(tree.children) == 1 and tree.children[0].label != ROOT
