"""EVALB's rules on small trees, and its scores of random trees."""

import os
import random
import subprocess
from pathlib import Path

import pytest

from tests.refusals import refused
from zoo.evaluation.evalb import ERROR, SKIPPED, VALID, evaluate_bracket_files, score_brackets
from zoo.text.trees.tree import Tree, leaf, node

GOLD = "(TOP (S (NP (DT the) (NN dog)) (VP (VBZ bites) (NP (DT the) (NN cat))) (. .)))"
"""Length 6; without what COLLINS deletes five words under S 0-5, NP 0-2, VP 2-5 and NP 3-5."""
BROKEN = "(S (NN dog)"
LABELS, TAGS = ("S", "NP", "VP", "ADVP", "PRT", "NP-SBJ"), ("NN", "DT", "VB", ".", ",")


def one(test, gold=GOLD):
    return score_brackets([test], [gold]).rows[0]


def counts(row):
    return row.matched, row.gold, row.test, row.crossing


@pytest.fixture
def files(tmp_path):
    """Scores lines of trees as files of them."""

    def score(test, gold):
        (tmp_path / "test").write_text("".join(f"{line}\n" for line in test), "utf-8")
        (tmp_path / "gold").write_text("".join(f"{line}\n" for line in gold), "utf-8")
        return evaluate_bracket_files(tmp_path / "test", tmp_path / "gold")

    return score


# rules


def test_a_bracket_matches_by_span_and_label():
    row = one(GOLD)
    assert (row.status, row.length, row.words, row.tags, counts(row)) == (VALID, 6, 5, 5, (4, 4, 4, 0))
    row = one(GOLD.replace("VP", "PP"))
    assert counts(row) == (3, 4, 4, 0)
    scores = score_brackets(["(S (NP (DT the) (NN dog)) (VBZ bites) (DT the) (NN cat) (. .))"], [GOLD])
    assert (counts(scores.rows[0]), scores.recall, scores.precision) == ((2, 4, 2, 0), 50, 100)


@pytest.mark.parametrize(("test", "gold", "matched"), [(3, 1, 1), (1, 3, 1), (2, 3, 2)])
def test_brackets_of_equal_span_match_once_each(test, gold, matched):
    def nested(times):
        return "(NP " * times + "(NN dog)" + ")" * times

    assert counts(one(nested(test), nested(gold))) == (matched, gold, test, 0)


def test_each_crossing_bracket_of_the_test_counts_once():
    gold = "(S (A (N a) (N b) (N c)) (B (N d) (N e)))"
    assert counts(one("(S (N a) (X (N b) (N c) (N d)) (N e))", gold)) == (1, 3, 2, 1)
    # 1-4 crosses A and B, 2-4 both again, and 0-4 crosses B.
    assert counts(one("(S (X (N a) (Y (N b) (Z (N c) (N d)))) (N e))", gold)) == (1, 3, 4, 3)
    assert counts(one(gold, "(S (X (N a) (Y (N b) (Z (N c) (N d)))) (N e))")) == (1, 4, 3, 2)
    # What is inside, outside or beside crosses nothing.
    assert one("(S (X (N a) (N b)) (N c) (Y (B (N d) (N e))))", gold).crossing == 0


def test_deleted_tags_remove_words_and_deleted_labels_remove_brackets():
    # The full stop is in VP here and in S there: without it, both have one span.
    assert counts(one("(TOP (S (NP (DT the) (NN dog)) (VP (VBZ bites) (NP (DT the) (NN cat)) (. .))))")) == (4, 4, 4, 0)
    # What is left with no word goes, and so do traces, which are no part of the length.
    trace = GOLD.replace("(VBZ", "(SBAR (-NONE- 0) (S (-NONE- *T*-1))) (VBZ")
    row = one(GOLD, trace)
    assert (row.length, counts(row)) == (6, (4, 4, 4, 0))


