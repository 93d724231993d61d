"""BLEU against its formula, the paper's BLEU with its Moses tokens, and files of translations."""

import pytest

from tests.refusals import refused
from zoo.evaluation.evaluate import evaluate_files
from zoo.evaluation.text_metrics import TEXT_METRICS, TRANSLATION_METRICS, moses_tokenizer, text_metric

REFERENCES = [
    "der alte EU-Hund sieht ein kleines Haus",
    "die Frau gibt dem Kind ein Buch , das sie kennt",
    "drei Katzen schlafen nicht",
]
HYPOTHESES = [
    "der alte EU-Hund sieht das kleine Haus",
    "die Frau gibt dem Kind ein Buch , das ihr gehört",
    "drei Katzen schlafen",
]


def score(name, hypotheses, references, language="de", **options):
    return text_metric(name, language, **options).score(hypotheses, references)


def test_the_signature_names_the_options():
    metric = text_metric("bleu")
    plain = metric.score(HYPOTHESES, REFERENCES)
    assert metric.signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    lowered = text_metric("bleu", lowercase=True)
    assert lowered.score([text.upper() for text in HYPOTHESES], REFERENCES) == pytest.approx(plain)
    assert "case:lc" in lowered.signature()


def test_text_that_looks_tokenised_gives_no_warning(capfd):
    assert score("bleu", ["so ist es also ."] * 200, ["so ist es also ."] * 200) == pytest.approx(100)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", TEXT_METRICS)
def test_texts_that_cannot_be_scored_are_refused(name):
    refused("outputs and references differ: 3 and 2", score, name, HYPOTHESES, REFERENCES[:2])
    refused("no outputs and no references", score, name, [], [])


def test_moses_tokens_with_german_compounds_split():
    tokens = moses_tokenizer("de")
    text = "Der „EU-Haushalt“ steigt z. B. um ‚3,5‘ %."
    assert tokens(text) == "Der \" EU ##AT##-##AT## Haushalt \" steigt z. B. um ' 3,5 ' % ."
    assert moses_tokenizer("fr")("L'avant-dernier, peut-être.") == "L' avant-dernier , peut-être ."
    assert "EU-Haushalt" in moses_tokenizer("en")(text)
    # As the authors' expression finds hyphens: from left to right and none twice.
    assert tokens("er - sie") == "er - sie"
    assert tokens("Nord-Ost-See") == "Nord ##AT##-##AT## Ost ##AT##-##AT## See"
    assert tokens("a-b-c") == "a ##AT##-##AT## b-c"


def test_paper_bleu_is_bleu_of_moses_tokens():
    hypotheses, references = ["Der EU-Gipfel sagt heute: „Nein“."], ['Der EU-Haushalt sagt heute: "Nein".']
    paper = text_metric("paper_bleu", "de-AT")
    split = [[moses_tokenizer("de")(text) for text in each] for each in (hypotheses, references)]
    assert paper.score(hypotheses, references) == pytest.approx(score("bleu", *split, tokenize="none"))
    assert paper.score(hypotheses, references) > score("bleu", hypotheses, references) > 0
    assert "tok:moses-de|quotes:plain|compounds:split|smooth:none|" in paper.signature()
    french = text_metric("paper_bleu", "fr")
    assert french.score(hypotheses, hypotheses) == pytest.approx(100)
    assert "tok:moses-fr|quotes:plain|compounds:whole|" in french.signature()
    lowered = score("paper_bleu", ["der EU-GIPFEL"] * 3, ["Der EU-Gipfel"] * 3, lowercase=True)
    assert lowered == pytest.approx(100)


# files


@pytest.fixture
def files(tmp_path):
    def make(hypotheses=HYPOTHESES, references=REFERENCES, ending=".de"):
        outputs, targets = tmp_path / "ours.txt", tmp_path / f"test{ending}"
        outputs.write_text("\n".join(hypotheses) + "\n", "utf-8")
        targets.write_text("\n".join(references), "utf-8")
        return outputs, targets

    return make


@pytest.mark.parametrize(("name", "unit", "expected"), [("wer", "words", 4 / 3), ("cer", "characters", 5 / 10)])
def test_error_rates_are_the_edits_per_unit_of_the_corpus(name, unit, expected):
    """Two words and a letter are others, a word of two letters is added, and a word and two letters are missing."""
    assert score(name, ["ein Haus", "ab", ""], ["eine Maus", "", "x"]) == pytest.approx(100 * expected)
    assert score(name, ["DER  Hund\u00a0"], ["der Hund"], lowercase=True) == 0
    assert (score(name, ["", ""], ["", ""]), score(name, ["a"], [""])) == (0, 100)
    metric = text_metric(name, lowercase=True)
    metric.score(HYPOTHESES, REFERENCES)
    assert metric.signature().startswith(f"nrefs:1|case:lc|unit:{unit}|version:jiwer-")


def test_files_are_scored_by_every_metric_for_translations(files):
    scores = evaluate_files(*files())
    keys = [("bleu", "signature"), *((name, f"{name}_signature") for name in TRANSLATION_METRICS[1:])]
    assert list(scores) == [*(key for pair in keys for key in pair), "sentences"]
    for name in TRANSLATION_METRICS:
        assert scores[name] == score(name, HYPOTHESES, REFERENCES)
    assert scores["ter"] == pytest.approx(100 * 5 / 22), "two words in the first and the second, one in the last"
    assert scores["sentences"] == 3
    scores = evaluate_files(*files(), transcripts=True)
    assert [scores[name] for name in ("wer", "cer")] == [score(name, HYPOTHESES, REFERENCES) for name in ("wer", "cer")]
    assert "bleu" not in scores


def test_the_language_comes_from_the_file_name_or_the_option(files):
    def signature(ending, **how):
        return evaluate_files(*files(ending=ending), **how).get("paper_bleu_signature", "none")

    assert "moses-de" in signature(".ref.de")
    assert "moses-de" in signature(".de.txt")
    assert "moses-fr" in signature(".de", language="fr")
    for no_language in (".txt", "", ".references", ".DE", ".ref", ".hyp", ".tok", ".de.out"):
        assert signature(no_language) == "none"
    for invalid in ("Deutsch", "DE", "de-DE", "../de", ""):
        refused("is not a language code", evaluate_files, *files(), language=invalid)
