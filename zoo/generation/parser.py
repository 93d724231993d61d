"""Sentences in, constituency trees out (paper, section 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Unpack, overload

from specs import EOS, Parsing, ZooError
from zoo.generation.brackets import Brackets, least
from zoo.generation.hypothesis import Hypothesis
from zoo.generation.intake import Intake
from zoo.generation.lengths import Split
from zoo.generation.request import Choice
from zoo.generation.source import Source
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.text.lines import clean
from zoo.text.sentences import excerpt
from zoo.text.trees.bracketed import read_tree, simplify
from zoo.text.trees.tokenizer import TreeTokenizer
from zoo.text.trees.tree import MAX_DEPTH, Tree, escape_brackets, unescape_brackets
from zoo.text.vocabulary import Side


class Parser(Translator):
    """Parses sentences, whose words and marks are separated by spaces as in the treebank that it learned from.

    It is a translator whose translations are bracketed trees, `(TOP (S (NP (XX the) (XX dog)) ...))`, over exactly the
    words of their sentences: the search writes nothing else, unless `task.constrained` is false, where what is no tree
    is mended. A word's tag is `XX` where the linearisation writes none. Brackets in a sentence are `-LRB-` and `-RRB-`
    in its tree, as treebanks have them.
    """

    verb = "parse"

    def __init__(self, *of: Any, **how: Any) -> None:
        """As a translator. Its spec's task is to parse."""
        super().__init__(*of, **how)
        target, task = self.vocabulary.target, self.spec.task
        assert isinstance(target, TreeTokenizer)
        assert isinstance(task, Parsing)
        self.symbols = target
        self.constraint = (
            Brackets(target.opening, target.closing, target.words, target.size, target.max_opening_run)
            if task.constrained
            else None
        )

    @overload
    def parse(self, texts: str, *, n_best: None = None, **choice: Unpack[Choice]) -> Tree | None: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, texts: str, *, n_best: int, **choice: Unpack[Choice]) -> list[Tree]: ...  # type: ignore[overload-overlap]
    @overload
    def parse(self, texts: Iterable[str], *, n_best: None = None, **choice: Unpack[Choice]) -> list[Tree | None]: ...
    @overload
    def parse(self, texts: Iterable[str], *, n_best: int, **choice: Unpack[Choice]) -> list[list[Tree]]: ...
    def parse(
        self, texts: str | Iterable[str], *, n_best: int | None = None, **choice: Unpack[Choice]
    ) -> Tree | list[Tree] | list[Tree | None] | list[list[Tree]] | None:
        """The tree of a sentence, or of each of a list; with `n_best` a list of the best, best first.

        A text without a word has no tree. `str(tree)` is what NLTK reads. Raises ZooError as `translate` does.
        """
        one = isinstance(texts, str)
        found = self.hypotheses([texts] if isinstance(texts, str) else texts, n_best=n_best, **choice)
        trees = [[read_tree(each.text) for each in best if each.text] for best in found]
        if n_best is not None:
            return trees[0] if one else trees
        first = [best[0] if best else None for best in trees]
        return first[0] if one else first

    def intake(self) -> Intake:
        of = (self.vocabulary, self.spec, self.positions, self.longest_source, self.report)
        return Sentences(self.symbols.word_ids, self.constraint is not None, *of)

    def given(self, sources: Iterable[str], targets: Iterable[str], *, first: int = 1) -> tuple[list[str], list[str]]:
        """Sentences and their bracketed trees, of these what a parser learns of them, as of a treebank's.

        Raises ZooError for what is no tree, or one of other words.
        """
        left, right = super().given(sources, targets, first=first)
        return left, [str(_tree_over(text, tree)) for text, tree in zip(left, right, strict=True)]

    def _translations(self, intake: Intake, index: int, found: Sequence[Hypothesis]) -> list[Translation]:
        assert isinstance(intake, Sentences)
        words = list(map(escape_brackets, intake.words.pop(index)))
        tree = self.symbols.to_repaired_tree if self.constraint is None else self.symbols.to_tree
        return [
            Translation(str(tree(each.tokens, words)), each.score, each.log_probability, each.tokens) for each in found
        ]


class Sentences(Intake):
    """What is parsed is never split, and nothing stands before its tree; `words` are those of what was read."""

    unknown = None  # they are in the tree as they were given

    def __init__(self, written: Callable[[Iterable[str]], tuple[int, ...]], constrained: bool, *of: Any) -> None:
        """As an intake; `written` says what words are written as, and what is `constrained` is nothing but trees."""
        super().__init__(*of)
        self.written, self.constrained = written, constrained
        self.words: dict[int, tuple[str, ...]] = {}
        """Of the sentences that have no tree yet."""

    def sources(self, texts: Sequence[str], prefixes: Sequence[str], first: int) -> list[Source | Split]:
        found: list[Source | Split] = []
        rows = self._encoded(texts, "source")
        for index, (row, text, prefix) in enumerate(zip(rows, texts, prefixes, strict=True), start=first):
            if prefix.strip():
                raise ZooError(
                    f"prefix {index + 1:,} ({excerpt(prefix)}) stands before a tree", hint="leave prefixes out"
                )
            if len(row) - 1 > self.most:
                raise ZooError(
                    f"text {index + 1:,} ({excerpt(text)}) is a sentence of {len(row) - 1:,} tokens, and the parser "
                    f"takes {self.most:,} (`decoding.max_source_length`)",
                    hint="a sentence a line: break it where its sentences end",
                )
            words = words_of(text)
            limit = min(self._limit(len(row) - 1), len(words) + 2 * (MAX_DEPTH - 2))  # ROOT and a word are two
            if row != [EOS]:
                self._require_room(least(len(words)), limit, text, index)
                self.words[index] = words
            spelled = self.written(map(escape_brackets, words))
            found.append(Source(index, tuple(row), limit, (), text, len(words), spelled))
        return found

    def _require_room(self, needed: int, limit: int, text: str, index: int) -> None:
        if self.constrained and limit < needed:
            raise ZooError(
                f"the tree of text {index + 1:,} ({excerpt(text)}) has {needed:,} tokens at least, and may have "
                f"{limit:,} at most",
                hint="raise `decoding.extra_length` of the model's spec; learned positions bound it, too",
            )

    def spelled(self, text: str) -> list[str]:
        return super().spelled(_plain(text))

    def _encoded(self, texts: Sequence[str], side: Side) -> list[list[int]]:
        return super()._encoded(list(map(_plain, texts)) if side == "source" else texts, side)


def words_of(text: str) -> tuple[str, ...]:
    """The words and marks of a sentence, without the brackets of treebanks in them."""
    return tuple(map(unescape_brackets, clean(text).split()))


def _plain(text: str) -> str:
    return " ".join(words_of(text))


def _tree_over(text: str, written: str) -> Tree:
    tree = simplify(read_tree(written))
    if words_of(" ".join(tree.leaves())) != words_of(text):
        raise ZooError(
            f"the tree {excerpt(written)} has other words than its sentence, {excerpt(text)}",
            hint="line n of the trees is the tree of line n of the sentences, word for word",
        )
    return tree
