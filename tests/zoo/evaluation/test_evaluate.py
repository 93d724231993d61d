"""Scores of translators and parsers, of models on their own sets, and the saved outputs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import zoo
from tests.examples import changed
from tests.refusals import refused
from zoo.data.prepare import prepare
from zoo.evaluation.evaluate import evaluate_models, read_split
from zoo.evaluation.metrics import Scores, compute_scores, perplexity, summary_line, table_rows
from zoo.evaluation.outputs import EvaluationSet, ModelOutputs, SavedOutput, load_outputs
from zoo.evaluation.text_metrics import text_metric
from zoo.files import storage
from zoo.files.reading import read_json
from zoo.generation import confidence
from zoo.generation.scoring import TokenScores
from zoo.publishing.publish import publish, verify
from zoo.report import Report
from zoo.system.processors import device_name
from zoo.training.run import Run


def scores_of(translator: Any, references: list[str] | None = None, **options: Any) -> Scores:
    streams = {"source": translator.sources, "target": references or translator.references}
    outputs = ModelOutputs(translator, EvaluationSet(streams, [translator.spec.default_direction] * 2), **options)
    return compute_scores(outputs, translator.spec)


def test_scores_equal_the_metrics_of_outputs_and_references(parrot):
    translator = parrot("translation")
    scores = scores_of(translator, beam=2, max_batch_tokens=100)
    names = "bleu signature paper_bleu paper_bleu_signature chrf chrf_signature ter ter_signature perplexity"
    assert list(scores) == [*names.split(), "sentences", "seconds", "sentences_per_second"]
    expected = text_metric("bleu")
    assert scores["bleu"] == expected.score(list(translator.known.values()), translator.references)
    assert scores["signature"] == expected.signature()
    assert scores["perplexity"] == pytest.approx(2.0)
    assert scores["sentences"] == 2
    assert scores["sentences_per_second"] == pytest.approx(2 / scores["seconds"])
    options = {"source": "en", "target": "de", "split": False, "protect": False, "beam": 2, "max_batch_tokens": 100}
    assert translator.asked == [("outputs", options), ("scores", 100)]


def test_f1_counts_invalid_trees_as_errors(parrot):
    parser = parrot("parsing")

    def scored(output):
        parser.known = {**parser.known, "a cat sleeps": output}
        return scores_of(parser)

    right, broken, none = scored(parser.references[1]), scored("(TOP (S (NP"), scored("")
    names = "f1 recall precision complete_match signature perplexity sentences seconds sentences_per_second"
    assert list(right) == names.split()
    assert right["complete_match"] == 50
    assert right["f1"] == pytest.approx(2 / (1 / right["precision"] + 1 / right["recall"]))
    assert right["recall"] == pytest.approx(600 / 7), "S, NP, VP twice and an NP that it does not find"
    assert right["precision"] == 100
    assert broken["f1"] == none["f1"] < right["f1"]


def test_scores_are_formatted_for_people(parrot):
    scores = {"bleu": 93.758, "signature": "nrefs:1", "perplexity": 1.1504, "sentences": 1000, "seconds": 0.74}
    assert summary_line(scores) == "BLEU 93.76, perplexity 1.150 per token"
    perplexity_and_sentences = [("perplexity", "1.150 per token"), ("sentences", "1,000 in 0.7 s")]
    assert list(table_rows(scores)) == [("BLEU", "93.76"), *perplexity_and_sentences, ("signature", "nrefs:1")]
    signatures = {"paper_bleu_signature": "nrefs:2", "chrf_signature": "nrefs:3"}
    longer = scores | {"paper_bleu": 94.125, "chrf": 97.0} | signatures
    assert summary_line(longer) == summary_line(scores), "one line has room for the first alone"
    assert list(table_rows(longer)) == [
        ("BLEU", "93.76"),
        ("paper's BLEU", "94.12"),
        ("chrF", "97.00"),
        *perplexity_and_sentences,
        ("signature, BLEU", "nrefs:1"),
        ("signature, paper's BLEU", "nrefs:2"),
        ("signature, chrF", "nrefs:3"),
    ]
    parser = parrot("parsing")
    scores = scores_of(parser)
    assert summary_line(scores) == f"F1 {scores['f1']:.2f}, perplexity 2.000 per token"
    named = ["F1", "recall", "precision", "complete match", "perplexity", "sentences", "signature"]
    assert [title for title, _ in table_rows(scores)] == named


def test_infinite_scores_are_null_in_json(parrot):
    translator = parrot("translation")
    translator.score_tokens = lambda *_, **__: [TokenScores((-math.inf,))] * 2
    scores = scores_of(translator)
    assert scores["perplexity"] is None
    assert json.loads(json.dumps(scores, allow_nan=False)) == scores
    assert "perplexity -" in summary_line(scores)


def test_perplexity_is_per_token_over_all_sentences():
    scores = [TokenScores((-1.0, -2.0, -3.0)), TokenScores((-4.0,))]
    assert perplexity(scores) == pytest.approx(math.exp(10 / 4))  # not the mean of the sentences' own
    assert perplexity([TokenScores((-math.inf,))]) == perplexity([TokenScores((-5000.0,))]) == math.inf
    refused("no sentences to score", perplexity, [])


PART = [{"source": "pairs.en", "target": "pairs.de"}]


def test_model_scores_and_outputs_are_correct_and_saved(trained: Callable[..., Run]) -> None:
    run = trained()
    scores = evaluate_models([run.folder], "test", device="cpu")
    texts = read_split(run.spec, "test", Report())
    outputs = ModelOutputs(zoo.load(str(run.folder), device="cpu"), texts)
    expected = compute_scores(outputs, run.spec)
    same = ("bleu", "signature", "perplexity", "sentences")
    assert [scores[name] for name in same] == [expected[name] for name in same]
    assert scores["sentences"] == 4
    backend = run.spec.compilation.backend.replace("auto", "native")
    assert scores["machine"] == f"{device_name('cpu')}, {backend}, float32"
    saved = read_json(run.scores)
    assert saved["test"] == scores
    assert saved["dev"]["bleu"] == 12.345
    lines = load_outputs(run.answers("test"))
    assert [line.output for line in lines] == outputs.texts
    for line, score in zip(lines, outputs.reference_scores, strict=True):
        assert (line.log_probability, line.tokens) == (pytest.approx(score.log_probability), score.tokens)
    assert not run.foreign_files()


def test_the_dev_set_calibrates_the_confidence(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained()
    assert "confidence" not in evaluate_models([run.folder], "dev", device="cpu"), "there are too few sentences"
    monkeypatch.setattr(confidence, "_MIN_SENTENCES", 2)
    fitted = evaluate_models([run.folder], "dev", device="cpu")
    assert read_json(run.scores)["dev"] == fitted
    translator = zoo.load(str(run.folder), device="cpu")
    assert translator.calibration == confidence.Calibration(**fitted["confidence"])
    texts = read_split(run.spec, "test", Report())
    test = evaluate_models([run.folder], "test", device="cpu")
    outputs = ModelOutputs(translator, texts)
    chrf = text_metric("chrf")
    pairs = zip(outputs.texts, texts.references, strict=True)
    good = [chrf.score([text], [reference]) >= 50 for text, reference in pairs]
    error = confidence.calibration_error([best.confidence for best in outputs.translations], good)
    assert test["calibration_error"] == pytest.approx(error, abs=1e-3)
    assert "confidence" not in test
    rows = dict(table_rows(test))
    assert rows["calibration error of the confidence"] == f"{test['calibration_error']:.3f}"
    bundle = publish(run.folder)
    card = (bundle / "README.md").read_text(encoding="utf-8")
    assert f"the calibration error is {test['calibration_error']:.3f}" in card
    evaluate_models([bundle], "test", device="cpu")
    verify(bundle.name)  # evaluation does not change a bundle


def test_a_set_of_files_needs_no_training_text(trained: Callable[..., Run]) -> None:
    missing = [{"source": "gone.en", "target": "gone.de"}]
    spec = trained(corpus={"train": missing, "dev": PART, "test": PART}).spec
    texts = read_split(spec, "dev", Report())
    assert texts.sources[1] == "we read two books today"
    assert texts.references[1] == "heute lesen wir zwei Bücher"
    assert not storage.prepared().exists()


def test_a_held_out_set_is_that_of_training(trained: Callable[..., Run]) -> None:
    spec = trained(corpus={"train": PART, "dev": [{"held_out": 1}], "test": PART}, vocabulary={"size": 90}).spec
    texts = read_split(spec, "dev", Report())
    (source,), (reference,) = texts.sources, texts.references
    prepared = prepare(spec, Report())
    train, decode = prepared.store("train"), prepared.vocabulary.decode
    trained_on = {decode(train.row("source", index).tolist(), "source") for index in range(len(train))}
    sources, references = (Path(f"pairs.{language}").read_text("utf-8").splitlines() for language in ("en", "de"))
    assert trained_on == {*sources} - {source}
    assert reference == references[sources.index(source)]


def test_a_missing_set_is_an_error(trained: Callable[..., Run]) -> None:
    run = trained()
    for sets, has_dev in (({"test": ()}, True), ({"test": (), "dev": ()}, False)):
        error = refused("has no test set", read_split, changed(run.spec, "corpus", **sets), "test", Report())
        assert ("`--set dev`" in error.hint) is has_dev
        assert ("--set" in error.hint) is has_dev


@pytest.mark.parametrize("line", [
    *('{"output": "x"', "[]", "1"),
    '{"output": 1, "log_probability": -1.0, "tokens": 2}',
    '{"output": "x", "log_probability": -1.0, "tokens": 0}',
    '{"output": "x", "log_probability": -1.0, "tokens": 1.0}',
    '{"output": "x", "log_probability": "y", "tokens": 1}',
    '{"output": "x", "log_probability": -1.0}',
])  # fmt: skip
def test_a_damaged_line_is_an_error(tmp_path: Path, line: str) -> None:
    file = tmp_path / "answers.dev.jsonl"
    valid = '{"output": "x", "log_probability": -1.0, "tokens": 2}\n'
    file.write_text(valid)
    assert load_outputs(file) == [SavedOutput("x", -1.0, 2)]
    file.write_text(f"{valid}{line}\n")
    assert refused("is damaged", load_outputs, file).exit_code == 1
