"""Trees: the rules against an enumeration of all trees there are, and searches of which every output is one."""

import random
from dataclasses import replace
from functools import cache
from itertools import groupby

import pytest
import torch

import compiler
import specs
from compiler.backends import BACKENDS
from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.generation.batching import Source
from zoo.generation.constraints import BracketConstraint, SuppressedTokens
from zoo.generation.hypotheses import length_penalty
from zoo.generation.sampling import Sampling

OPENING, CLOSING, WORDS, SIZE = (4, 9), (7, 5), (6, 10), 12  # 8 and 11 are nothing
TREES = BracketConstraint(OPENING, CLOSING, WORDS, SIZE)
CPU = torch.device("cpu")


@cache
def forests(words, most):
    """All sequences of constituents over so many words, of at most so many tokens."""
    if words == 0:
        return frozenset({()})
    first = {(n, tree) for n in range(1, words + 1) for tree in constituents(n, most - (words - n))}
    return frozenset(tree + rest for n, tree in first for rest in forests(words - n, most - len(tree)))


@cache
def constituents(words, most):
    found = {(word,) for word in WORDS if words == 1 and most >= 1}
    if most >= words + 2:
        inner = forests(words, most - 2)
        found |= {(o, *each, c) for each in inner for o, c in zip(OPENING, CLOSING, strict=True)}
    return frozenset(found)


def well_formed(tokens, words):
    """By a stack, as one would check it by hand."""
    stack, left, empty = [], words, False
    for place, token in enumerate(tokens):
        if place and not stack:
            return False
        if token in OPENING:
            stack.append(CLOSING[OPENING.index(token)])
        elif token in WORDS:
            left -= 1
        elif empty or not stack or token != stack.pop():
            return False
        empty = token in OPENING
    return bool(tokens) and not stack and left == 0


def sources_of(several):
    """Sentences of so many words, each with a limit."""
    return [Source(i, (4, EOS), limit, words=words) for i, (words, limit) in enumerate(several)]


def spelled(tree, spelling):
    """Whether the words of a sequence are those of a sentence, in which UNK is any."""
    words = [token for token in tree if token in WORDS]
    return all(due in (UNK, word) for due, word in zip(spelling, words, strict=True))


@pytest.mark.parametrize(("words", "limit"), [(1, 1), (1, 2), (1, 3), (1, 7), (2, 4), (2, 8), (3, 5), (3, 6), (3, 8)])
def test_what_may_follow_is_what_goes_on_to_a_tree_and_nothing_else(words, limit):
    trees = constituents(words, limit)
    assert all(well_formed(tree, words) for tree in trees)
    follow = {}
    for tree in trees:
        whole = (*tree, EOS)
        for i, token in enumerate(whole):
            follow.setdefault(whole[:i], set()).add(token)
    bounds, beginnings = TREES.begun(sources_of([(words, limit)]), CPU), [()]
    while beginnings:
        allowed = bounds.allowed()
        expected = [[token in follow[each] for token in range(SIZE)] for each in beginnings]
        assert allowed.tolist() == expected
        on = [(row, token) for row, each in enumerate(beginnings) for token in sorted(follow[each]) if token != EOS]
        random.Random(0).shuffle(on)
        beginnings = [(*beginnings[row], token) for row, token in on]
        rows, tokens = torch.tensor(on, dtype=torch.long).view(-1, 2).unbind(1)
        bounds = bounds.after(rows, tokens)


def longest_beginning(tree):
    """The most brackets that open one behind another."""
    return max(len(list(run)) if opens else 0 for opens, run in groupby(tree, OPENING.__contains__))


@pytest.mark.parametrize("in_a_row", [None, 1, 2, 4])
@pytest.mark.parametrize("spelling", [(6,), (10, 6), (UNK, 10), (6, UNK, 10)])
def test_words_are_as_they_are_spelled_and_as_many_brackets_open_as_may(spelling, in_a_row):
    limit = len(spelling) + (6 if len(spelling) < 3 else 4)
    trees = [
        tree
        for tree in constituents(len(spelling), limit)
        if spelled(tree, spelling) and longest_beginning(tree) <= (in_a_row or limit)
    ]
    follow = {}
    for tree in trees:
        for i, token in enumerate((*tree, EOS)):
            follow.setdefault(tree[:i], set()).add(token)
    source = Source(0, (4, EOS), limit, words=len(spelling), spelled=spelling)
    bounds, beginnings = BracketConstraint(OPENING, CLOSING, WORDS, SIZE, in_a_row).begun([source], CPU), [()]
    while beginnings:
        assert bounds.allowed().tolist() == [[token in follow[each] for token in range(SIZE)] for each in beginnings]
        on = [(row, token) for row, each in enumerate(beginnings) for token in sorted(follow[each]) if token != EOS]
        beginnings = [(*beginnings[row], token) for row, token in on]
        rows, tokens = torch.tensor(on, dtype=torch.long).view(-1, 2).unbind(1)
        bounds = bounds.after(rows, tokens)


