"""Files of translations against a file of references."""

import pytest

from specs import ZooError
from zoo.evaluation.files import evaluate_files
from zoo.evaluation.text_metrics import bleu, corpus_score, paper_bleu

REFERENCES = [
    "der alte EU-Hund sieht ein kleines Haus",
    "die Frau gibt dem Kind ein Buch, das sie kennt",
    "drei Katzen schlafen nicht",
]
HYPOTHESES = [
    "der alte EU-Hund sieht das kleine Haus",
    "die Frau gibt dem Kind ein Buch, das ihr gehört",
    "drei Katzen schlafen",
]


@pytest.fixture
def files(tmp_path):
    def make(hypotheses=HYPOTHESES, references=REFERENCES, ending=".de"):
        found, wanted = tmp_path / "ours.txt", tmp_path / f"test{ending}"
        found.write_text("\n".join(hypotheses) + "\n", "utf-8")
        wanted.write_text("\n".join(references), "utf-8")
        return found, wanted

    return make


def test_files_are_scored_by_every_text_metric(files):
    scores = evaluate_files(*files())
    assert scores["bleu"] == bleu(HYPOTHESES, REFERENCES).score
    assert scores["brevity_penalty"] == bleu(HYPOTHESES, REFERENCES).brevity_penalty
    assert scores["paper_bleu"] == paper_bleu(HYPOTHESES, REFERENCES, "de").score
    assert scores["chrf"] == corpus_score("CHRF", HYPOTHESES, REFERENCES).score
    assert scores["ter"] == pytest.approx(100 * 5 / 21), (
        "two words in the first and the second each, and one in the last"
    )
    assert scores["sentences"] == 3


def test_the_language_comes_from_the_file_name_or_the_option(files):
    def signature(ending, **how):
        return evaluate_files(*files(ending=ending), **how).get("paper_bleu_signature", "none")

    assert "moses-de" in signature(".ref.de")
    assert "moses-de" in signature(".de.txt")
    assert "moses-fr" in signature(".de", language="fr")
    for no_language in (".txt", "", ".references", ".DE", ".ref", ".hyp", ".tok", ".de.out"):
        assert signature(no_language) == "none"


@pytest.mark.parametrize("given", ["Deutsch", "DE", "de-DE", "../de", ""])
def test_invalid_language_codes_are_refused(files, given):
    with pytest.raises(ZooError, match="is not a language code"):
        evaluate_files(*files(), language=given)


def test_options_are_in_the_signatures(files):
    scores = evaluate_files(*files(), tokenize="none", lowercase=True)
    assert "case:lc|eff:no|tok:none" in scores["signature"]
    assert "case:lc" in scores["paper_bleu_signature"]
    assert "case:lc" in scores["chrf_signature"]


def test_files_of_different_length_are_refused(files):
    with pytest.raises(ZooError, match=r"ours.txt` has 4 lines and `.*test.de` has 3") as refused:
        evaluate_files(*files([*HYPOTHESES, ""]))
    assert "both need the same number of lines" in refused.value.hint


def test_both_versions_of_newstest2014_are_recognised(files):
    with pytest.raises(ZooError, match=r"has 3,003 lines and .* has 2,737") as refused:
        evaluate_files(*files(["ja"] * 3_003, ["ja"] * 2_737))
    assert "wmt14/full" in refused.value.hint


def test_a_filtered_newstest2014_gives_a_warning(files, report):
    evaluate_files(*files(["ja"] * 2_737, ["ja"] * 2_737), report=report)
    assert [warning.partition(":")[0] for warning in report.warnings] == ["if this is newstest2014"]