def test_function_tags_are_removed_from_labels():
    assert counts(one(GOLD.replace("(NP", "(NP-SBJ-1", 1), GOLD.replace("(VP", "(VP=2"))) == (4, 4, 4, 0)
    # A tag has no function: this one is another one.
    row = one(GOLD.replace("(NN dog", "(NN-X dog"))
    assert (row.status, row.tags) == (VALID, 4)


def test_adverb_phrases_and_particles_are_equal():
    gold = "(S (ADVP (RB up)) (VP (VB go)))"
    particle = "(S (PRT (RB up)) (VP (VB go)))"
    assert counts(one(particle, gold)) == counts(one(gold, particle)) == (3, 3, 3, 0)
    assert counts(one("(S (ADVP (PRT (RB up))) (VP (VB go)))", "(S (PRT (PRT (RB up))) (VP (VB go)))")) == (4, 4, 4, 0)
    assert one("(X (PRT a))", "(X (ADVP a))").tags == 1


def test_a_sentence_with_other_words_is_an_error():
    for test, problem in {
        GOLD.replace("bites", "sees"): "the tree has the word `sees`, but its reference has `bites`",
        GOLD.replace("(DT the) ", "", 1): "the tree has 4 words, but its reference has 5",
        BROKEN: "the brackets do not form a tree",
    }.items():
        row = one(test)
        assert (row.status, row.problem) == (ERROR, problem)
        assert (row.length, row.words, row.tags, counts(row)) == (6, 0, 0, (0, 0, 0, 0))
    # A tag that deletes the word in one of the two only does that, too.
    assert one(GOLD.replace("(. .)", "(NN .)")).status == one(GOLD, GOLD.replace("(NN", "(''", 1)).status == ERROR


def test_words_without_tags_get_those_of_the_reference():
    untagged = "(S (NP (XX the) (XX dog)) (VP (XX bites) (NP (XX the) (XX cat)) (XX .)))"
    scores = score_brackets([untagged], [GOLD])
    assert counts(scores.rows[0]) == (4, 4, 4, 0)
    assert (scores.f1, scores.tagging, scores.rows[0].tags) == (100, None, None)
    assert scores.signature == "evalb:collins|tags:reference"
    # The full stop is not there: with its tag missing, nobody else would notice.
    assert one(untagged.replace(" (XX .)", "")).problem == "the tree has 5 words, but its reference has 6"
    # One tag in all the outputs, and they are a tagger's own.
    tagged = score_brackets([untagged, GOLD], [GOLD] * 2)
    assert ([row.status for row in tagged.rows], tagged.tagging) == ([ERROR, VALID], 100)
    assert tagged.signature == "evalb:collins|tags:test"


# sums


def test_sums_are_without_errors_and_skipped_sentences():
    gold = "(TOP (S (NP (NN a) (NN b)) (VP (VB c)) (. .)))"
    outputs = [gold, "(S (NN a) (VP (JJ b) (VB c)) (. .))", BROKEN, "(X (. .))"]
    scores = score_brackets(outputs, [gold] * 4)
    assert [number for number, _ in scores.excluded] == [3, 4]
    assert (scores.sentences, scores.errors, scores.skipped) == (4, 1, 1)
    found = (scores.recall, scores.precision, scores.f1, scores.tagging)
    assert found == pytest.approx((200 / 3, 80, 800 / 11, 250 / 3))
    assert (scores.complete_match, scores.crossing, scores.no_crossing, scores.two_or_less) == (50, 0.5, 50, 100)
    assert score_brackets([BROKEN] * 400, [gold] * 400).errors == 400


# files


