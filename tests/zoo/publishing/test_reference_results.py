"""Reference log-probabilities are stored with a model, checked by `zoo verify`, and refused if invalid."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save_file

import zoo
from specs import BOS, EOS, PAD
from tests.refusals import refused
from zoo.publishing import reference_results

Tensors = dict[str, torch.Tensor]


def empty(tensors: Tensors) -> None:
    for name, tensor in tensors.items():
        tensors[name] = tensor[:0]


def set_values(name: str, row: int, column: int | slice, value: int) -> Callable[[Tensors], None]:
    return lambda tensors: tensors[name].__setitem__((row, column), value)


def replace_with(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Tensors], None]:
    return lambda tensors: tensors.__setitem__(name, change(tensors[name]))


def enlarge(tensors: Tensors) -> None:
    rows, length = 100, 5_000
    tensors["source"], tensors["target"] = (torch.full((rows, length), 5) for _ in range(2))
    tensors["log_probabilities"] = torch.zeros(rows, length - 1)


DAMAGES = {
    "it is empty": [empty],
    "consists of padding only": [
        set_values("source", 1, slice(None), PAD),
        set_values("target", 1, slice(1, None), PAD),
    ],
    "outside the vocabulary": [set_values("target", 0, 1, 101), set_values("source", 0, 0, -1)],
    "wrong types or shapes": [
        replace_with("source", torch.Tensor.float),
        replace_with("log_probabilities", torch.Tensor.flatten),
        lambda tensors: tensors.pop("source"),
    ],
    "do not match": [replace_with("source", lambda source: source[:1])],
    "not finite": [replace_with("log_probabilities", lambda values: values / 0)],
    "too large": [enlarge, replace_with("source", lambda source: torch.full((len(source), 20_000), 5))],
    "wrong tensors": [lambda tensors: tensors.pop("target")],
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
            refused(f"not a valid file of reference log-probabilities: .*{message}", reference_results.read, file, spec)
    with file.open("ab") as stream:
        stream.truncate(70_000_000)
    refused("it is 70 MB, but the limit is 64 MB", reference_results.read, file, spec)
    file.write_bytes((10_000_001).to_bytes(8, "little"))
    refused("proof.safetensors` is damaged: its header is 10 MB", reference_results.read, file, spec)


def test_flat_reference_log_probabilities_of_a_language_model_are_refused(tmp_path: Path) -> None:
    fields = {"task.kind": "language_modelling", "architecture.encoder": [], "corpus.source": "de"}
    spec = zoo.spec("tiny", {**fields, "architecture.decoder": [{"kind": "self_attention"}]})
    file = tmp_path / "proof.safetensors"
    save_file({"target": torch.tensor([BOS, 5, EOS]), "log_probabilities": torch.zeros(2)}, file)
    refused("wrong types or shapes", reference_results.read, file, spec)
