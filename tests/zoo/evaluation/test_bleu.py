"""BLEU against its formula, and what sacreBLEU's signature has to say."""

import math
from collections import Counter

import pytest

from specs import ZooError
from zoo.evaluation.text_metrics import bleu

REFERENCES = [
    "der alte Hund sieht ein kleines Haus",
    "die Frau gibt dem Kind ein Buch , das sie kennt",
    "drei Katzen schlafen nicht",
]
HYPOTHESES = [
    "der alte Hund sieht das kleine Haus",
    "die Frau gibt dem Kind ein Buch , das ihr gehört",
    "drei Katzen schlafen",
]


def ngrams(tokens, n):
    return Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))


def formula(hypotheses, references):
    """Papineni et al. 2002, section 2.3, in percent."""
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    precisions = []
    for n in range(1, 5):
        matched = sum((ngrams(h, n) & ngrams(r, n)).total() for h, r in pairs)
        precisions.append(matched / sum(ngrams(h, n).total() for h, _ in pairs))
    found, wanted = sum(len(h) for h, _ in pairs), sum(len(r) for _, r in pairs)
    return 100 * min(1, math.exp(1 - wanted / found)) * math.prod(precisions) ** 0.25


def test_it_is_the_formula_over_the_whole_corpus():
    result = bleu(HYPOTHESES, REFERENCES, tokenize="none")
    assert result.score == pytest.approx(formula(HYPOTHESES, REFERENCES))
    assert (result.hypothesis_length, result.reference_length) == (21, 22)
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 22 / 21))
    assert result.precisions[0] == pytest.approx(100 * 17 / 21)


def test_the_signature_says_what_was_computed():
    result = bleu(HYPOTHESES, REFERENCES)
    assert result.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    lowered = bleu([text.upper() for text in HYPOTHESES], REFERENCES, lowercase=True)
    assert lowered.score == pytest.approx(result.score)
    assert "case:lc" in lowered.signature
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100.0)


def test_13a_takes_words_and_punctuation_apart():
    assert bleu(["Das ist ein Haus."], ["Das ist ein Haus ."]).score == pytest.approx(100.0)
    assert bleu(["Das ist ein Haus."], ["Das ist ein Haus ."], tokenize="none").score < 60


def test_text_that_looks_tokenised_gives_no_lecture(capfd):
    assert bleu(["so ist es also ."] * 200, ["so ist es also ."] * 200).score == pytest.approx(100.0)
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ZooError, match="3 hypotheses and 2 references"):
        bleu(HYPOTHESES, REFERENCES[:2])
    with pytest.raises(ZooError, match="nothing to score"):
        bleu([], [])
    with pytest.raises(ZooError, match="`moses` is not a tokenisation"):
        bleu(HYPOTHESES, REFERENCES, tokenize="moses")
