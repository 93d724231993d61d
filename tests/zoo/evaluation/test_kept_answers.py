"""What a run said is kept as it was, and read as no more than it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specs import ZooError
from zoo.evaluation.evaluate import evaluate_model
from zoo.evaluation.metrics import perplexity
from zoo.evaluation.outputs import load_outputs
from zoo.generation.loading import open_model
from zoo.report import Report
from zoo.training.run import Run


def test_they_are_what_the_scores_were_made_of(trained: Callable[..., Run]) -> None:
    run = trained()
    evaluate_model(run.folder, "test", device="cpu")
    answers = load_outputs(run.answers("test"))
    translator = open_model(run.folder, device="cpu")
    sources = Path("pairs.en").read_text().splitlines()
    wanted = translator.hypotheses(sources, report=Report())
    assert [each.output for each in answers] == [best.text for best, *_ in wanted]
    tokens = sum(each.tokens for each in answers)
    found = -sum(each.log_probability for each in answers) / tokens
    forced = translator.score_tokens(sources, Path("pairs.de").read_text().splitlines(), report=Report())
    assert tokens == sum(each.tokens for each in forced)
    assert 2.718281828459045**found == pytest.approx(perplexity(forced))
    assert not run.foreign_files()


def test_approximate_ones_are_not_kept(trained: Callable[..., Run]) -> None:
    run = trained()
    evaluate_model(run.folder, "test", device="cpu", precision="bfloat16")
    assert not run.answers("test").exists()


@pytest.mark.parametrize(
    "line",
    [
        *('{"output": "x"', "[]", "1", '{"output": 1, "log_probability": -1.0, "tokens": 2}'),
        *(
            '{"output": "x", "log_probability": -1.0, "tokens": 0}',
            '{"output": "x", "log_probability": "y", "tokens": 1}',
        ),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "answers.dev.jsonl"
    file.write_text(f'{{"output": "x", "log_probability": -1.0, "tokens": 2}}\n{line}\n')
    with pytest.raises(ZooError, match="is damaged") as caught:
        load_outputs(file)
    assert caught.value.exit_code == 1
