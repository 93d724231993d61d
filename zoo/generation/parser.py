"""Parsers, which convert sentences to constituency trees (paper, section 6.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack, cast, overload

from specs import Parsing, ZooError
from zoo.generation.config import GenerationOptions
from zoo.generation.constraints import BracketConstraint, min_tree_tokens
from zoo.generation.preprocessing import EncodedText, InputTerms, Preprocessor
from zoo.generation.translation import Hypothesis, SearchInput, Translation
from zoo.generation.translator import Translator
from zoo.text.copying import Replaced
from zoo.text.lines import clean
from zoo.text.sentences import checked_texts, excerpt
from zoo.text.trees.tokenizer import TreeTokenizer
from zoo.text.trees.tree import MAX_DEPTH, Tree, escape_brackets, read_tree, simplify, tokenize_words, unescape_brackets
from zoo.text.vocabulary import Side


class ParserPreprocessor(Preprocessor):
    """Preprocessor for parsers. It never splits sentences, and accepts no prefixes."""

    # No warning about unknown words, because the tree contains them unchanged.
    terms = InputTerms(verb="parse", unknown_effect=None)

    def encode(self, text: str, prefix: str, index: int) -> EncodedText:
        """Encode a sentence for the search.

        Raises:
            ZooError: The sentence or its shortest possible tree is too long, or a prefix is given.
        """
        tokens, name = tuple(self._encode(text, "source")), f"the text {excerpt(text)}"
        length = len(tokens) - 1
        if prefix.strip():
            raise ZooError(
                f"{name} has the prefix {excerpt(prefix)}, but a parser does not accept prefixes",
                hint="remove the prefix",
            )
        self.require_length(name, length, "write one sentence per line")
        words = split_words(text)
        # Two of the MAX_DEPTH nested levels are the root and the word.
        max_length = min(self._max_target_length(length), len(words) + 2 * (MAX_DEPTH - 2))
        needed = min_tree_tokens(len(words))
        if cast(Parsing, self.spec.task).constrained and length and max_length < needed:
            raise ZooError(
                f"the tree of {name} needs at least {needed:,} tokens, but may have at most {max_length:,}",
                hint="raise `decoding.extra_length` in the model's spec (learned positions can also limit the length)",
            )
        word_tokens = cast(TreeTokenizer, self.vocabulary.target).word_ids(map(escape_brackets, words))
        part = SearchInput(index, {"source": tokens}, max_length, (), text, word_tokens)
        return EncodedText(index, text, (part,) if length else (), length)

    def source_tokens(self, source: Replaced) -> list[str]:
        """Return the tokens in a sentence as strings, without EOS, and with brackets instead of `-LRB-` and `-RRB-`."""
        return super().source_tokens(Replaced(_unescape_words(source.text)))

    def _encode(self, text: str, side: Side) -> list[int]:
        return super()._encode(_unescape_words(text) if side == "source" else text, side)


class Parser(Translator):
    """Translator that converts sentences to bracketed trees, such as `(TOP (S (NP (XX the) (XX dog)) ...))`.

    A tree contains exactly the words in its sentence, because the search produces only such trees. If
    `task.constrained` is false, the search is not restricted, and invalid outputs are repaired. If the model was
    trained without part-of-speech tags, the tag of each word is `XX`. Round brackets in a sentence are written as
    `-LRB-` and `-RRB-` in the tree, as in treebanks.
    """

    translates = False
    preprocessor_class = ParserPreprocessor

    def __post_init__(self) -> None:
        super().__post_init__()
        self.symbols = symbols = cast(TreeTokenizer, self.vocabulary.target)
        if cast(Parsing, self.spec.task).constrained and self.constraint is None:
            self.constraint = BracketConstraint(
                symbols.opening, symbols.closing, symbols.words, symbols.size, symbols.max_opening_run
            )

    @overload
    def parse(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: None = None, tokenized: bool = False, **options: Unpack[GenerationOptions]
    ) -> Tree | None: ...
    @overload
    def parse(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: int, tokenized: bool = False, **options: Unpack[GenerationOptions]
    ) -> list[Tree]: ...
    @overload
    def parse(
        self,
        texts: Iterable[str],
        *,
        n_best: None = None,
        tokenized: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> list[Tree | None]: ...
    @overload
    def parse(
        self, texts: Iterable[str], *, n_best: int, tokenized: bool = False, **options: Unpack[GenerationOptions]
    ) -> list[list[Tree]]: ...
    def parse(
        self,
        texts: str | Iterable[str],
        *,
        n_best: int | None = None,
        tokenized: bool = False,
        **options: Unpack[GenerationOptions],
    ) -> Tree | list[Tree] | list[Tree | None] | list[list[Tree]] | None:
        """Parse one or more sentences. NLTK can read the result of `str(tree)`.

        Args:
            texts: One sentence, or an iterable of sentences.
            n_best: Number of trees per sentence. If None, only the best tree is returned.
            tokenized: Whether words and punctuation marks are already separated by spaces, as in treebanks. If false,
                English sentences are tokenised first.
            **options: Generation options. Defaults come from the spec.

        Returns:
            For one sentence, the best tree, or, if `n_best` is given, a list of trees, best first. For an iterable of
            sentences, a list with such a result per sentence. The result for an empty sentence is None, or, if
            `n_best` is given, an empty list.

        Raises:
            ZooError: The same errors as `translate`.
        """
        if isinstance(texts, str):
            return self.parse([texts], n_best=n_best, tokenized=tokenized, **options)[0]
        checked = checked_texts(texts)
        if not tokenized:
            checked = [self.tokenize(text) for text in checked]
        hypotheses = self.hypotheses(checked, n_best=n_best, **options)
        trees = [[read_tree(each.text) for each in translations if each.text] for translations in hypotheses]
        if n_best is not None:
            return trees
        return [ranked[0] if ranked else None for ranked in trees]

    def tokenize(self, text: str) -> str:
        """Return a sentence with spaces between its words and punctuation marks, as in the training data."""
        return tokenize_words(text, self.spec.corpus.source)

    def check_examples(self, *texts: Iterable[str], first: int = 1) -> tuple[list[str], ...]:
        """Check sentences and their trees before scoring. Return the list of sentences and the list of trees.

        Trees are simplified as in the training data. A sentence whose words differ from the words in its tree is
        tokenised.

        Args:
            texts: Two iterables: the sentences and their trees.
            first: Number of the first pair in error messages.

        Raises:
            ZooError: A target is not a tree with the words in its sentence.
        """
        sentences, trees = super().check_examples(*texts, first=first)
        for index, bracketed in enumerate(trees):
            tree, text = simplify(read_tree(bracketed)), sentences[index]
            words = split_words(" ".join(tree.leaves()))
            if words != split_words(text):
                sentences[index] = text = self.tokenize(text)
            if words != split_words(text):
                raise ZooError(
                    f"the words in the tree {excerpt(bracketed)} differ from the words in the sentence {excerpt(text)}",
                    hint="pass the trees in the same order as the sentences, one tree per sentence",
                )
            trees[index] = str(tree)
        return sentences, trees

    def to_translations(
        self, preprocessor: Preprocessor, source: SearchInput, hypotheses: Sequence[Hypothesis]
    ) -> list[Translation]:
        """Convert the hypotheses for a sentence to trees in bracketed notation."""
        words = list(map(escape_brackets, split_words(source.text)))
        return [each.with_text(str(self.symbols.to_tree(each.tokens, words))) for each in hypotheses]


def split_words(text: str) -> tuple[str, ...]:
    """Return the words and punctuation marks of a sentence, with `-LRB-` and `-RRB-` replaced by brackets.

    A zero-width space also separates words, as in the tokeniser.
    """
    return tuple(map(unescape_brackets, clean(text).replace("\u200b", " ").split()))


def _unescape_words(text: str) -> str:
    return " ".join(split_words(text))
