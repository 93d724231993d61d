"""BLEU against its formula, and the paper's BLEU with its Moses tokens."""

import math
from collections import Counter

import pytest

from specs import ZooError
from zoo.evaluation.text_metrics import bleu, moses_tokenizer, paper_bleu

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


def test_bleu_equals_the_formula():
    result = bleu(HYPOTHESES, REFERENCES, tokenize="none")
    assert result.score == pytest.approx(formula(HYPOTHESES, REFERENCES))
    assert (result.hypothesis_length, result.reference_length) == (21, 22)
    assert result.brevity_penalty == pytest.approx(math.exp(1 - 22 / 21))
    assert result.precisions[0] == pytest.approx(100 * 17 / 21)


def test_the_signature_names_the_options():
    result = bleu(HYPOTHESES, REFERENCES)
    assert result.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    lowered = bleu([text.upper() for text in HYPOTHESES], REFERENCES, lowercase=True)
    assert lowered.score == pytest.approx(result.score)
    assert "case:lc" in lowered.signature
    assert bleu(REFERENCES, REFERENCES).score == pytest.approx(100.0)


def test_13a_separates_words_and_punctuation():
    assert bleu(["Das ist ein Haus."], ["Das ist ein Haus ."]).score == pytest.approx(100.0)
    assert bleu(["Das ist ein Haus."], ["Das ist ein Haus ."], tokenize="none").score < 60


def test_tokenised_text_gives_no_warning(capfd):
    assert bleu(["so ist es also ."] * 200, ["so ist es also ."] * 200).score == pytest.approx(100.0)
    assert capfd.readouterr() == ("", "")


def test_texts_that_cannot_be_scored_are_refused():
    with pytest.raises(ZooError, match="3 hypotheses and 2 references"):
        bleu(HYPOTHESES, REFERENCES[:2])
    with pytest.raises(ZooError, match="nothing to score"):
        bleu([], [])
    with pytest.raises(ZooError, match="`moses` is not a tokenisation"):
        bleu(HYPOTHESES, REFERENCES, tokenize="moses")


def test_moses_tokens_with_german_compounds_split():
    text = "Der „EU-Haushalt“ steigt z. B. um ‚3,5‘ %."
    assert moses_tokenizer("de")(text) == "Der \" EU ##AT##-##AT## Haushalt \" steigt z. B. um ' 3,5 ' % ."
    assert moses_tokenizer("fr")("L'avant-dernier, peut-être.") == "L' avant-dernier , peut-être ."
    assert "EU-Haushalt" in moses_tokenizer("en")(text)


def test_which_hyphens_are_split():
    """As the authors' expression finds them, from left to right and none twice."""
    tokens = moses_tokenizer("de")
    assert tokens("er - sie") == "er - sie"
    assert tokens("Nord-Ost-See") == "Nord ##AT##-##AT## Ost ##AT##-##AT## See"
    assert tokens("a-b-c") == "a ##AT##-##AT## b-c"


def test_paper_bleu_is_bleu_of_moses_tokens():
    hypotheses, references = ["Der EU-Gipfel sagt heute: „Nein“."], ['Der EU-Haushalt sagt heute: "Nein".']
    found = paper_bleu(hypotheses, references, "de")
    split = [[moses_tokenizer("de")(text) for text in each] for each in (hypotheses, references)]
    assert found.score == pytest.approx(bleu(*split, tokenize="none").score)
    assert found.score > bleu(hypotheses, references).score > 0
    assert "tok:moses-de|quotes:plain|compounds:split|smooth:none|" in found.signature
    assert "tok:moses-fr|quotes:plain|compounds:whole|" in paper_bleu(hypotheses, references, "fr").signature
    assert paper_bleu(["der EU-GIPFEL"] * 3, ["Der EU-Gipfel"] * 3, "de", lowercase=True).score == pytest.approx(100)


def test_typographic_quotes_equal_plain_ones():
    kinds = ["„Nein“, sagt er heute", '"Nein", sagt er heute', "“Nein”, sagt er heute"]
    assert paper_bleu(kinds, [kinds[1]] * 3, "de").score == pytest.approx(100)


def test_paper_bleu_is_not_smoothed():
    """multi-bleu.perl, by which the paper counted, smooths nothing."""
    pair = ["ein Hund schläft hier heute"], ["ein Hund schläft dort heute"]
    assert paper_bleu(*pair, "de").score == 0
    assert bleu(*pair).score > 0


def test_different_numbers_of_texts_are_refused():
    with pytest.raises(ZooError, match="1 hypotheses and 2 references"):
        paper_bleu(["a"], ["a", "b"], "de")
