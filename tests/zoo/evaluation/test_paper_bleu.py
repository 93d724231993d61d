"""The paper's BLEU: Moses's tokens, plain quotes, and German compounds split at their hyphens."""

import pytest

from specs import ZooError
from zoo.evaluation.text_metrics import bleu, moses_tokenizer, paper_bleu


def test_tokens_are_those_of_moses_with_compounds_split_in_german_alone():
    text = "Der „EU-Haushalt“ steigt z. B. um ‚3,5‘ %."
    assert moses_tokenizer("de")(text) == "Der \" EU ##AT##-##AT## Haushalt \" steigt z. B. um ' 3,5 ' % ."
    assert moses_tokenizer("fr")("L'avant-dernier, peut-être.") == "L' avant-dernier , peut-être ."
    assert "EU-Haushalt" in moses_tokenizer("en")(text)


def test_a_hyphen_between_spaces_splits_nothing_and_a_chain_splits_everywhere_but_at_single_letters():
    """As the authors' expression finds them, from left to right and none twice."""
    tokens = moses_tokenizer("de")
    assert tokens("er - sie") == "er - sie"
    assert tokens("Nord-Ost-See") == "Nord ##AT##-##AT## Ost ##AT##-##AT## See"
    assert tokens("a-b-c") == "a ##AT##-##AT## b-c"


def test_it_is_bleu_of_these_tokens_and_says_so():
    hypotheses, references = ["Der EU-Gipfel sagt heute: „Nein“."], ['Der EU-Haushalt sagt heute: "Nein".']
    found = paper_bleu(hypotheses, references, "de")
    split = [[moses_tokenizer("de")(text) for text in each] for each in (hypotheses, references)]
    assert found.score == pytest.approx(bleu(*split, tokenize="none").score)
    assert found.score > bleu(hypotheses, references).score > 0
    assert "tok:moses-de|quotes:plain|compounds:split|smooth:none|" in found.signature
    assert "tok:moses-fr|quotes:plain|compounds:whole|" in paper_bleu(hypotheses, references, "fr").signature
    assert paper_bleu(["der EU-GIPFEL"] * 3, ["Der EU-Gipfel"] * 3, "de", lowercase=True).score == pytest.approx(100)


def test_quotes_of_unicode_are_plain_ones():
    kinds = ["„Nein“, sagt er heute", '"Nein", sagt er heute', "“Nein”, sagt er heute"]
    assert paper_bleu(kinds, [kinds[1]] * 3, "de").score == pytest.approx(100)


def test_without_a_common_word_in_fours_there_is_none():
    """multi-bleu.perl, by which the paper counted, smooths nothing."""
    pair = ["ein Hund schläft hier heute"], ["ein Hund schläft dort heute"]
    assert paper_bleu(*pair, "de").score == 0
    assert bleu(*pair).score > 0


def test_what_cannot_be_scored_is_refused():
    with pytest.raises(ZooError, match="1 hypotheses and 2 references"):
        paper_bleu(["a"], ["a", "b"], "de")
