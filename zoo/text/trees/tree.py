"""Constituency trees, their bracketed notation (as in the Penn Treebank), and functions that split and join words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from specs import ZooError
from specs.notation import quote
from zoo.text.language_codes import base_language

ROOT = "TOP"
"""Label of the constituent that covers a whole sentence."""
MAX_DEPTH = 500
"""Maximum number of nested constituents in a tree from a file. The limit allows `format_tree` to use recursion."""
XX = "XX"
"""Tag of a word whose part of speech is not specified."""
_SPACE_BEFORE_PUNCTUATION = re.compile(r" (?=[.,?])")
ESCAPED = ("-LRB-", "-RRB-")
"""Escapes that replace the round brackets `(` and `)` in the words of a tree."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree:
    """Constituent (a label with children) or leaf (a part of speech with a word).

    Create constituents with `node`, and leaves with `leaf`.

    `str(tree)` is the tree in bracketed notation, such as `(NP (DT the) (NN dog))`. Two trees are equal if their
    notation is the same. Methods do not use recursion, so they work for trees of any depth.
    """

    label: str
    children: tuple[Tree, ...]
    word: str = ""

    def walk(self) -> Iterator[tuple[Tree, bool]]:
        """Yield each constituent and word in a depth-first traversal from left to right.

        A constituent is yielded at its start with False, and at its end with True. A word is yielded once, with False.
        """
        stack = [(self, False)]
        while stack:
            tree, closes = stack.pop()
            yield tree, closes
            if tree.children and not closes:
                stack.append((tree, True))
                stack.extend((child, False) for child in reversed(tree.children))

    def __str__(self) -> str:
        parts: list[str] = []
        for tree, closes in self.walk():
            if closes:
                parts[-1] += ")"
            else:
                parts.append(f"({tree.label} {tree.word})" if tree.word else f"({tree.label}")
        return " ".join(parts)

    def __repr__(self) -> str:
        return f"<{self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tree) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def leaves(self) -> Iterator[str]:
        """Yield the words from left to right."""
        return (tree.word for tree, _ in self.walk() if tree.word)


def node(label: str, *children: Tree) -> Tree:
    """Create a constituent from its label and its children. There must be at least one child."""
    return Tree(label, children)


def leaf(label: str, word: str) -> Tree:
    """Create a leaf: a word with its part of speech as the label."""
    return Tree(label, (), word)


def with_root(tree: Tree) -> Tree:
    """Add a root with the label `TOP`, or relabel the root. Treebanks give the root the label `ROOT` or no label."""
    if tree.label in ("", "ROOT") and tree.children:
        return replace(tree, label=ROOT)
    return tree if tree.label == ROOT and tree.children else node(ROOT, tree)


