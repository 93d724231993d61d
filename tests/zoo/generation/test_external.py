"""Programs that bring a search of their own: used for what they can, refused for the rest."""

import pytest

from compiler.program import Found
from specs import ZooError
from zoo.generation.constraints import BracketConstraint
from zoo.generation.hypotheses import length_penalty
from zoo.generation.streaming import translate_lines

TEXTS = ["ab", "", "hgfedc", "a b", "h"]


class Engine:
    """Translates a text into itself, or first into half of it, as long as a batch has at most so many rows."""

    search, concurrent = "own", False

    def __init__(self, most=100):
        self.most, self.asked = most, []

    def hypotheses(self, source, limits, *, beam, alpha, suppressed, least):
        if source.shape[0] > self.most:
            raise RuntimeError("CUDA failed with error out of memory")
        self.asked.append((tuple(source.shape), beam, alpha, suppressed, least))
        rows = [tuple(token for token in row if token > 3) for row in source.tolist()]
        return [[Found(row[: len(row) // 2], -1.25), Found(row, -1.0)] for row in rows]


def test_its_search_is_taken(translator_of):
    engine = Engine()
    translator = translator_of(program=engine)
    assert translator.translate(TEXTS) == TEXTS
    assert engine.asked == [((4, 7), 3, translator.spec.decoding.alpha, (), 0)]
    assert translator.translate(TEXTS, n_best=2, beam=2, alpha=0.0)[0] == ["ab", "a"]
    assert engine.asked[-1][1:] == (2, 0.0, (), 0)
    assert [each[0].text for each in translate_lines(translator, TEXTS, window=2)] == TEXTS


@pytest.mark.parametrize("kind", ["gnmt", "power"])
def test_what_it_finds_is_ranked_by_our_length_penalty(translator_of, kind):
    translator = translator_of(
        [f"decoding.length_penalty={kind}", "decoding.suppressed_tokens=[1, 7]", "decoding.min_length=2"], Engine()
    )
    (found,) = translator.hypotheses(["hgfedc"], n_best=2, alpha=0.8)
    wanted = {"hgfedc": -1.0 / length_penalty(7, 0.8, kind), "hgf": -1.25 / length_penalty(4, 0.8, kind)}
    assert {each.text: each.score for each in found} == wanted
    assert found[0].score > found[1].score
    assert translator.program.asked[-1][-2:] == ((1, 7), 2)


def test_batches_keep_to_the_budget_and_are_split_where_memory_ends(translator_of):
    engine = Engine(3)
    translator = translator_of(program=engine)
    assert translator.translate(TEXTS * 5) == TEXTS * 5
    assert max(rows for (rows, _), *_ in engine.asked) == 3
    assert translator.translate(TEXTS * 5, tokens=16) == TEXTS * 5
    with pytest.raises(ZooError, match="not enough memory to translate sentence 1 alone: 'ab', 2 tokens"):
        translator_of(program=Engine(0)).translate("ab")


@pytest.mark.parametrize("found", [[], [Found((4,), -1.0), Found((5,), float("nan"))], [Found((4,), float("-inf"))]])
def test_what_it_finds_has_numbers_or_is_refused(translator_of, found):
    """As what our own search finds."""

    class Diverged(Engine):
        def hypotheses(self, source, limits, **how):
            return [found for _ in limits]

    with pytest.raises(ZooError, match="not usable numbers") as caught:
        translator_of(program=Diverged()).translate(["ab"])
    assert caught.value.exit_code == 1


def test_what_it_cannot_do_is_refused(translator_of):
    translator = translator_of(program=Engine())
    for choice, named in (
        ({"search": "sample"}, "Engine searches by itself, and does not sample"),
        ({"prefixes": ["a"]}, "Engine searches by itself, and cannot be given the beginning"),
        ({"workers": 2}, "`workers` is 2"),
    ):
        with pytest.raises(ZooError, match=named) as caught:
            translator.translate(["ab"], **choice)
        assert caught.value.hint
    with pytest.raises(ZooError, match=r"its beam does not shrink \(`decoding.stopping_rule` of the model's spec\)"):
        translator_of(["decoding.stopping_rule=shrinking"], Engine()).translate(["ab"])
    translator.constraint = BracketConstraint([4], [5], [6], 7)
    with pytest.raises(ZooError, match="Engine searches by itself, and what it may produce cannot be constrained"):
        translator.translate(["ab"])