def test_deep_trees_have_room_and_rows_may_stay_where_they_are():
    bounds, several = TREES.begun(sources_of([(1, 101), (1, 101)]), CPU), [[4, 9] * 25, [9] * 50]
    for tokens in zip(*several, strict=True):
        assert bounds.allowed().gather(1, torch.tensor(tokens).unsqueeze(1)).all()
        bounds = bounds.after(None, torch.tensor(tokens))
    assert bounds.allowed().nonzero().tolist() == [[0, 6], [0, 10], [1, 6], [1, 10]]
    bounds = bounds.after(torch.tensor([1, 0]), torch.tensor([6, 6]))
    for tokens in zip(*([CLOSING[OPENING.index(each)] for each in row[::-1]] for row in several[::-1]), strict=True):
        assert bounds.allowed().nonzero()[:, 1].tolist() == list(tokens)
        bounds = bounds.after(None, torch.tensor(tokens))
    assert bounds.allowed().nonzero().tolist() == [[0, EOS], [1, EOS]]


@pytest.mark.parametrize("kinds", [(), (UNK, *WORDS)])
def test_bounds_that_are_joined_go_on_as_they_were(kinds):
    draw = random.Random(1)
    several = [
        [replace(each, spelled=tuple(draw.choices(kinds, k=each.words)) if kinds else ()) for each in sentences]
        for sentences in (sources_of([(draw.randrange(1, 9), 60) for _ in range(3)]) for _ in range(2))
    ]
    apart = [TREES.begun(each, CPU) for each in several]
    both = [TREES.begun(each, CPU) for each in several]
    joined = None
    for step in range(61):
        masks = [each.allowed() for each in apart]
        if joined is not None:
            assert torch.equal(joined.allowed(), torch.cat(masks))
        tokens = [torch.tensor([draw.choice(row.nonzero().flatten().tolist()) for row in mask]) for mask in masks]
        apart = [each.after(None, chosen) for each, chosen in zip(apart, tokens, strict=True)]
        if joined is not None:
            joined = joined.after(None, torch.cat(tokens))
        elif step < 20:
            both[0] = both[0].after(None, tokens[0])
        if step == 19:  # one has read 20 tokens, the other is about to start
            joined, apart[1] = both[0].joined(both[1]), TREES.begun(several[1], CPU)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 2.0])
def test_a_beam_wide_enough_finds_the_best_of_all_trees(toy, search, alpha):
    words, limits = [1, 1, 2, 3, 3], [1, 5, 6, 5, 7]
    program = toy(SIZE, 3, 200)
    sources = [(4,) * (i + 1) for i in range(5)]
    found = search(program, sources, limits, words=words, beam=1000, alpha=alpha, n_best=5, constraint=TREES)
    for source, number, limit, hypotheses in zip(sources, words, limits, found, strict=True):
        scores = []
        for tree in constituents(number, limit):
            whole = (*tree, EOS)
            total = sum(program.row((*source, EOS), whole[:i])[token] for i, token in enumerate(whole))
            scores.append(total / length_penalty(len(whole), alpha))
        assert [each.score for each in hypotheses] == sorted(scores, reverse=True)[:5]


@pytest.fixture(scope="module", params=["toy", "eager", "native"])
def program(request, toy, tmp_path_factory):
    if request.param == "toy":
        return toy(SIZE, 1, 100)
    if problem := BACKENDS[request.param].unavailable_reason():
        pytest.skip(problem)
    sizes = {
        "architecture": {"N": 1, "d_model": 16, "d_ff": 32, "h": 2, "d_k": 8, "d_v": 4},
        "vocabulary": {"size": 12},
    }
    torch.manual_seed(0)
    folder = tmp_path_factory.getbasetemp()
    return compiler.build(specs.load("tiny", sizes), compiler.TRANSLATE, backend=request.param, folder=folder)


CHOOSERS = {
    "greedy": {"beam": 1, "alpha": 0.3, "constraint": TREES},
    "beam": {"beam": 4, "alpha": 0.3, "n_best": 4, "constraint": TREES},
    "wide": {"beam": 21, "alpha": 0.3, "n_best": 21, "constraint": TREES},
    "shrinking": {"beam": 4, "alpha": 0.3, "n_best": 4, "constraint": TREES, "stopping_rule": "shrinking"},
    "barring": {"beam": 4, "alpha": 0.3, "constraint": SuppressedTokens((UNK,), SIZE, TREES)},
    "sample": {"chooser": Sampling(3, 0.3, 2.0, 0, 1.0, 1, TREES)},
    "top": {"chooser": Sampling(3, 0.3, 2.0, 4, 0.9, 1, TREES)},
}