def escape_brackets(word: str) -> str:
    """Escape the round brackets in a word, as treebanks do: `(` becomes `-LRB-`."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


def unescape_brackets(word: str) -> str:
    """Unescape the round brackets in a word of a tree: `-LRB-` becomes `(`."""
    return word.replace("-LRB-", "(").replace("-RRB-", ")")


_WORD = re.compile(r" ([^()]+)\)")


def words(bracketed: str) -> list[str]:
    """Return the words in a bracketed tree, from left to right. Brackets in words stay escaped."""
    return _WORD.findall(bracketed)


def detokenise(words: Iterable[str]) -> str:
    """Join words and punctuation marks into a sentence.

    There is no space before `.`, `,` and `?`. The words `can not`, which the Penn Treebank separates, become `cannot`.
    """
    return _SPACE_BEFORE_PUNCTUATION.sub("", " ".join(words)).replace("can not ", "cannot ")


def tokenize_words(text: str, language: str) -> str:
    """Separate the words in a sentence with spaces, as in the Penn Treebank: `can't` becomes `ca n't`.

    Args:
        text: Sentence to tokenise.
        language: Language code. Only English sentences are changed.
    """
    return " ".join(_tokenizer().tokenize(text)) if base_language(language) == "en" else text


@lru_cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes 0.15 s to import, and only parsing needs it

    return NLTKWordTokenizer()


LINE_WIDTH = 100
"""Maximum number of characters per line in indented notation."""
_INDENT = 2
# A leaf, an opening bracket with its label, a closing bracket, or anything else.
_TOKEN = re.compile(r"\(\s*(?:(?P<label>[^()\s]+)(?:\s+(?P<word>[^()\s]+)\s*\))?)?|\)|[^()\s]+")
_HINT = "write a tree as `(NP (DT the) (NN dog))`"
_FUNCTION_TAG = re.compile(r"^([^-][^-=]*)[-=].*")
_TRACE = "-NONE-"
# Older treebanks escape these characters, although only round brackets have a meaning in trees.
_OLD_ESCAPES = {"-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]", "\\/": "/", "\\*": "*"}
_OLD_ESCAPE = re.compile("|".join(map(re.escape, _OLD_ESCAPES)))


def read_tree(text: str) -> Tree:
    """Parse a string that contains exactly one bracketed tree.

    Raises:
        ZooError: The string is not exactly one tree.
    """
    try:
        trees = list(_read_trees(text))
    except ZooError as error:
        raise ZooError(f"{quote(text)} is not a single bracketed tree: {error.problem}", hint=_HINT) from None
    if len(trees) != 1:
        raise ZooError(f"{quote(text)} is not a single bracketed tree: it contains {len(trees)} trees", hint=_HINT)
    return trees[0]


def read_treebank(lines: Iterable[str], name: str) -> Iterator[Tree]:
    """Yield the trees in a file, each simplified by `simplify`. A tree may span several lines.

    Args:
        lines: Lines in the file.
        name: Name of the file in error messages.

    Raises:
        ZooError: A line is not part of a valid tree, a tree has no words or is nested too deeply, or the file contains
            no tree.
    """
    pending: list[str] = []
    depth = count = first_line = 0

    def read() -> Iterator[Tree]:
        try:
            yield from map(simplify, _read_trees("\n".join(pending)))
        except ZooError as error:
            raise ZooError(error.problem, where=f"{name}:{first_line}", hint=error.hint) from None

    for number, line in enumerate(lines, start=1):
        first_line = first_line if pending else number
        pending.append(line)
        depth += line.count("(") - line.count(")")
        if depth <= 0:
            for tree in read():
                count += 1
                yield tree
            pending.clear()
    yield from read()
    if not count:
        raise ZooError(f"`{name}` contains no trees", hint="use another file, or remove this part of the corpus")


def _read_trees(text: str) -> Iterator[Tree]:
    """Yield the trees in a text. Raise ZooError, without a line number, if the text contains anything else."""
    unclosed: list[tuple[str, list[Tree]]] = []
    for token in _TOKEN.finditer(text):
        label, word = token["label"] or "", token["word"]
        if token[0][0] == "(" and len(unclosed) == MAX_DEPTH:
            raise _too_deep()
        if word is not None:
            tree = leaf(label, word)
        elif token[0][0] == "(":
            unclosed.append((label, []))
            continue
        elif token[0] != ")":
            raise ZooError(f"the word {quote(token[0])} has no brackets around it", hint=_HINT)
        elif not unclosed:
            raise ZooError("a closing bracket has no opening bracket", hint=_HINT)
        else:
            label, children = unclosed.pop()
            if not children:
                raise ZooError(f"the constituent `({label})` contains no words", hint=_HINT)
            tree = node(label, *children)
        if not unclosed:
            yield tree
        elif not label:
            raise ZooError("a bracket inside a tree has no label", hint=_HINT)
        else:
            unclosed[-1][1].append(tree)
    if unclosed:
        raise ZooError("a bracket is not closed", hint="add the missing closing bracket to the tree that begins here")


def simplify(tree: Tree) -> Tree:
    r"""Simplify a treebank tree for training and evaluation.

    Remove traces (empty elements), constituents that only contain traces, and function tags (`NP-SBJ-1` becomes
    `NP`). Replace old escapes in words (`1\/2` becomes `1/2`), and add a root with the label `TOP`.

    Raises:
        ZooError: No word is left, or the tree below ROOT is nested too deeply.
    """
    stack: list[list[Tree]] = [[]]
    depth = 0
    for visited, closes in tree.walk():
        depth = max(depth, len(stack))
        if visited.word:
            if visited.label != _TRACE:
                word = _OLD_ESCAPE.sub(lambda escape: _OLD_ESCAPES[escape[0]], visited.word)
                stack[-1].append(replace(visited, word=word))
        elif not closes:
            stack.append([])
        elif children := stack.pop():
            stack[-1].append(Tree(_FUNCTION_TAG.sub(r"\1", visited.label), tuple(children)))
    if not stack[0]:
        raise ZooError("the tree contains no words", hint="remove this tree")
    simplified = stack[0][0]
    rooted = with_root(simplified)
    if rooted.children[0] is simplified and depth == MAX_DEPTH:
        raise _too_deep()
    return rooted


def format_tree(tree: Tree, width: int = LINE_WIDTH) -> str:
    """Format a tree in the indented notation of the Penn Treebank, which `read_tree` can parse.

    A constituent is on one line if it fits. Otherwise its label is on a separate line, with the children indented
    below. A leaf is always on one line.
    """
    return "\n".join(_indented_lines(tree, width, 0, 0))


def _indented_lines(tree: Tree, width: int, depth: int, closing: int) -> list[str]:
    """Return the lines of a subtree. The last line has room for `closing` more brackets, which close its ancestors."""
    indent, flat = " " * (_INDENT * depth), str(tree)
    if tree.word or len(indent) + len(flat) + closing <= width:
        return [indent + flat]
    *first, last = tree.children
    lines = [f"{indent}({tree.label}"]
    for child in first:
        lines += _indented_lines(child, width, depth + 1, 0)
    lines += _indented_lines(last, width, depth + 1, closing + 1)
    lines[-1] += ")"
    return lines


def _too_deep() -> ZooError:
    return ZooError(f"the tree has more than {MAX_DEPTH:,} nested constituents", hint="remove or flatten this tree")
