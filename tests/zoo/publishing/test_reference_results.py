"""Reference log-probabilities are stored with a model, checked by `zoo verify`, and refused if invalid."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file

import zoo
from specs import BOS, EOS, PAD
from tests.refusals import refused
from zoo.publishing import reference_results

SOURCE = torch.tensor([[5, 6, EOS], [7, EOS, PAD]])
TARGET = torch.tensor([[BOS, 5, EOS], [BOS, EOS, PAD]])
SCORES = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
VALID = {"source": SOURCE, "target": TARGET, "log_probabilities": SCORES}
MANY = torch.full((100, 5_000), 5)
DAMAGES: tuple[tuple[str, dict[str, torch.Tensor | None]], ...] = (
    ("it is empty", {name: tensor[:0] for name, tensor in VALID.items()}),
    ("consists of padding only", {"source": torch.tensor([[5, 6, EOS], [PAD, PAD, PAD]])}),
    ("consists of padding only", {"target": torch.tensor([[BOS, 5, EOS], [BOS, PAD, PAD]])}),
    ("outside the vocabulary", {"target": torch.tensor([[BOS, 101, EOS], [BOS, EOS, PAD]])}),
    ("outside the vocabulary", {"source": torch.tensor([[-1, 6, EOS], [7, EOS, PAD]])}),
    ("wrong types or shapes", {"source": SOURCE.float()}),
    ("wrong types or shapes", {"log_probabilities": SCORES.flatten()}),
    ("wrong types or shapes", {"source": None}),
    ("do not match", {"source": SOURCE[:1]}),
    ("not finite", {"log_probabilities": SCORES / 0}),
    ("too large", {"source": MANY, "target": MANY.clone(), "log_probabilities": torch.zeros(100, 4_999)}),
    ("too large", {"source": torch.full((2, 20_000), 5)}),
    ("wrong tensors", {"target": None}),
)
"""Words of the error, and tensors that replace the valid ones. If a tensor is None, the file lacks it."""


def test_invalid_reference_log_probabilities_are_refused(tmp_path: Path) -> None:
    spec = zoo.spec("tiny", {"vocabulary": {"size": 101}})
    file = tmp_path / "proof.safetensors"
    save_file(VALID, file)
    assert reference_results.read(file, spec).source.tolist() == SOURCE.tolist()
    for message, changes in DAMAGES:
        save_file({name: tensor for name, tensor in {**VALID, **changes}.items() if tensor is not None}, file)
        refused(f"not a valid file of reference log-probabilities: .*{message}", reference_results.read, file, spec)
    with file.open("ab") as stream:
        stream.truncate(70_000_000)
    refused("it is 70 MB, but a file of this kind is at most 64 MB", reference_results.read, file, spec)
    file.write_bytes((10_000_001).to_bytes(8, "little"))
    refused("proof.safetensors` is damaged: its header is 10 MB", reference_results.read, file, spec)


def test_flat_reference_log_probabilities_of_a_language_model_are_refused(tmp_path: Path) -> None:
    fields = {"task.kind": "language_modelling", "architecture.encoder": [], "corpus.source": "de"}
    spec = zoo.spec("tiny", {**fields, "architecture.decoder": [{"kind": "self_attention"}]})
    file = tmp_path / "proof.safetensors"
    save_file({"target": torch.tensor([BOS, 5, EOS]), "log_probabilities": torch.zeros(2)}, file)
    refused("wrong types or shapes", reference_results.read, file, spec)