def test_lines_are_read_as_evalb_reads_them(files):
    tests = {
        GOLD: VALID,
        GOLD.replace("(TOP", "("): VALID,
        "(NP (DT the) (NN dog)) (VBZ bites) (NP (DT the) (NN cat))": VALID,
        **dict.fromkeys(["", "()", "(())", "(S (NP))", "(S (. .))"], SKIPPED),
        **dict.fromkeys([GOLD[:-1], GOLD + ")", GOLD.replace("(NN dog)", "dog")], ERROR),
        "(S (. .)": SKIPPED,  # not a tree, but it has no word to compare
    }
    scores = files(tests, [GOLD] * len(tests))
    assert dict(zip(tests, [row.status for row in scores.rows], strict=True)) == tests
    assert [counts(row) for row in scores.rows[:3]] == [(4, 4, 4, 0), (4, 4, 5, 0), (2, 4, 2, 0)]
    assert [row.status for row in files(["", "(S (XX a))"], ["(S (NN a))"] * 2).rows] == [SKIPPED, VALID]


def test_invalid_references_and_empty_or_unequal_lists_are_refused(files):
    refused("outputs and references differ: 2 and 1", score_brackets, [BROKEN] * 2, [GOLD])
    refused("no outputs and no references", score_brackets, [], [])
    error = refused(r"^`\(S \(NN dog\)` is not a bracketed tree \(.*/gold:2\)", files, [GOLD, GOLD], [GOLD, BROKEN])
    assert "(NP (DT the) (NN dog))" in error.hint


@pytest.mark.slow
@pytest.mark.skipif("ZOO_EVALB" not in os.environ, reason="ZOO_EVALB names a folder with `evalb` and `COLLINS.prm`")
def test_scores_equal_those_of_evalb(tmp_path):
    """20,000 random sentences, some with other words, without words or with other trees."""
    folder = Path(os.environ["ZOO_EVALB"])
    for seed in range(1000):
        pick = random.Random(seed)
        golds = [_tree(pick) for _ in range(20)]
        tests = [str(_changed(gold, pick)) for gold in golds]
        for number in pick.sample(range(20), pick.randint(0, 9)):
            damaged = ("", "(TOP (S (. .)))", str(_tree(pick)), tests[number].replace(" a)", " b)", 1))
            tests[number] = pick.choice(damaged)
        (tmp_path / "gold").write_text("".join(f"{gold}\n" for gold in golds))
        (tmp_path / "test").write_text("".join(f"{test}\n" for test in tests))
        command = [folder / "evalb", "-p", folder / "COLLINS.prm", tmp_path / "gold", tmp_path / "test"]
        expected = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        scores = evaluate_bracket_files(tmp_path / "test", tmp_path / "gold")
        if "-- All --" not in expected:  # more errors than EVALB allows
            continue
        summary = expected.split("-- All --")[1].split("-- len")[0].replace("nan", "0.00").splitlines()
        found = [abs(float(line.partition("=")[2])) for line in summary if "=" in line]
        valid = scores.sentences - scores.errors - scores.skipped
        figures = (scores.sentences, scores.errors, scores.skipped, valid, scores.recall, scores.precision, scores.f1)
        figures += (scores.complete_match, scores.crossing, scores.no_crossing, scores.two_or_less, scores.tagging)
        assert found == pytest.approx(figures, abs=0.0051), seed


# properties


def _tree(pick, depth=0):
    if depth == 0:
        return node("TOP", node("S", leaf("NN", "dog"), *(_tree(pick, 1) for _ in range(pick.randint(1, 4)))))
    if depth > 4 or pick.random() < 0.4:
        return leaf(pick.choice(TAGS), pick.choice("abc"))
    return node(pick.choice(LABELS), *(_tree(pick, depth + 1) for _ in range(pick.randint(1, 3))))


def _changed(tree, pick):
    """The same words in another tree: brackets lost, put in and labelled otherwise."""
    if tree.word:
        return tree
    children = []
    for child in (_changed(each, pick) for each in tree.children):
        children += child.children if pick.random() < 0.3 and child.children else [child]
    if len(children) > 2 and pick.random() < 0.5:
        at = pick.randrange(len(children) - 1)
        children[at : at + 2] = [node(pick.choice(LABELS), *children[at : at + 2])]
    return Tree(pick.choice(LABELS) if pick.random() < 0.2 else tree.label, tuple(children))