@pytest.mark.parametrize("name", CHOOSERS)
def test_every_output_is_a_tree_over_the_words_alone_or_together(program, search, name):
    draw, choice = random.Random(name), CHOOSERS[name]
    words = [n for n in range(1, 9) for _ in range(3)]
    least = [n if n == 1 else n + 2 for n in words]
    limits = [n + extra for n, extra in zip(least, [0, 2, 40] * 8, strict=True)]
    sources = [tuple(draw.choices(range(4, 12), k=n)) for n in words]
    found = search(program, sources, limits, words=words, **choice)
    for number, limit, hypotheses in zip(words, limits, found, strict=True):
        assert hypotheses
        for each in hypotheses:
            assert well_formed(each.tokens, number)
            assert len(each.tokens) <= limit
    for how in ({"tokens": 60, "windows": 5}, {"tokens": 90, "workers": 3 if program.concurrent else 1}):
        other = search(program, sources, limits, words=words, **how, **choice)
        for one, two in zip(found, other, strict=True):
            assert [each.tokens for each in one] == [each.tokens for each in two]
            assert [each.score for each in one] == pytest.approx([each.score for each in two], rel=1e-5)
    scores = program.score(*padded_pairs(sources, found)).sum(1).tolist()
    totals = [each.log_probability for hypotheses in found for each in hypotheses]
    assert totals == pytest.approx(scores, abs=1e-3)  # those of the model, all tokens counted


def padded_pairs(sources, found):
    """Sources and targets of all hypotheses."""
    pairs = [((*source, EOS), (BOS, *each.tokens, EOS)) for source, several in zip(sources, found, strict=True)
             for each in several]  # fmt: skip
    return [
        torch.tensor([[*row, *[PAD] * (max(map(len, rows)) - len(row))] for row in rows])
        for rows in zip(*pairs, strict=True)
    ]


@pytest.mark.parametrize("name", ["beam", "sample"])
def test_on_a_gpu_that_reports_late_nothing_changes(toy, search, monkeypatch, name):
    class Event:
        def record(self, stream):
            pass

        def synchronize(self):
            pass

    words, limits = [3, 1, 5, 2, 8], [9, 4, 30, 4, 10]
    given = {"words": words, "tokens": 40, **CHOOSERS[name]}
    expected = search(toy(SIZE, 2, 50), [(4,)] * 5, limits, **given)
    monkeypatch.setattr("zoo.generation.batch._is_asynchronous", lambda tensor: True)
    monkeypatch.setattr("torch.cuda.Event", Event)
    monkeypatch.setattr("torch.cuda.current_stream", lambda device: None)
    assert search(toy(SIZE, 2, 50), [(4,)] * 5, limits, **given) == expected


def test_a_prefix_is_the_beginning_of_a_tree(toy, search):
    program, given = toy(SIZE, 2, 50), {"words": [3, 3], "beam": 4, "alpha": 0.3, "constraint": TREES}
    found = search(program, [(4,), (5,)], [12, 12], prefixes=[(4, 9, 6), (9, 6)], **given)
    assert [each[0].tokens[:2] for each in found] == [(4, 9), (9, 6)]
    assert all(well_formed(each[0].tokens, 3) for each in found)
    for wrong in [(7,), (4, 7), (UNK,), (6,), (8,)]:
        with pytest.raises(ZooError, match="not allowed"):
            search(program, [(4,), (5,)], [12, 12], prefixes=[wrong, wrong], **given)


@pytest.mark.parametrize(("words", "least"), [(1, 1), (2, 4), (7, 9)])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_limit_that_no_tree_keeps_to_is_none(toy, search, words, least, workers):
    given = {"beam": 4, "alpha": 0.3, "constraint": TREES, "workers": workers}
    search(toy(SIZE), [(4,)] * 2, [least] * 2, words=[words] * 2, **given)
    with pytest.raises(
        ValueError, match=f"no tree over the {words} words of sentence 1 has {least - 1} tokens at most"
    ):
        search(toy(SIZE), [(4,)] * 2, [least, least - 1], words=[words] * 2, **given)


def test_a_tree_has_words(toy, search):
    with pytest.raises(ValueError, match="no tree over the 0 words of sentence 0 has 9 tokens"):
        search(toy(SIZE), [(4,)], [9], beam=4, alpha=0.3, constraint=TREES)
    with pytest.raises(ValueError, match="2 opening brackets and 1 closing"):
        BracketConstraint((4, 5), (6,), (7,), 8)


def test_a_vocabulary_of_a_size_that_somebody_promised_takes_no_square_of_it():
    """Nor is there anything for each label beside each case: of a million tokens, and as many labels as may be."""
    labels = 1000
    opening, closing = range(4, 4 + labels), range(4 + labels, 4 + 2 * labels)
    tables = BracketConstraint(opening, closing, [4 + 2 * labels], 1_000_000, 64)._made
    assert sum(table.nbytes for table in tables) < 100_000_000
