"""Constraints: trees against an enumeration of all trees, and suppressed tokens against a program that lacks them."""

import math
import random
from functools import cache
from itertools import groupby

import pytest
import torch

import compiler
import specs
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, UNK
from tests.zoo.generation.conftest import require_backend
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.sampling import Sampling
from zoo.generation.translation import SearchInput

OPENING, CLOSING, WORDS, SIZE = (4, 9), (7, 5), (6, 10), 12  # the tokens 8 and 11 have no meaning
TREES = BracketConstraint(OPENING, CLOSING, WORDS, SIZE)


# trees


@cache
def forests(words, max_length):
    """Return all sequences of constituents over this many words, of at most `max_length` tokens."""
    if words == 0:
        return frozenset({()})
    first = {(n, tree) for n in range(1, words + 1) for tree in constituents(n, max_length - (words - n))}
    return frozenset(tree + rest for n, tree in first for rest in forests(words - n, max_length - len(tree)))


@cache
def constituents(words, max_length):
    trees = {(word,) for word in WORDS if words == 1 and max_length >= 1}
    if max_length >= words + 2:
        inner = forests(words, max_length - 2)
        trees |= {(o, *each, c) for each in inner for o, c in zip(OPENING, CLOSING, strict=True)}
    return frozenset(trees)


def is_tree(tokens, words):
    """Return whether the tokens are a tree over this many words, by a stack."""
    stack, left, empty = [], words, False
    for position, token in enumerate(tokens):
        if position and not stack:
            return False
        if token in OPENING:
            stack.append(CLOSING[OPENING.index(token)])
        elif token in WORDS:
            left -= 1
        elif empty or not stack or token != stack.pop():
            return False
        empty = token in OPENING
    return bool(tokens) and not stack and left == 0


def has_words(tree, word_tokens):
    """Return whether the words of a tree are the given ones, of which UNK is any."""
    words = [token for token in tree if token in WORDS]
    return all(expected in (UNK, word) for expected, word in zip(word_tokens, words, strict=True))


def consecutive_openings(tree):
    return max(len(list(run)) if opens else 0 for opens, run in groupby(tree, OPENING.__contains__))


def check_allowed_tokens(constraint, source, trees):
    """Check, for every prefix of a tree, that exactly the tokens are allowed that continue to a tree."""
    following = {}
    for tree in trees:
        for i, token in enumerate((*tree, EOS)):
            following.setdefault(tree[:i], set()).add(token)
    state, prefixes = constraint.start([source], "cpu"), [()]
    while prefixes:
        expected = [[token in following[each] for token in range(SIZE)] for each in prefixes]
        assert state.allowed().tolist() == expected
        steps = [(row, token) for row, each in enumerate(prefixes) for token in sorted(following[each]) if token != EOS]
        random.Random(0).shuffle(steps)
        prefixes = [(*prefixes[row], token) for row, token in steps]
        rows, tokens = torch.tensor(steps, dtype=torch.long).view(-1, 2).unbind(1)
        state = state.advance(rows, tokens)


@pytest.mark.parametrize("max_consecutive", [None, 1, 2, 4])
def test_exactly_the_tokens_are_allowed_that_continue_to_a_tree(max_consecutive):
    """The tree has the given words, and no more consecutive brackets than allowed."""
    constraint = BracketConstraint(OPENING, CLOSING, WORDS, SIZE, max_consecutive)
    cases = [((UNK,) * n, length) for n, length in [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (3, 5), (3, 6), (3, 8)]]
    for words, length in [*cases, ((6,), 7), ((10, 6), 8), ((UNK, 10), 8), ((6, UNK, 10), 7)]:
        possible = [tree for tree in constituents(len(words), length) if has_words(tree, words)]
        assert all(is_tree(tree, len(words)) for tree in possible)
        trees = [tree for tree in possible if consecutive_openings(tree) <= (max_consecutive or length)]
        check_allowed_tokens(constraint, SearchInput(0, {"source": (4, EOS)}, length, words=words), trees)


STRATEGIES = {
    "greedy": lambda constraint: BeamSearch(1, 0.6, 1, constraint),
    "beam": lambda constraint: BeamSearch(4, 0.6, 4, constraint),
    "wide": lambda constraint: BeamSearch(21, 0.6, 21, constraint),
    "shrinking": lambda constraint: BeamSearch(4, 0.6, 4, constraint, "power", "shrinking"),
    "full": lambda constraint: BeamSearch(4, 0.6, 4, constraint, "power", "full"),
    "sample": lambda constraint: Sampling(3, 0.6, 1.3, 0, 1.0, 1, constraint),
    "top": lambda constraint: Sampling(3, 0.6, 1.3, 3, 0.9, 1, constraint),
}
TREE_STRATEGIES = {name: make(TREES) for name, make in STRATEGIES.items()}
TREE_STRATEGIES["suppressed"] = BeamSearch(4, 0.6, 1, SuppressedTokens((UNK,), SIZE, TREES))


@pytest.fixture(scope="module", params=["toy", pytest.param("native", marks=pytest.mark.integration)])
def program(request, toy, tmp_path_factory):
    if request.param == "toy":
        return toy(SIZE, 1, 100)
    require_backend(request.param)
    architecture = {"N": 1, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4}
    spec = specs.load("tiny", {"architecture": architecture, "vocabulary": {"size": SIZE}})
    torch.manual_seed(0)
    folder = tmp_path_factory.getbasetemp()
    return compiler.build(spec, compiler.TRANSLATE, backend=request.param, folder=folder)


