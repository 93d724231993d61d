"""Selection of the training pairs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specs
from specs import ZooError
from zoo.data import cleaning
from zoo.data.cleaning import (
    CleaningCounts,
    PairStatus,
    apply_filters,
    classify_pairs,
    filter_by_length,
    pairs_with_status,
)
from zoo.text.lines import clean

TEXT = st.sampled_from(["a", "b", "c", "d e", "f\tg", "f g", "", " ", "\x00", "h" * 30])
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=40)


def kept(pairs, **options):
    statuses, counts = classify_pairs(pairs, **{"deduplicate": False, **options})
    return list(pairs_with_status(pairs, statuses, PairStatus.KEPT)), counts


def test_empty_sides_are_dropped_and_control_characters_become_spaces():
    pairs = [("a\x07b", "c"), ("", "x"), ("x", "  "), ("\x00", "x"), ("d", "e ")]
    found, counts = kept(pairs)
    assert found == [("a b", "c"), ("d", "e")]
    assert counts == CleaningCounts(read=5, empty=3, kept=2, control=2)


def test_repeated_pairs_are_duplicates():
    pairs = [("a", "b"), ("a", "c"), ("a", "b "), ("c", "b"), ("a", "c"), ("ab", ""), ("ab", "")]
    found, counts = kept(pairs, deduplicate=True)
    assert found == [("a", "b"), ("a", "c"), ("c", "b")]
    assert (counts.duplicate, counts.empty) == (2, 2)
    assert kept(pairs)[1].duplicate == 0


def test_pairs_with_the_same_words_on_other_sides_are_no_duplicates():
    pairs = [("a b", "c"), ("a", "b c")]
    assert kept(pairs, deduplicate=True)[0] == pairs


@given(PAIRS, st.booleans())
def test_classification_equals_a_simple_implementation(pairs, deduplicate):
    expected, seen = [], set()
    for pair in pairs:
        cleaned = tuple(map(clean, pair))
        if all(cleaned) and not (deduplicate and cleaned in seen):
            expected.append(cleaned)
        seen.add(cleaned)
    assert kept(pairs, deduplicate=deduplicate)[0] == expected


@given(PAIRS, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_sets_have_disjoint_sources_and_the_requested_sizes(pairs, dev, test, deduplicate):
    try:
        statuses, counts = classify_pairs(pairs, deduplicate=deduplicate, dev=dev, test=test)
    except ZooError:
        # Each set takes whole sources, and thus at most all pairs of one source more than it needs.
        left = Counter(source for source, _ in kept(pairs, deduplicate=deduplicate)[0])
        most = max(left.values(), default=0)
        assert sum(left.values()) < dev + test + most
        return
    used = (PairStatus.KEPT, PairStatus.DEV, PairStatus.TEST)
    sets = [list(pairs_with_status(pairs, statuses, status)) for status in used]
    assert [len(pairs_of_set) for pairs_of_set in sets[1:]] == [dev, test]
    assert len(sets[0]) == counts.kept
    sources = [{source for source, _ in pairs_of_set} for pairs_of_set in sets]
    assert len(set.union(*sources)) == sum(map(len, sources))
    assert counts.read == counts.empty + counts.duplicate + counts.held_out + counts.kept


def test_held_out_pairs_do_not_depend_on_the_order():
    pairs = [(f"source {n}", f"target {n}") for n in range(200)]
    chosen = []
    for order in (pairs, pairs[::-1]):
        statuses, _ = classify_pairs(order, deduplicate=False, dev=10, test=5)
        chosen.append([set(pairs_with_status(order, statuses, status)) for status in (PairStatus.DEV, PairStatus.TEST)])
    assert chosen[0] == chosen[1]
    # A larger set contains the smaller one.
    statuses, _ = classify_pairs(pairs, deduplicate=False, dev=20)
    assert chosen[0][0] < set(pairs_with_status(pairs, statuses, PairStatus.DEV))


def test_all_pairs_of_a_source_leave_train_together():
    pairs = [("same", str(n)) for n in range(5)] + [("other", "x")]
    sizes = set()
    for dev in (1, 3):
        statuses, counts = classify_pairs(pairs, deduplicate=False, dev=dev)
        sizes.add((list(statuses).count(PairStatus.DEV), counts.held_out + counts.kept))
        assert counts.held_out in (1, 5, 6)
    assert sizes == {(1, 6), (3, 6)}


def test_too_few_pairs_to_hold_out_are_reported():
    with pytest.raises(ZooError, match=r"`corpus\.test` holds out 3 pairs, but `corpus\.train` has only 2 left"):
        classify_pairs([(str(n), "x") for n in range(4)], deduplicate=False, dev=2, test=3)


def tokens(*lengths):
    return [[7] * length for length in lengths]


def limits(max_length, max_ratio):
    return specs.load("tiny").corpus.model_copy(update={"max_length": max_length, "max_ratio": max_ratio})


def test_limits_are_inclusive_and_count_tokens():
    source, target = tokens(4, 5, 1, 2, 1, 0, 3), tokens(4, 1, 5, 4, 3, 2, 1)
    kept, counts = filter_by_length(source, target, limits(4, 2.0), CleaningCounts(read=9, empty=1, kept=7))
    assert [(len(source[index]), len(target[index])) for index in kept] == [(4, 4), (2, 4)]
    assert counts == CleaningCounts(read=9, empty=2, long=2, ratio=2, kept=2)

    _, counts = filter_by_length(tokens(1, 100), tokens(100, 101), limits(100, None), CleaningCounts(kept=2))
    assert (counts.kept, counts.long, counts.ratio) == (1, 1, 0)
    assert filter_by_length([], [], limits(1, 1.0), CleaningCounts(kept=3)) == ([], CleaningCounts(kept=3))


def test_counts_are_formatted_in_one_line():
    assert str(CleaningCounts(read=2000, kept=2000)) == "2,000 pairs read, 2,000 kept; dropped: none"
    counts = CleaningCounts(read=10, empty=1, duplicate=2, held_out=1, long=3, ratio=1, kept=2, control=4)
    assert str(counts) == (
        "10 pairs read (spaces replaced control characters in 4), 2 kept; dropped: 1 with an empty side, "
        "2 duplicates, 1 held out, 3 too long, 1 with too different lengths"
    )


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
    found = apply_filters(pair, ("copy", "markup", "language"), ("en", "de"))
    assert found == (PairStatus[expected.upper()] if expected else PairStatus.KEPT)
    others = [name for name in ("copy", "markup", "language") if name != expected]
    assert apply_filters(pair, others, ("en", "de")) == PairStatus.KEPT


def test_filtered_pairs_are_counted_and_neither_kept_nor_held_out():
    pairs = [("a", "a"), ("<b>x</b>", "y"), ("", ""), ("c", "d"), ("e", "f")]
    filtered = [apply_filters(pair, ("copy", "markup"), ("en", "de")) for pair in pairs]
    statuses, counts = classify_pairs(pairs, deduplicate=False, dev=1, filtered=filtered)
    assert counts == CleaningCounts(read=5, empty=1, copy=1, markup=1, held_out=1, kept=1)
    assert len(list(pairs_with_status(pairs, statuses, PairStatus.KEPT))) == 1


def test_too_many_pairs_for_the_memory_are_rejected_while_reading(monkeypatch):
    monkeypatch.setattr(cleaning, "_PAIRS_BETWEEN_MEMORY_CHECKS", 100)
    monkeypatch.setattr(cleaning, "machine_memory", lambda: 50_000)
    read = []

    def endless():
        while True:
            read.append(None)
            yield "a", "b"

    with pytest.raises(ZooError, match=r"`corpus\.train` needs \d+ kB of memory, and this machine has 50 kB"):
        classify_pairs(endless(), deduplicate=True, dev=5)
    assert 500 < len(read) < 1_000
