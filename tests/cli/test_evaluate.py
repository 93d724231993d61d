"""`zoo score`, `zoo evaluate` and `zoo compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Trained, Zoo, missing
from zoo.generation.translator import Translator


def write(file: str, *lines: str) -> None:
    Path(file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


SCORE_FILES = "score", "--model", "tiny", "--source", "a", "--target", "b"


def test_stdin_files_and_json_give_the_same_scores(zoo: Zoo, translator: Translator) -> None:
    sources, targets = ["we read", "", "the cat"], ["wir lesen", "die Katze", ""]
    stdin = "".join(f"{source}\t{target}\n" for source, target in zip(sources, targets, strict=True))
    result = zoo("score", "--model", "tiny", stdin=stdin)
    assert list(map(float, result.out.split())) == pytest.approx(translator.score(sources, targets), abs=1e-5)
    write("a", *sources)
    write("b", *targets)
    assert zoo(*SCORE_FILES, "--output", "c").status == 0
    assert Path("c").read_text() == result.out
    values = json.loads(zoo("score", "--model", "tiny", "--json", stdin="we read\twir lesen\n").out)
    (forced,) = translator.score_tokens(["we read"], ["wir lesen"])
    assert values["tokens"] == forced.tokens == len(values["token_log_probabilities"])
    assert sum(values["token_log_probabilities"]) == pytest.approx(values["log_probability"])


def test_lines_need_one_tab(zoo: Zoo, translator: Translator) -> None:
    good = "we read\twir lesen\n"
    scores = zoo("score", "--model", "tiny", stdin=good).out
    for line, tabs in (("we read", 0), ("a\tb\tc", 2)):
        result = zoo("score", "--model", "tiny", stdin=f"{good}{line}\n")
        assert (result.status, result.out) == (2, scores), "earlier lines are scored"
        assert result.err.startswith(f"error: the line must have one tab, not {tabs} (<stdin>:2)")


@pytest.mark.parametrize("chunk", [2, 4096])
def test_an_invalid_pair_is_located_after_the_scores_before_it(
    zoo: Zoo, translator: Translator, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr("cli.score._MAX_SCORED_LINES", chunk)
    good, long = "we read\twir lesen\n", "x" * 100_001
    scores = zoo("score", "--model", "tiny", stdin=good * 4).out
    result = zoo("score", "--model", "tiny", stdin=f"{good * 4}we\t{long}\n{good}")
    assert (result.status, "(<stdin>:5)" in result.err, result.out) == (2, True, scores)
    write("a", *["we read"] * 5)
    write("b", *["wir lesen"] * 4, long)
    result = zoo(*SCORE_FILES)
    assert ("(a:5, b:5)" in result.err, result.out) == (True, scores)
    assert "a:1" not in zoo(*SCORE_FILES, "--to", "it").refusal


def test_files_need_the_same_length(zoo: Zoo, translator: Translator) -> None:
    for longer, shorter in (("a", "b"), ("b", "a")):
        write(longer, "we", "read")
        write(shorter, "we")
        result = zoo(*SCORE_FILES)
        assert (result.status, f"`{shorter}` ends before line 2, but `{longer}` does not" in result.err) == (2, True)


def test_a_model_gets_all_scores_with_signatures(zoo: Zoo, translator: Translator) -> None:
    text = zoo("evaluate", "--model", "tiny", "--set", "dev", "--device", "cpu").printed
    names = [line.split("  ")[0] for line in text.splitlines()]
    assert names[:6] == ["BLEU", "paper's BLEU", "chrF", "TER", "perplexity", "sentences"]
    values = json.loads(zoo("evaluate", "--model", "runs/tiny", "--json").out)
    assert (values["sentences"], values["signature"].partition("|")[0]) == (4, "nrefs:1")
    assert f"{values['bleu']:.2f}" in text
    listed = json.loads(zoo("list", "runs/tiny", "--json").out)["runs"][0]
    assert (listed["metric"], listed["test"]) == ("bleu", values["bleu"])


def test_two_files_are_scored(zoo: Zoo) -> None:
    write("a", "Der alte Hund sieht ein kleines Haus")
    write("b", "der alte Hund sieht ein kleines Haus")
    files = ("evaluate", "--hypotheses", "a", "--references", "b")
    result = zoo(*files)
    assert float(result.out.split()[1]) < 100
    assert "paper's" not in result.out
    assert "moses-de" in zoo(*files, "--language", "de").out
    values = zoo(*files, "--lowercase", "--tokenize", "none", "--json").out
    assert json.loads(values)["bleu"] == pytest.approx(100)
    assert not missing(values, "case:lc", "tok:none")
    result = zoo(*files, "--transcripts")
    assert float(result.out.split()[1]) == pytest.approx(100 / 7, abs=0.01)
    assert "version:jiwer-" in result.out
    refused = (*files, "--tokenize", "foo"), (*files, "--transcripts", "--tokenize", "none")
    for command in (*refused, ("evaluate", "--model", "tiny", "--transcripts")):
        assert zoo(*command).status == 2


def test_trees_are_scored_as_evalb_does(zoo: Zoo) -> None:
    right = "(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"
    write("gold", *[f"(TOP {right})"] * 4)
    write("test", right, right.replace("NP", "PP"), "", right.replace("the", "a"))
    result = zoo("evaluate", "--brackets", "gold", "test")
    lines = [line.rsplit(maxsplit=1) for line in result.printed.splitlines()]
    assert lines[:4] == [["F1", "83.33"], ["recall", "83.33"], ["precision", "83.33"], ["complete match", "50.00"]]
    assert ["tagging accuracy", "100.00"] in lines
    assert lines[-1] == ["signature", "evalb:collins|tags:test"]
    assert not missing(
        result.err, "2 of 4 sentences have errors or no words", "the first is sentence 3: the tree has no"
    )
    values = json.loads(zoo("evaluate", "--brackets", "gold", "test", "--json").out)
    assert (values["errors"], [row["matched"] for row in values["rows"]]) == (1, [3, 2, 0, 0])
    write("test", right)
    assert zoo("evaluate", "--brackets", "gold", "test").status == 2


def test_two_files_are_compared(zoo: Zoo) -> None:
    lines = [f"der alte Hund sieht {number} kleine Häuser" for number in range(30)]
    write("test.de", *lines)
    write("good", *lines[:-1], "der Hund")
    write("bad", *[line.replace("alte", "neue") for line in lines])
    heading, *rows = zoo("compare", "good", "bad", "--references", "test.de").printed.splitlines()
    assert heading.split() == ["A", "B", "difference", "p", "better"]
    assert [row.split("  ")[0] for row in rows] == ["BLEU", "paper's BLEU", "chrF", "TER"]
    assert {row.split()[-1] for row in rows} == {"A"}
    values = json.loads(zoo("compare", "good", "good", "--references", "test.de", "--json").out)
    assert {(each["difference"], each["better"], each["p"]) for each in values} == {(0.0, None, 1.0)}
    write("short", "er singt")
    assert "BLEU compares sequences of up to four" in zoo("compare", "short", "short", "--references", "short").err


def test_two_models_need_the_same_test_set(zoo: Zoo, trained: Trained) -> None:
    trained("runs/one")
    trained("runs/my other", **{"training.seed": 7})
    result = zoo("compare", "one", "my other", "--device", "cpu", "--json")
    assert not missing(result.err, "A is `one`, B is `my other`; ", " sentences in the test set\n", "the specs ")
    assert [each["metric"] for each in json.loads(result.out)] == ["bleu", "paper_bleu", "chrf", "ter"]
    trained("runs/third", **{"corpus.test": [{"grammar": 4}]})
    assert not missing(zoo("compare", "one", "third").refusal, "`runs/one`", "`runs/third`")


def test_a_set_that_is_missing_is_that_of_the_other_model(zoo: Zoo, trained: Trained) -> None:
    trained("runs/one")
    trained("runs/none", **{"corpus.test": []})
    trained("runs/gone", **{"corpus.test": [{"source": "gone.en", "target": "gone.de"}]})
    explained = "`[{source: gone.en, target: gone.de}]`", "`runs/gone` is not on this machine: the corpus file `gone.en"
    for names, messages in ((("one", "gone"), explained), (("gone", "one"), explained), (("none", "one"), ())):
        result = zoo("compare", *names, "--device", "cpu")
        assert (result.status, missing(result.err, "4 sentences in the test set", *messages)) == (0, [])
    assert "error: the corpus file `gone.en` does not exist" in zoo("compare", "gone", "gone").refusal
