"""Reference log-probabilities and outputs are stored with a model, checked by `zoo verify`, and refused if invalid."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import specs
import zoo
from specs import BOS, EOS, PAD, ZooError
from zoo.evaluation.outputs import EvaluationSet
from zoo.files import manifest
from zoo.publishing import publish, reference_results
from zoo.publishing.publish import verify
from zoo.publishing.reference_results import OUTPUTS_NAME, is_redistributable
from zoo.training.run import Run

GRAMMAR = {"train": [{"grammar": 40}], "dev": [{"grammar": 4}], "test": [{"grammar": 6}]}
Tensors = dict[str, torch.Tensor]


def read_outputs(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / OUTPUTS_NAME).read_text())
    return values


def edit_outputs(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the reference outputs, and write a manifest with the new hashes."""
    values = read_outputs(folder)
    change(values)
    (folder / OUTPUTS_NAME).write_text(json.dumps(values))
    manifest.write(folder)


def test_outputs_of_the_grammar_are_included_and_reproduced(stored: Callable[..., Path]) -> None:
    folder = stored(corpus=GRAMMAR)
    values = read_outputs(folder)
    assert (values["set"], values["sentences"], values["metric"]) == ("test", 6, "bleu")
    assert len(values["sources"]) == len(values["references"]) == len(values["outputs"]) == 6
    result = verify(folder.name).reference_outputs
    assert result is not None
    # Ties in the beam search may be decided differently on another processor.
    assert result.sentences == 6
    assert result.new_score == pytest.approx(result.published_score, abs=reference_results.SCORE_TOLERANCE)
    assert "decodes 6 of the 6 sentences of the test set" in (folder / "README.md").read_text(encoding="utf-8")
    edit_outputs(folder, lambda outputs: outputs["outputs"].__setitem__(0, "another output"))
    changed = verify(folder.name).reference_outputs
    assert changed is not None
    assert changed.identical <= 5


def test_other_text_is_included_only_on_request(trained: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    run = trained()
    folder = publish.publish(run.folder)
    assert not (folder / OUTPUTS_NAME).exists()
    sources, references = ["the old dog", "two books"], ["x" * 10_001, "zwei Bücher"]
    monkeypatch.setattr(
        reference_results, "read_split", lambda *_: EvaluationSet({"source": sources, "target": references})
    )
    assert publish.publish(run.folder, with_text=True) == folder
    values = read_outputs(folder)
    assert (values["sentences"], values["references"]) == (2, references[1:]), "a line is too long"
    result = verify(folder.name).reference_outputs
    assert result is not None
    assert result.set == "test"


def test_text_of_the_grammar_is_redistributable() -> None:
    def of(**corpus: object) -> bool:
        return is_redistributable(specs.load("tiny", {f"corpus.{key}": value for key, value in corpus.items()}))

    files = {"source": "a.en", "target": "a.de"}
    held_out = [{"held_out": 5}]
    assert of()
    assert not is_redistributable(specs.load("base"))
    assert of(train=[files])
    assert not of(test=[files])
    assert not of(train=[files], dev=held_out)
    assert of(dev=held_out)


def test_invalid_reference_outputs_are_refused(stored: Callable[..., Path]) -> None:
    folder = stored(corpus=GRAMMAR)
    intact = (folder / OUTPUTS_NAME).read_text()
    changes: list[tuple[Callable[[dict[str, Any]], object], str]] = [
        (lambda outputs: outputs.update(score=outputs["score"] + 30), "the model's reference outputs score"),
        (lambda outputs: outputs.update(metric="f1"), "but the task uses `bleu`"),
        (lambda outputs: outputs["references"].pop(), "different lengths"),
        (lambda outputs: outputs.update(sources=[]), "of its values are invalid"),
        (lambda outputs: outputs.update(outputs=[1, 2]), "of its values are invalid"),
        (lambda outputs: outputs.update(score=None), "of its values are invalid"),
    ]
    for change, message in changes:
        (folder / OUTPUTS_NAME).write_text(intact)
        edit_outputs(folder, change)
        with pytest.raises(ZooError, match=message) as raised:
            verify(folder.name)
        assert raised.value.exit_code == 1


def test_a_chosen_backend_reproduces_the_references(stored: Callable[..., Path]) -> None:
    folder = stored(corpus=GRAMMAR)
    verified = verify(folder.name, backend="eager")
    assert verified.backend == "eager"
    assert verified.reference_outputs is not None
    with pytest.raises(ZooError, match="`nope` is not a backend"):
        verify(folder.name, backend="nope")


def empty(tensors: Tensors) -> None:
    for name, tensor in tensors.items():
        tensors[name] = tensor[:0]


def set_source(row: int, column: int | slice, value: int) -> Callable[[Tensors], None]:
    return lambda tensors: tensors["source"].__setitem__((row, column), value)


def set_target(row: int, column: int | slice, value: int) -> Callable[[Tensors], None]:
    return lambda tensors: tensors["target"].__setitem__((row, column), value)


def replace_with(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__setitem__(name, change(tensors[name]))


def enlarge(tensors: Tensors) -> None:
    rows, length = 100, 5_000
    tensors["source"], tensors["target"] = (torch.full((rows, length), 5) for _ in range(2))
    tensors["log_probabilities"] = torch.zeros(rows, length - 1)


DAMAGES = {
    "it is empty": [empty],
    "consists of padding only": [set_source(1, slice(None), PAD), set_target(1, slice(1, None), PAD)],
    "outside the vocabulary": [set_target(0, 1, 101), set_source(0, 0, -1)],
    "wrong types or shapes": [
        replace_with("source", torch.Tensor.float),
        replace_with("log_probabilities", torch.Tensor.flatten),
    ],
    "do not match": [replace_with("source", lambda source: source[:1])],
    "not finite": [replace_with("log_probabilities", lambda values: values / 0)],
    "too large": [enlarge, replace_with("source", lambda source: torch.full((len(source), 20_000), 5))],
    "wrong tensors": [lambda tensors: tensors.pop("source")],
}


def test_invalid_reference_log_probabilities_are_refused(tmp_path: Path) -> None:
    spec = zoo.spec("tiny", {"vocabulary": {"size": 101}})
    file = tmp_path / "proof.safetensors"
    for message, damages in DAMAGES.items():
        for damage in damages:
            rows = {"source": [[5, 6, EOS], [7, EOS, PAD]], "target": [[BOS, 5, EOS], [BOS, EOS, PAD]]}
            tensors = {name: torch.tensor(row) for name, row in rows.items()}
            tensors["log_probabilities"] = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
            save_file(tensors, file)
            assert reference_results.read(file, spec).source.tolist() == rows["source"]
            damage(tensors)
            save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
            with pytest.raises(ZooError, match=f"not a valid file of reference log-probabilities: .*{message}"):
                reference_results.read(file, spec)
    with file.open("ab") as stream:
        stream.truncate(70_000_000)
    with pytest.raises(ZooError, match="it has 70 MB; the limit is 64 MB"):
        reference_results.read(file, spec)
