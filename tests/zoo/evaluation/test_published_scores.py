"""Scores of WMT's systems to the second decimal, and the tokens of its references to the last."""

import os
from pathlib import Path

import pytest

from zoo.evaluation.comparison import compare_files
from zoo.evaluation.evaluate import evaluate_files
from zoo.evaluation.text_metrics import moses_tokenizer, text_metric
from zoo.text.lines import read_lines

REASON = "ZOO_WMT names a folder of WMT's texts, which are not ours to hand on"
pytestmark = [pytest.mark.slow, pytest.mark.skipif("ZOO_WMT" not in os.environ, reason=REASON)]


def file(name):
    return next(Path(os.environ["ZOO_WMT"]).rglob(name))


def moses(name):
    """The tokens of a file, compounds left whole."""
    tokens = moses_tokenizer("de")
    return [tokens(line).replace(" ##AT##-##AT## ", "-") for line in read_lines(file(name))]


@pytest.mark.parametrize(
    ("system", "score"), [("uedin-nmt", 28.30), ("LMU-nmt-reranked", 27.11), ("C-3MA", 22.67), ("online-F", 15.45)]
)
def test_systems_of_2017(system, score):
    texts = (read_lines(file(f"wmt17.{each}.de")) for each in (system, "ref"))
    assert round(text_metric("bleu").score(*texts), 2) == score


def test_one_system_by_three_tokenisations():
    output, reference = "newstest2013.bergamot-base-memory.de", "newstest2013.de"
    scores = evaluate_files(file(output), file(reference), language="de")
    whole = text_metric("bleu", tokenize="none").score(moses(output), moses(reference))
    assert (round(scores["bleu"], 2), round(whole, 2), round(scores["paper_bleu"], 2)) == (28.09, 28.03, 28.45)
    tokens = moses_tokenizer("de")
    lengths = [sum(len(tokens(line).split()) for line in read_lines(file(name))) for name in (output, reference)]
    assert lengths == [64_177, 64_248]


def test_the_better_of_two_systems_of_2017_is_found():
    names = ("wmt17.uedin-nmt.de", "wmt17.LMU-nmt-reranked.de", "wmt17.ref.de")
    found = {each.metric: each for each in compare_files(*map(file, names), language="de")}
    assert round(found["bleu"].difference, 2) == -1.19
    assert found["bleu"].p < 0.01
    assert found["bleu"].better == "A"
