"""`zoo score`, `zoo evaluate` and `zoo compare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo as library
from tests.conftest import Zoo
from zoo.evaluation import comparison
from zoo.evaluation.evaluate import read_split
from zoo.evaluation.outputs import EvaluationSet
from zoo.generation.translator import Translator
from zoo.training.run import Run


@pytest.fixture
def translator(trained: Callable[..., Run]) -> Translator:
    return library.load(str(trained("runs/tiny").folder), device="cpu")


def write(file: str, *lines: str) -> None:
    Path(file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


class TestScore:
    def test_stdin_and_files_give_the_same_scores(self, zoo: Zoo, translator: Translator) -> None:
        sources, targets = ["we read", "", "the cat"], ["wir lesen", "die Katze", ""]
        stdin = "".join(f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True))
        result = zoo("score", "--model", "tiny", stdin=stdin)
        scores = [float(line) for line in result.out.splitlines()]
        assert scores == pytest.approx(translator.score(sources, targets), abs=1e-5)
        write("a", *sources)
        write("b", *targets)
        assert zoo("score", "--model", "tiny", "--source", "a", "--target", "b", "--output", "c").status == 0
        assert Path("c").read_text() == result.out

    def test_json_has_the_log_probability_of_each_token(self, zoo: Zoo, translator: Translator) -> None:
        values = json.loads(zoo("score", "--model", "tiny", "--json", stdin="we read\twir lesen\n").out)
        (forced,) = translator.score_tokens(["we read"], ["wir lesen"])
        assert values["tokens"] == forced.tokens == len(values["token_log_probabilities"])
        assert sum(values["token_log_probabilities"]) == pytest.approx(values["log_probability"])

    @pytest.mark.parametrize(("line", "tabs"), [("we read", 0), ("a\tb\tc", 2)])
    def test_lines_need_one_tab(self, zoo: Zoo, translator: Translator, line: str, tabs: int) -> None:
        good = "we read\twir lesen\n"
        result = zoo("score", "--model", "tiny", stdin=f"{good}{line}\n")
        assert result.status == 2
        assert result.err.startswith(f"error: the line must have one tab, not {tabs} (<stdin>:2)")
        assert result.out == zoo("score", "--model", "tiny", stdin=good).out, "earlier lines are scored"

    @pytest.mark.parametrize("chunk", [2, 4096])
    def test_an_invalid_pair_is_located_after_the_scores_before_it(
        self, zoo: Zoo, translator: Translator, monkeypatch: pytest.MonkeyPatch, chunk: int
    ) -> None:
        monkeypatch.setattr("cli.score._MAX_SCORED_LINES", chunk)
        good, long = "we read\twir lesen\n", "x" * 100_001
        scores = zoo("score", "--model", "tiny", stdin=good * 4).out
        result = zoo("score", "--model", "tiny", stdin=f"{good * 4}we\t{long}\n{good}")
        assert (result.status, "(<stdin>:5)" in result.err, result.out) == (2, True, scores)
        write("a", *["we read"] * 5)
        write("b", *["wir lesen"] * 4, long)
        result = zoo("score", "--model", "tiny", "--source", "a", "--target", "b")
        assert ("(a:5, b:5)" in result.err, result.out) == (True, scores)

    @pytest.mark.parametrize(("longer", "shorter"), [("a", "b"), ("b", "a")])
    def test_files_need_the_same_length(self, zoo: Zoo, translator: Translator, longer: str, shorter: str) -> None:
        write(longer, "we", "read")
        write(shorter, "we")
        result = zoo("score", "--model", "tiny", "--source", "a", "--target", "b")
        assert (result.status, f"`{shorter}` has 1 lines, but `{longer}` has more" in result.err) == (2, True)


class TestEvaluate:
    def test_a_model_gets_all_scores_with_signatures(self, zoo: Zoo, translator: Translator) -> None:
        result = zoo("evaluate", "--model", "tiny", "--set", "dev", "--device", "cpu")
        names = [line.split("  ")[0] for line in result.out.splitlines()]
        assert result.status == 0
        assert names[:6] == ["BLEU", "paper's BLEU", "chrF", "TER", "perplexity", "sentences"]
        values = json.loads(zoo("evaluate", "--model", "runs/tiny", "--json").out)
        assert values["sentences"] == 4
        assert values["signature"].startswith("nrefs:1|")
        assert f"{values['bleu']:.2f}" in result.out
        listed = json.loads(zoo("list", "runs/tiny", "--json").out)["runs"][0]
        assert (listed["metric"], listed["test"]) == ("bleu", values["bleu"])

    def test_two_files(self, zoo: Zoo) -> None:
        write("a", "Der alte Hund sieht ein kleines Haus")
        write("b", "der alte Hund sieht ein kleines Haus")
        files = ("--hypotheses", "a", "--references", "b")
        result = zoo("evaluate", *files)
        assert float(result.out.split()[1]) < 100
        assert "paper's" not in result.out
        assert "moses-de" in zoo("evaluate", *files, "--language", "de").out
        result = zoo("evaluate", *files, "--lowercase", "--tokenize", "none", "--json")
        assert json.loads(result.out)["bleu"] == pytest.approx(100)
        assert "case:lc" in result.out
        assert "tok:none" in result.out
        assert zoo("evaluate", *files, "--tokenize", "foo").status == 2
        result = zoo("evaluate", *files, "--transcripts")
        assert float(result.out.split()[1]) == pytest.approx(100 / 7, abs=0.01)
        assert "version:jiwer-" in result.out
        assert zoo("evaluate", *files, "--transcripts", "--tokenize", "none").status == 2
        assert zoo("evaluate", "--model", "tiny", "--transcripts").status == 2

    def test_trees_are_scored_as_evalb_does(self, zoo: Zoo) -> None:
        right, wrong = (
            "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))",
            "(S (NP (DT a) (NN dog)) (VP (VBZ sleeps)))",
        )
        write("gold", *[f"(TOP {right})"] * 3)
        write("test", right, right.replace("NP", "PP"), wrong)
        write("unlabelled", "LABELED 0", "DELETE_LABEL TOP")
        result = zoo("evaluate", "--brackets", "gold", "test")
        assert result.status == 0
        row = "   1    4    0  100.00 100.00     3      3    3      0      3     3   100.00"
        assert result.out.splitlines()[3] == row
        assert "Bracketing Recall         =  83.33\n" in result.out
        assert "1 of 3 sentences are excluded as errors; the first is sentence 3" in result.err
        assert result.err.endswith("F1 83.33 (evalb:collins|tags:test|cutoff:40)\n")
        result = zoo("evaluate", "--brackets", "gold", "test", "--parameters", "unlabelled", "--json")
        values = json.loads(result.out)
        assert (values["f1"], values["errors"], len(values["rows"])) == (100, 1, 3)
        write("test", right)
        assert zoo("evaluate", "--brackets", "gold", "test").status == 2


class TestCompare:
    def test_two_files(self, zoo: Zoo) -> None:
        lines = [f"der alte Hund sieht {number} kleine Häuser" for number in range(30)]
        write("test.de", *lines)
        write("good", *lines[:-1], "der Hund")
        write("bad", *[line.replace("alte", "neue") for line in lines])
        result = zoo("compare", "good", "bad", "--references", "test.de")
        assert result.status == 0
        heading, *rows = result.out.splitlines()
        assert heading.split() == ["A", "B", "difference", "p", "better"]
        assert [row.split("  ")[0] for row in rows] == ["BLEU", "paper's BLEU", "chrF", "TER"]
        assert {row.split()[-1] for row in rows} == {"A"}
        values = json.loads(zoo("compare", "good", "good", "--references", "test.de", "--json").out)
        assert {(each["difference"], each["better"], each["p"]) for each in values} == {(0.0, None, 1.0)}

    def test_two_models_need_the_same_test_set(self, zoo: Zoo, trained: Callable[..., Run]) -> None:
        trained("runs/one")
        trained("runs/other", **{"training.seed": 7})
        result = zoo("compare", "one", "runs/other", "--device", "cpu", "--json")
        assert "A is `one`, B is `runs/other`; " in result.err
        assert " sentences of the test set\n" in result.err
        assert "the specs " in result.err
        values = json.loads(result.out)
        assert [each["metric"] for each in values] == ["bleu", "paper_bleu", "chrf", "ter"]
        trained("runs/third", **{"corpus.test": [{"grammar": 4}]})
        result = zoo("compare", "one", "third")
        assert (result.status, "`runs/one`" in result.err, "`runs/third`" in result.err) == (2, True, True)

    def test_a_multilingual_model_has_the_same_set(
        self, zoo: Zoo, trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        trained("runs/one")
        trained("runs/other", **{"training.seed": 7})
        directions: list[Any] = [None, [("en", "de")] * 4]

        def read(*arguments: Any) -> EvaluationSet:
            return read_split(*arguments)._replace(directions=directions.pop())

        monkeypatch.setattr(comparison, "read_split", read)
        result = zoo("compare", "one", "runs/other", "--device", "cpu")
        assert (result.status, "4 sentences of the test set" in result.err) == (0, True), result.err

    def test_a_set_that_is_missing_is_that_of_the_other_model(self, zoo: Zoo, trained: Callable[..., Run]) -> None:
        missing = {"corpus.test": [{"source": "gone.en", "target": "gone.de"}]}
        trained("runs/one")
        trained("runs/gone", **missing)
        for names in (("one", "gone"), ("gone", "one")):
            result = zoo("compare", *names, "--device", "cpu")
            assert (result.status, "4 sentences of the test set" in result.err) == (0, True), result.err
            assert "`[{source: gone.en, target: gone.de}]`" in result.err
            assert "the test set of `runs/gone` is not on this machine: the corpus file `gone.en`" in result.err
        trained("runs/none", **{"corpus.test": []})
        result = zoo("compare", "none", "one", "--device", "cpu")
        assert (result.status, "4 sentences of the test set" in result.err) == (0, True), result.err
        result = zoo("compare", "gone", "gone", "--device", "cpu")
        assert (result.status, "error: the corpus file `gone.en` does not exist" in result.err) == (2, True)

    def test_missing_models_files_and_sets(self, zoo: Zoo, translator: Translator) -> None:
        for arguments in (("a", "b", "--references", "c"), ("a", "b"), ("tiny", "tiny", "--set", "train")):
            result = zoo("compare", *arguments)
            assert (result.status, result.err.startswith("error: ")) == (2, True)
