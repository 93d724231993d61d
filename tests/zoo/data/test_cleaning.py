"""Selection of the training pairs."""

from collections import Counter
from itertools import compress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import specs
from specs import ZooError
from tests.examples import examples
from tests.refusals import refused
from zoo.data import cleaning
from zoo.data.cleaning import (
    CleaningCounts,
    Status,
    apply_filters,
    classify,
    reasons_to_drop,
)
from zoo.text.lines import clean

LANGUAGES = {"source": "en", "target": "de"}
TEXT = st.sampled_from(["a", "b", "c", "d e", "f\tg", "f g", "", " ", "\x00", "h" * 30])
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=40)


def sort(pairs, **options):
    return classify(((each, Status.KEPT) for each in examples(pairs)), **{"deduplicate": False, **options})


def chosen(pairs, statuses, status):
    return [tuple(map(clean, pair)) for pair in compress(pairs, statuses == status)]


def kept(pairs, **options):
    return chosen(pairs, sort(pairs, **options)[0], Status.KEPT)


@example([("a b", "c"), ("a", "b c")], True)  # the same words on other sides
@given(PAIRS, st.booleans())
def test_classification_equals_a_simple_implementation(pairs, deduplicate):
    expected, seen = [], set()
    for pair in pairs:
        cleaned = tuple(map(clean, pair))
        if all(cleaned) and not (deduplicate and cleaned in seen):
            expected.append(cleaned)
        seen.add(cleaned)
    assert kept(pairs, deduplicate=deduplicate) == expected


@given(PAIRS, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_sets_have_disjoint_sources_and_the_requested_sizes(pairs, dev, test, deduplicate):
    try:
        statuses, counts = sort(pairs, deduplicate=deduplicate, dev=dev, test=test)
    except ZooError:
        # Each set takes whole sources, and thus at most all pairs of one source more than it needs.
        left = Counter(source for source, _ in kept(pairs, deduplicate=deduplicate))
        assert left.total() < dev + test + max(left.values(), default=0)
        return
    sets = [chosen(pairs, statuses, status) for status in (Status.KEPT, Status.DEV, Status.TEST)]
    assert ([len(pairs_of_set) for pairs_of_set in sets[1:]], len(sets[0])) == ([dev, test], counts.kept)
    sources = [{source for source, _ in pairs_of_set} for pairs_of_set in sets]
    assert len(set.union(*sources)) == sum(map(len, sources))
    assert counts.read == counts.empty + counts.duplicate + counts.held_out + counts.kept


def test_held_out_pairs_do_not_depend_on_the_order():
    pairs = [(f"source {n}", f"target {n}") for n in range(200)]
    found = []
    for order in (pairs, pairs[::-1]):
        statuses, _ = sort(order, dev=10, test=5)
        found.append([set(chosen(order, statuses, status)) for status in (Status.DEV, Status.TEST)])
    assert found[0] == found[1]
    # A larger set contains the smaller one.
    statuses, _ = sort(pairs, dev=20)
    assert found[0][0] < set(chosen(pairs, statuses, Status.DEV))


def test_too_few_pairs_to_hold_out_are_reported():
    problem = r"`corpus\.test` holds out 3 pairs, but `corpus\.train` has only 2 left \(5 .*: 1 with an empty side, 2 h"
    refused(problem, sort, [*((str(n), "x") for n in range(4)), ("", "x")], dev=2, test=3)


def within_limits(source, target, counts, max_length, max_ratio):
    """Return the lengths of the pairs that are kept, of pairs with these lengths, and the counts."""
    limits = specs.load("tiny").corpus.model_copy(update={"max_length": max_length, "max_ratio": max_ratio})
    tokens = {"source": [[7] * length for length in source], "target": [[7] * length for length in target]}
    reasons = reasons_to_drop(tokens, limits)
    lengths = zip(source, target, reasons, strict=True)
    return [(ours, theirs) for ours, theirs, reason in lengths if not reason], counts.dropped_for(reasons)


def test_limits_are_inclusive_and_count_tokens():
    counts = CleaningCounts(read=9, empty=1, kept=7)
    kept, counts = within_limits((4, 5, 1, 2, 1, 0, 3), (4, 1, 5, 4, 3, 2, 1), counts, 4, 2.0)
    assert (kept, counts) == ([(4, 4), (2, 4)], CleaningCounts(read=9, empty=2, long=2, ratio=2, kept=2))
    _, counts = within_limits((1, 100), (100, 101), CleaningCounts(kept=2), 100, None)
    assert (counts.kept, counts.long, counts.ratio) == (1, 1, 0)
    assert within_limits((), (), CleaningCounts(kept=3), 1, 1.0) == ([], CleaningCounts(kept=3))


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("the same ", "the same"), "copy"),
        (("<b>bold</b>", "fett"), "markup"),
        (("a line<br />", "eine Zeile"), "markup"),
        (("salt", "Salz &amp; Pfeffer &#39;"), "markup"),
        (("AT&T; 3 < 4 > 2, <3", "x <- y, a&b"), None),
        (("The weather is nice and warm today.", "Le temps est beau et chaud aujourd'hui."), "language"),
        (("Das Wetter ist heute schön und warm.", "Das Wetter ist heute schön und warm!"), "language"),
        (("The weather is nice and warm today.", "Das Wetter ist heute schön und warm."), None),
        (("Hello", "Bonjour"), None),
    ],
)
def test_filters_recognise_copies_markup_and_other_languages(pair, expected):
    (example,) = examples([pair])
    found = apply_filters(example, ("copy", "markup", "language"), LANGUAGES)
    assert found == (Status[expected.upper()] if expected else Status.KEPT)
    others = [name for name in ("copy", "markup", "language") if name != expected]
    assert apply_filters(example, others, LANGUAGES) == Status.KEPT


def test_filtered_pairs_are_counted_and_neither_kept_nor_held_out():
    pairs = [("a", "a"), ("<b>x</b>", "y"), ("", ""), ("c", "d"), ("e", "f")]
    filtered = [(each, apply_filters(each, ("copy", "markup"), LANGUAGES)) for each in examples(pairs)]
    statuses, counts = classify(filtered, deduplicate=False, dev=1)
    assert counts == CleaningCounts(read=5, empty=1, copy=1, markup=1, held_out=1, kept=1)
    assert len(chosen(pairs, statuses, Status.KEPT)) == 1


def test_too_many_pairs_for_the_memory_are_rejected_while_reading(monkeypatch):
    monkeypatch.setattr(cleaning, "_PAIRS_BETWEEN_MEMORY_CHECKS", 100)
    monkeypatch.setattr(cleaning, "machine_memory", lambda: 50_000)
    read = []

    def endless():
        while True:
            read.append(None)
            yield from ((each, Status.KEPT) for each in examples([("a", "b")]))

    problem = r"`corpus\.train` needs \d+ kB of memory, but this machine has 50 kB"
    refused(problem, classify, endless(), deduplicate=True, dev=5)
    assert 500 < len(read) < 1_000