@pytest.mark.parametrize("name", TREE_STRATEGIES)
def test_every_output_is_a_tree_alone_and_in_a_batch(program, search, name):
    draw, strategy = random.Random(name), TREE_STRATEGIES[name]
    words = [n for n in (1, 2, 5, 8) for _ in range(3)]
    min_lengths = [n if n == 1 else n + 2 for n in words]
    lengths = [n + extra for n, extra in zip(min_lengths, [0, 2, 40] * 4, strict=True)]
    sources = [tuple(draw.choices(range(4, 12), k=n)) for n in words]
    results = search(program, sources, lengths, strategy, word_counts=words)
    for count, length, hypotheses in zip(words, lengths, results, strict=True):
        assert hypotheses
        for each in hypotheses:
            assert is_tree(each.tokens, count)
            assert len(each.tokens) <= length
    workers = 3 if program.concurrent else 1
    for batches in ({"max_batch_tokens": 60, "chunk_size": 5}, {"max_batch_tokens": 90, "workers": workers}):
        others = search(program, sources, lengths, strategy, word_counts=words, **batches)
        for one, other in zip(results, others, strict=True):
            assert [each.tokens for each in one] == [each.tokens for each in other]
            assert [each.score for each in one] == pytest.approx([each.score for each in other], rel=1e-5)
    pairs = [((*source, EOS), (BOS, *each.tokens, EOS)) for source, group in zip(sources, results, strict=True)
             for each in group]  # fmt: skip
    source, target = (PaddedBatch.pad(rows) for rows in zip(*pairs, strict=True))
    scores = program.score(source, target.values).sum(1).tolist()
    totals = [each.log_probability for hypotheses in results for each in hypotheses]
    assert totals == pytest.approx(scores, abs=1e-3)  # the model's own log-probabilities, without renormalisation


@pytest.mark.parametrize("word_tokens", [(UNK, UNK), (6, 10)])
def test_allowed_tokens_are_known_without_waiting_for_the_device(word_tokens):
    """Tensors on the device `meta` have no values: an operation that has to read one on the host fails."""
    device = torch.device("meta")
    constraint = SuppressedTokens((8,), SIZE, BracketConstraint(OPENING, CLOSING, WORDS, SIZE, 3), min_length=4)
    source = SearchInput(0, {"source": (4, EOS)}, 40, words=word_tokens)
    state, tokens = constraint.start([source, source], device), torch.empty(2, dtype=torch.long, device=device)
    for _ in range(20):  # more than the stack holds at first
        assert state.allowed().shape == (2, SIZE)
        state = state.advance(tokens, tokens).advance(None, tokens)
    state = state.join(constraint.start([source], device))
    assert state.allowed().shape == (3, SIZE)


def test_tables_are_small_for_large_vocabularies():
    """Their size is proportional to the vocabulary: it is neither its square nor a product with the labels."""
    labels = 1000
    opening, closing = range(4, 4 + labels), range(4 + labels, 4 + 2 * labels)
    tables = BracketConstraint(opening, closing, [4 + 2 * labels], 1_000_000, 64)._tables
    assert sum(table.nbytes for table in tables) < 100_000_000


# suppressed tokens


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("levels", [3, 400])
def test_suppressed_tokens_are_as_if_they_were_impossible(toy, search, name, levels):
    """So is EOS before the minimum length, unless the maximum is smaller. Who joins later counts from its own start."""
    suppressed, draw = (UNK, 6), random.Random(1)
    sources = [tuple(draw.choices(range(4, 9), k=draw.randrange(1, 7))) for _ in range(12)]
    lengths = [2, *(len(source) + 3 for source in sources[1:])]

    class Without(toy):
        def row(self, source, prefix):
            too_short = len(prefix) < min(3, lengths[sources.index(source[:-1])])
            impossible = {*suppressed, *([EOS] if too_short else [])}
            return [-math.inf if token in impossible else value
                    for token, value in enumerate(super().row(source, prefix))]  # fmt: skip

    def find(program, constraint):
        program, batches = program(9, 1, levels), {"max_batch_tokens": 60, "chunk_size": 5}
        return search(program, sources, lengths, STRATEGIES[name](constraint), prefixes=[(4, 5), (), ()] * 4, **batches)

    results, free = find(toy, SuppressedTokens(suppressed, 9, min_length=3)), find(toy, None)
    assert results == find(Without, None)
    assert results == find(toy, SuppressedTokens((UNK,), 9, SuppressedTokens((6,), 9), min_length=3))
    assert min(len(each.tokens) for hypotheses in results for each in hypotheses) == 2
    assert any(set(suppressed) & set(each.tokens) for hypotheses in free for each in hypotheses)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_complete_tree_may_end_before_the_minimum_length(toy, search, name):
    """It may end if it cannot be continued; a tree that can be longer has to be."""
    constraint = SuppressedTokens((), 9, BracketConstraint((4,), (5,), (6,), 9), min_length=4)
    results = search(toy(9, 1, 50), [(4,)] * 2, [5, 3], STRATEGIES[name](constraint), word_counts=[1, 1])
    assert all(results)
    assert all(each.tokens in [(6,), (4, 6, 5), (4, 4, 6, 5, 5)] for group in results for each in group)
    state = constraint.start([SearchInput(0, {"source": (4, EOS)}, 5, words=(UNK,))], "cpu")
    allowed = []
    for token in (4, 6, 5):
        allowed.append(state.allowed().nonzero()[:, 1].tolist())
        state = state.advance(None, torch.tensor([token]))
    assert [*allowed, state.allowed().nonzero()[:, 1].tolist()] == [[4, 6], [4, 6], [5], [EOS]]
