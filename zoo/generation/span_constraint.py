"""Constraint that makes a translation contain given spans, such as amounts and links."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from compiler.lazy import torch
from specs import EOS, PAD, UNK
from zoo.generation.translation import SearchInput, concatenate, pad_sequences
from zoo.text.codes import SEPARATOR
from zoo.text.copying import has_symbol
from zoo.text.span_kinds import LiteralSpan, Span
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jaxtyping import Bool, Int
    from torch import Tensor

_DIGIT = re.compile(r"<0x3[0-9]>|^(?!<0x..>$|▁&#\d+;$).*\d")
"""Pattern of tokens with a digit. Bytes that are not digits, and characters that Moses escapes, do not match."""
_MARKS = tuple("([{<„“«‚‘\"'$€£¥/–-")
_AFTER_SPACE, _AFTER_MARK = 0, 1
"""Root nodes of the trie: for spans that begin a new word, and for spans directly after a mark such as `(`."""


class SpanConstraint:
    """Constraint that makes each output contain the required spans, such as amounts and dates (`SearchInput.required`).

    The output may contain no other digits or copy symbols (placeholder tokens). A span may be written in several ways
    (`Span.spellings`).

    While the tokens of a span consist of letters, the output may still change to another word. After the first token
    with other characters, such as a digit, the output must complete the span. EOS is allowed once all spans are
    complete, and at the maximum length.
    """

    def __init__(self, vocabulary: Vocabulary, free: Sequence[int] = ()) -> None:
        """Build the constraint's lookup tables.

        Args:
            vocabulary: Vocabulary of the model.
            free: Tokens that are always allowed, such as language tokens.
        """
        self._vocabulary = vocabulary
        texts = vocabulary.token_strings(range(vocabulary.sizes[1]))
        always = vocabulary.control_tokens("target") | set(free)
        self.is_word = [text == SPACE or text.replace(SPACE, "").removesuffix(SEPARATOR).isalpha() for text in texts]
        self.free = torch.tensor(
            [id in always or not (_DIGIT.search(text) or has_symbol(text)) for id, text in enumerate(texts)]
        )
        self.marks = torch.tensor([text.endswith(_MARKS) for text in texts])
        self.extends = torch.tensor([re.match("[A-Za-z0-9/_]", text) is not None for text in texts])

    @cached_property
    def common_numbers(self) -> list[str]:
        """The numbers from 20 to 99 as strings, sorted by the number of tokens that they need."""
        numbers = map(str, range(20, 100))
        return sorted(numbers, key=lambda number: (len(self._vocabulary.encode(number, "target")), int(number) % 10))

    def spell(self, span: Span) -> Iterator[tuple[int, list[int]]]:
        """Yield a pair for each spelling of a span: the trie node where the spelling begins, and its tokens.

        Spellings for which the model has no tokens are omitted.
        """
        encode = self._vocabulary.encode
        mark = encode("(", "target")
        for spelling in span.spellings:
            tokens, after_mark = encode(spelling, "target"), encode(f"({spelling}", "target")
            if UNK not in tokens:
                yield _AFTER_SPACE, tokens
                if after_mark[: len(mark)] == mark:
                    yield _AFTER_MARK, after_mark[len(mark) :]

    def start(self, sources: Sequence[SearchInput], device: torch.device | str) -> SpanState:
        """Return the state before the first token, with one row per sentence."""
        tries = [_Trie(self, source.required) for source in sources]

        def table(rows: Iterable[list[int]]) -> Tensor:
            return pad_sequences([row or [0] for row in rows], device)

        left = table(trie.left for trie in tries)
        parents, tokens, children = (table([edge[:3][n] for edge in trie.edges] for trie in tries) for n in range(3))
        below = torch.zeros(*parents.shape, left.shape[1], dtype=torch.bool)
        for row, trie in enumerate(tries):
            for number, (*_, under) in enumerate(trie.edges):
                below[row, number, list(under)] = True

        start = torch.zeros(len(sources), dtype=torch.long, device=device)
        return SpanState(
            start,
            start.bool(),
            torch.tensor([source.max_length for source in sources], device=device),
            left,
            parents,
            tokens,
            children,
            below.to(device),
            table(trie.ends for trie in tries),
            table(trie.forced for trie in tries).bool(),
            table(trie.closed for trie in tries).bool(),
            *(each.to(device).unsqueeze(0) for each in (self.free, self.marks, self.extends)),
        )


class _Trie:
    """Trie of token sequences: all spellings of the spans that an output must contain.

    Attributes:
        left: For each span, the number of times that the output must contain it.
        edges: For each edge, the parent node, the token, the child node, and the spans that pass through the child.
        ends: For each node, the number of the span that ends there, counted from 1. 0 if no span ends there.
        forced: For each node, 1 if the span must be completed from there.
        closed: For each node, 1 if a span ends there and must not be followed by a letter or digit.
    """

    def __init__(self, rule: SpanConstraint, spans: Sequence[Span]) -> None:
        numbers: dict[frozenset[Hashable], int] = {}
        self.left: list[int] = []
        self.ends, self.forced, self.closed = [0, 0], [0, 0], [0, 0]
        edges: dict[tuple[int, int], tuple[int, set[int]]] = {}
        for span in spans:
            number = numbers.setdefault(span.values, len(numbers))
            if number < len(self.left):
                self.left[number] += 1
                continue
            self.left.append(1)
            for node, tokens in rule.spell(span):
                is_distinct = False
                for token in tokens:
                    node, below = edges.setdefault((node, token), (len(self.ends), set()))
                    below.add(number)
                    is_distinct = is_distinct or not rule.is_word[token]
                    if node == len(self.ends):
                        self.ends.append(0)
                        self.forced.append(int(is_distinct))
                        self.closed.append(0)
                self.ends[node] = number + 1
                self.closed[node] = isinstance(span, LiteralSpan) and span.text[-1].isalnum()
        self.forced = [int(forced and not end) for forced, end in zip(self.forced, self.ends, strict=True)]
        self.edges = [(parent, token, child, below) for (parent, token), (child, below) in edges.items()]


class SpanState(NamedTuple):
    """State of `SpanConstraint` for a batch. All hypotheses share `free`, `marks` and `extends`, which have one row."""

    node: Int[Tensor, " rows"]
    """Current node of each hypothesis in the trie of its sentence."""
    after_mark: Bool[Tensor, " rows"]
    """Whether the last token ends with a mark, after which a span may begin without a space."""
    steps: Int[Tensor, " rows"]
    """Number of tokens that still fit into the maximum length."""
    left: Int[Tensor, "rows spans"]
    """How often each span is still missing. A span that ends at the current node counts as missing, because the next
    tokens may turn it into a longer span."""
    parents: Int[Tensor, "rows edges"]
    tokens: Int[Tensor, "rows edges"]
    children: Int[Tensor, "rows edges"]
    below: Bool[Tensor, "rows edges spans"]
    ends: Int[Tensor, "rows nodes"]
    forced: Bool[Tensor, "rows nodes"]
    closed: Bool[Tensor, "rows nodes"]
    free: Bool[Tensor, "1 V"]
    marks: Bool[Tensor, "1 V"]
    extends: Bool[Tensor, "1 V"]

    def allowed(self) -> Bool[Tensor, "rows V"]:
        """Return a mask of the tokens that may come next."""
        node, (continuing, starting) = self.node.unsqueeze(1), self._live()
        forced = self.forced.gather(1, node)
        kept = self.free & ~forced & ~(self.closed.gather(1, node) & self.extends)
        kept = kept.scatter(1, self.tokens.masked_fill(~(continuing | starting), PAD), True)
        kept[:, PAD] = False
        kept[:, EOS] = (~forced[:, 0] & (self._left_after() == 0).all(1)) | (self.steps <= 0)
        return kept

    def advance(self, rows: Int[Tensor, " rows"] | None, tokens: Int[Tensor, " rows"]) -> SpanState:
        """Return the state after one more token in each row (see `ConstraintState.advance`)."""
        state = (
            self if rows is None else SpanState._make([*(each.index_select(0, rows) for each in self[:-3]), *self[-3:]])
        )
        hits = state.tokens == tokens.unsqueeze(1)
        continuing, starting = (live & hits for live in state._live())
        is_continued = continuing.any(1)
        node = (state.children * torch.where(is_continued.unsqueeze(1), continuing, starting)).max(1).values
        return state._replace(
            node=node,
            after_mark=state.marks[0, tokens],
            steps=state.steps - 1,
            left=torch.where(is_continued.unsqueeze(1), state.left, state._left_after()),
        )

    def join(self, other: SpanState) -> SpanState:
        """Return this state with the rows of `other` appended."""
        return SpanState._make([*map(concatenate, self[:-3], other[:-3]), *self[-3:]])

    def _left_after(self) -> Int[Tensor, "rows spans"]:
        """Return how often each span is still missing, assuming that a span ending at the current node is complete."""
        end = self.ends.gather(1, self.node.unsqueeze(1))
        return (self.left - (torch.arange(1, self.left.shape[1] + 1, device=end.device) == end).long()).clamp(min=0)

    def _live(self) -> tuple[Bool[Tensor, "rows edges"], Bool[Tensor, "rows edges"]]:
        """Return masks of the edges that continue the current span, and of the edges that begin a missing span."""
        node = self.node.unsqueeze(1)
        is_first = (self.parents == _AFTER_SPACE) | ((self.parents == _AFTER_MARK) & self.after_mark.unsqueeze(1))
        continuing = (self.parents == node) & (self.below & (self.left > 0).unsqueeze(1)).any(2) & (node > _AFTER_MARK)
        starting = is_first & (self.below & (self._left_after() > 0).unsqueeze(1)).any(2) & ~self.forced.gather(1, node)
        return continuing, starting
