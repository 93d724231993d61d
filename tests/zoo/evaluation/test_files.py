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
    def make(hypotheses=HYPOTHESES, references=REFERENCES, stopping_rule=".de"):
        found, wanted = tmp_path / "ours.txt", tmp_path / f"test{ending}"
        found.write_text("\n".join(hypotheses) + "\n", "utf-8")
        wanted.write_text("\n".join(references), "utf-8")
        return found, wanted

    return make


def test_they_are_scored_by_every_metric_of_text_line_by_line(files):
    scores = evaluate_files(*files())
    assert scores["bleu"] == bleu(HYPOTHESES, REFERENCES).score
    assert scores["brevity_penalty"] == bleu(HYPOTHESES, REFERENCES).brevity_penalty
    assert scores["paper_bleu"] == paper_bleu(HYPOTHESES, REFERENCES, "de").score
    assert scores["chrf"] == corpus_score("CHRF", HYPOTHESES, REFERENCES).score
    assert scores["ter"] == pytest.approx(100 * 5 / 21), (
        "two words in the first and the second each, and one in the last"
    )
    assert scores["sentences"] == 3


def test_the_language_is_the_references_last_ending_or_as_it_is_given(files):
    def told(ending, **how):
        return evaluate_files(*files(stopping_rule=ending), **how).get("paper_bleu_signature", "none")

    assert "moses-de" in told(".ref.de")
    assert "moses-de" in told(".de.txt")
    assert "moses-fr" in told(".de", language="fr")
    for no_language in (".txt", "", ".references", ".DE", ".ref", ".hyp", ".tok", ".de.out"):
        assert told(no_language) == "none"


@pytest.mark.parametrize("given", ["Deutsch", "DE", "de-DE", "../de", ""])
def test_what_is_no_code_of_a_language_is_refused(files, given):
    with pytest.raises(ZooError, match="is not a language's code"):
        evaluate_files(*files(), language=given)


def test_choices_are_in_the_signatures(files):
    scores = evaluate_files(*files(), tokenize="none", lowercase=True)
    assert "case:lc|eff:no|tok:none" in scores["signature"]
    assert "case:lc" in scores["paper_bleu_signature"]
    assert "case:lc" in scores["chrf_signature"]


def test_files_of_different_length_are_refused(files):
    with pytest.raises(ZooError, match=r"ours.txt` has 4 lines and `.*test.de` has 3") as refused:
        evaluate_files(*files([*HYPOTHESES, ""]))
    assert "both need as many lines" in refused.value.hint


def test_the_two_newstests_of_2014_are_known(files):
    with pytest.raises(ZooError, match=r"has 3,003 lines and .* has 2,737") as refused:
        evaluate_files(*files(["ja"] * 3_003, ["ja"] * 2_737))
    assert "wmt14/full" in refused.value.hint


def test_a_filtered_newstest_of_2014_is_doubted(files, report):
    evaluate_files(*files(["ja"] * 2_737, ["ja"] * 2_737), report=report)
    assert [told.partition(":")[0] for told in report.warnings] == ["if this is newstest2014"]
