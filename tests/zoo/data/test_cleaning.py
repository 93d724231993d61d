"""Which pairs are trained on."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs import ZooError
from zoo.data import cleaning
from zoo.data.cleaning import CleaningCounts, LengthLimits, PairStatus, classify_pairs, pairs_with_status
from zoo.text.lines import clean

TEXT = st.sampled_from(["a", "b", "c", "d e", "f\tg", "f g", "", " ", "\x00", "h" * 30])
PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=40)


def kept(pairs, **how):
    fates, counts = classify_pairs(pairs, **{"deduplicate": False, **how})
    return list(pairs_with_status(pairs, fates, PairStatus.KEPT)), counts


def test_empty_sides_are_dropped_and_control_characters_become_spaces():
    pairs = [("a\x07b", "c"), ("", "x"), ("x", "  "), ("\x00", "x"), ("d", "e ")]
    found, counts = kept(pairs)
    assert found == [("a b", "c"), ("d", "e")]
    assert counts == CleaningCounts(read=5, empty=3, kept=2, control=2)


def test_duplicates_are_pairs_that_were_there_before():
    pairs = [("a", "b"), ("a", "c"), ("a", "b "), ("c", "b"), ("a", "c"), ("ab", ""), ("ab", "")]
    found, counts = kept(pairs, deduplicate=True)
    assert found == [("a", "b"), ("a", "c"), ("c", "b")]
    assert (counts.duplicate, counts.empty) == (2, 2)
    assert kept(pairs)[1].duplicate == 0


def test_the_border_between_the_sides_tells_pairs_apart():
    pairs = [("a b", "c"), ("a", "b c")]
    assert kept(pairs, deduplicate=True)[0] == pairs


@given(PAIRS, st.booleans())
def test_judging_is_what_its_slow_twin_does(pairs, deduplicate):
    expected, seen = [], set()
    for pair in pairs:
        cleaned = tuple(map(clean, pair))
        if all(cleaned) and not (deduplicate and cleaned in seen):
            expected.append(cleaned)
        seen.add(cleaned)
    assert kept(pairs, deduplicate=deduplicate)[0] == expected


@given(PAIRS, st.integers(0, 5), st.integers(0, 5), st.booleans())
def test_sets_are_disjoint_in_their_sources_and_as_large_as_asked_for(pairs, dev, test, deduplicate):
    try:
        fates, counts = classify_pairs(pairs, deduplicate=deduplicate, dev=dev, test=test)
    except ZooError:
        # Each of the two takes whole sources away, at most all pairs of one more than it needs.
        left = Counter(source for source, _ in kept(pairs, deduplicate=deduplicate)[0])
        most = max(left.values(), default=0)
        assert sum(left.values()) < dev + test + most
        return
    sets = [list(pairs_with_status(pairs, fates, fate)) for fate in (PairStatus.KEPT, PairStatus.DEV, PairStatus.TEST)]
    assert [len(each) for each in sets[1:]] == [dev, test]
    assert len(sets[0]) == counts.kept
    sources = [{source for source, _ in each} for each in sets]
    assert len(set.union(*sources)) == sum(map(len, sources))
    assert counts.read == counts.empty + counts.duplicate + counts.held_out + counts.kept


def test_what_is_held_out_does_not_follow_from_places():
    pairs = [(f"source {n}", f"target {n}") for n in range(200)]
    chosen = []
    for order in (pairs, pairs[::-1]):
        fates, _ = classify_pairs(order, deduplicate=False, dev=10, test=5)
        chosen.append([set(pairs_with_status(order, fates, fate)) for fate in (PairStatus.DEV, PairStatus.TEST)])
    assert chosen[0] == chosen[1]
    # More of them are more, not others.
    fates, _ = classify_pairs(pairs, deduplicate=False, dev=20)
    assert chosen[0][0] < set(pairs_with_status(pairs, fates, PairStatus.DEV))


def test_all_pairs_of_a_source_leave_train_together():
    pairs = [("same", str(n)) for n in range(5)] + [("other", "x")]
    sizes = set()
    for dev in (1, 3):
        fates, counts = classify_pairs(pairs, deduplicate=False, dev=dev)
        sizes.add((list(fates).count(PairStatus.DEV), counts.held_out + counts.kept))
        assert counts.held_out in (1, 5, 6)
    assert sizes == {(1, 6), (3, 6)}


def test_too_few_pairs_to_hold_out_are_told():
    with pytest.raises(ZooError, match=r"`corpus\.test` holds out 3 pairs, and train has 2 left"):
        classify_pairs([(str(n), "x") for n in range(4)], deduplicate=False, dev=2, test=3)


def tokens(*lengths):
    return [[7] * length for length in lengths]


def test_limits_are_in_pieces_and_reach_to_themselves():
    source, target = tokens(4, 5, 1, 2, 1, 0, 3), tokens(4, 1, 5, 4, 3, 2, 1)
    kept, counts = LengthLimits(4, 2.0).sift(source, target, CleaningCounts(read=9, empty=1, kept=7))
    assert [(len(source[index]), len(target[index])) for index in kept] == [(4, 4), (2, 4)]
    assert counts == CleaningCounts(read=9, empty=2, long=2, ratio=2, kept=2)


def test_no_ratio_is_no_limit():
    _, counts = LengthLimits(100, None).sift(tokens(1, 100), tokens(100, 101), CleaningCounts(kept=2))
    assert (counts.kept, counts.long, counts.ratio) == (1, 1, 0)


def test_nothing_is_within_any_limits():
    assert LengthLimits(1, 1.0).sift([], [], CleaningCounts(kept=3)) == ([], CleaningCounts(kept=3))


def test_counts_read_well():
    assert str(CleaningCounts(read=2000, kept=2000)) == "2,000 pairs read, 2,000 kept; left out: none"
    told = str(CleaningCounts(read=10, empty=1, duplicate=2, held_out=1, long=3, ratio=1, kept=2, control=4))
    assert told == (
        "10 pairs read (control characters became spaces in 4), 2 kept; left out: 1 with an empty side, "
        "2 seen before, 1 held out, 3 too long, 1 of too uneven lengths"
    )


def test_more_pairs_than_the_memory_has_room_for_are_told_before_they_are_held(monkeypatch):
    monkeypatch.setattr(cleaning, "_LOOKED_AT", 100)
    monkeypatch.setattr(cleaning, "memory", lambda: 50_000)
    read = []

    def endless():
        while True:
            read.append(None)
            yield "a", "b"

    with pytest.raises(ZooError, match=r"`corpus\.train` needs \d+ kB of memory, and this machine has 50 kB"):
        classify_pairs(endless(), deduplicate=True, dev=5)
    assert 500 < len(read) < 1_000
