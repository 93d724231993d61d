"""Two systems: whether one is better, or it is chance."""

import random
from dataclasses import asdict

import pytest

from specs import ZooError
from zoo.evaluation import bootstrap
from zoo.evaluation.comparison import compare, compare_files
from zoo.evaluation.text_metrics import bleu, paper_bleu

WORDS = ["der", "die", "das", "Hund", "Haus", "Katze", "sieht", "kennt", "alte", "kleine", "nicht", "heute"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(bootstrap, "SAMPLES", 200)


def spoiled(references, share, seed):
    """Each word another one, by this probability."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choice(WORDS) if chance.random() < share else word for word in text.split())
        for text in references
    ]


@pytest.fixture(scope="module")
def references():
    chance = random.Random(0)
    return [" ".join(chance.choices(WORDS, k=chance.randint(6, 15))) for _ in range(200)]


def test_scores_are_those_of_each_alone(references):
    first, second = spoiled(references, 0.3, 1), spoiled(references, 0.2, 2)
    found = {each.metric: each for each in compare(first, second, references, "de")}
    assert list(found) == ["bleu", "paper_bleu", "chrf", "ter"]
    assert found["bleu"].scores == pytest.approx([bleu(each, references).score for each in (first, second)])
    assert found["paper_bleu"].scores == pytest.approx(
        [paper_bleu(each, references, "de").score for each in (first, second)]
    )
    assert "moses-de" in found["paper_bleu"].signature
    assert all("bs:200|seed:12345" in each.signature for each in found.values())
    assert [each.metric for each in compare(first, second, references, None)] == ["bleu", "chrf", "ter"]


def test_what_is_much_better_is_and_by_every_metric(references):
    worse, better = spoiled(references, 0.4, 1), spoiled(references, 0.1, 2)
    assert [each.better for each in compare(worse, better, references, "de")] == ["B"] * 4
    assert [each.better for each in compare(better, worse, references, "de")] == ["A"] * 4
    assert all(each.p < 0.02 for each in compare(worse, better, references, None))


def test_chance_is_no_difference_and_the_same_is_none(references):
    alike = compare(spoiled(references, 0.3, 1), spoiled(references, 0.3, 2), references, "de")
    assert [each.better for each in alike] == [None] * 4
    assert all(each.confidence[0] > abs(each.difference) / 2 for each in alike)
    same = compare(references, references, references, None)
    assert {(each.difference, each.better) for each in same} == {(0.0, None)}


def test_it_says_the_same_each_time(references):
    pair = spoiled(references, 0.3, 1), spoiled(references, 0.2, 2)
    assert list(map(asdict, compare(*pair, references, "de"))) == list(map(asdict, compare(*pair, references, "de")))


def test_what_is_not_alike_in_number_is_refused(references, tmp_path):
    with pytest.raises(ZooError, match="199 hypotheses and 200 references"):
        compare(references, references[1:], references, None)
    names = [tmp_path / name for name in ("a", "b", "test.de")]
    for name, lines in zip(names, (references, references[1:], references), strict=True):
        name.write_text("\n".join(lines), "utf-8")
    with pytest.raises(ZooError, match=r"b` has 199 lines and .*test.de` has 200"):
        compare_files(*names)
    assert len(compare_files(names[0], names[0], names[2])) == 4
