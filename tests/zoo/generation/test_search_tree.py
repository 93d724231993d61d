"""The recorded tree is the search that really ran: its result, its totals, and the reasons why hypotheses were lost."""

from __future__ import annotations

import random
from unittest.mock import MagicMock

import pytest

from specs import EOS, ZooError
from zoo.generation.search_tree import record_search

RULES = ["admissible", "shrinking", "full"]
TEXTS = ["abc", "had a bad cab", "hgfedcba", "e"]


def overrides(rule: str, **more: object) -> list[str]:
    return [f"decoding.stopping_rule={rule}", *(f"decoding.{name}={value}" for name, value in more.items())]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("levels", [3, 50, 4000])
def test_the_result_is_that_of_translate(translator_of, toy, rule, levels):
    for seed, text in enumerate(TEXTS):
        draw = random.Random(f"{seed} {rule} {levels}")
        beam, alpha = draw.choice([1, 2, 3, 5]), draw.choice([0.0, 0.6, 2.0])
        translator = translator_of(
            [*overrides(rule, min_length=draw.choice([0, 2])), "vocabulary.size=13"], toy(13, seed, levels)
        )
        tree = record_search(translator, text, beam=beam, alpha=alpha)
        ((best,),) = translator.hypotheses([text], beam=beam, alpha=alpha)
        assert tree.result == best
        (last,) = [each for each in tree if each.fate == "result"]
        tokens = tuple(each.token_id for each in last.path)
        assert (tokens[:-1] if tokens[-1] == EOS else tokens) == best.tokens
        assert (last.total, last.score) == (best.log_probability, best.score)
        assert [each for each in tree if each.best] == list(last.path)


@pytest.mark.parametrize("rule", RULES)
def test_every_hypothesis_has_a_fate_that_agrees_with_its_numbers(translator_of, toy, rule):
    fates = set()
    for seed in range(6):
        translator = translator_of(overrides(rule), toy(13, seed, 300))
        tree = record_search(translator, "abcd", beam=3)
        (result,) = [each for each in tree if each.fate == "result"]
        assert sum(map(len, tree.steps)) == len(list(tree))
        for step in tree.steps:
            live = [each for each in step if each.fate in ("kept", "stopped")]
            assert len(live) <= 3
            for each in step:
                assert each in each.parent.children
                assert each.total == each.parent.total + each.log_probability  # the toy's numbers are exact
                assert not each.children or each.fate == "kept"
                assert bool(each.reason) or each.fate in ("kept", "result")
                if each.token_id == EOS and rule != "shrinking":  # there, the beam may have become too small
                    assert (each.fate == "pruned") == (rule == "full" and step.index(each) >= 3)
                if each.fate == "worse":
                    assert each.score <= result.score
                if each.fate == "pruned" and each.token_id != EOS and live:
                    assert each.total <= min(other.total for other in live)
        fates |= {each.fate for each in tree}
    assert {"kept", "result", "pruned", "worse"} <= fates


def test_reasons_name_what_a_hypothesis_lost_against(translator_of, toy):
    """A search by hand: tokens 4 and 5 are probable, 6 is not, and the first sentence to end is the best."""
    rare = [-9.0] * 13
    start = [*rare[:4], -1.0, -1.5, -4.0, *rare[7:]]
    ending = [*rare]
    ending[EOS] = -0.125
    program = toy(13, overriding={(): start, (4,): ending, (5,): ending})
    tree = record_search(translator_of(["decoding.alpha=0"], program), "abc", beam=2)
    first, second = tree.steps[:2]
    outcome = {each.token_id: each.outcome for each in first}
    assert outcome[4] == "best"
    assert outcome[5] == "kept: none of its continuations stayed in the beam" or outcome[5] == "kept"
    assert outcome[6] == "pruned: its total -4.00 is below -1.50, the worst total in the beam"
    ends = {each.parent.token_id: each.outcome for each in second if each.token_id == EOS}
    assert ends[4] == "result"
    assert ends[5] == "finished, but worse: its score -1.62 is below -1.12, the score of the result"
    assert "no unfinished hypothesis could still reach" in tree.stop


@pytest.mark.parametrize("rule", RULES)
def test_steps_after_the_end_of_an_asynchronous_search_are_not_shown(translator_of, toy, monkeypatch, rule):
    """On a GPU, one more step runs before the host knows that the search is done."""
    trees = []
    for asynchronous in (False, True):
        with monkeypatch.context() as patch:
            if asynchronous:
                patch.setattr("zoo.generation.batch._is_asynchronous", lambda tensor: True)
                patch.setattr("torch.cuda.Event", MagicMock())
                patch.setattr("torch.cuda.current_stream", MagicMock())
            program = toy(13, 5, 60)
            tree = record_search(translator_of(overrides(rule), program), "had a cab", beam=3)
        trees.append([(tuple(part.token_id for part in each.path), each.outcome) for each in tree])
        assert len(program.read) - len(tree.steps) in ((0, 1) if asynchronous else (0,))
    assert trees[0] == trees[1]


def test_texts_without_one_search_are_refused(translator_of):
    translator = translator_of()
    for text in ("", "  ", "a\nb"):
        with pytest.raises(ZooError):
            record_search(translator, text)
    with pytest.raises(ZooError, match="`beam` is `0`"):
        record_search(translator, "abc", beam=0)
