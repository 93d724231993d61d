"""An update on packed rows has the loss and the gradients of padded batches, has few kernels, and waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from compiler import EmittedProgram, Purpose, build_module, cuda, update_refusal
from compiler.backends.eager import Functions, program
from compiler.emission import emit
from compiler.update import GradientProgram, PackedRows
from specs import BOS, EOS, PAD, Spec
from tests import examples
from tests.compiler.conftest import requested
from tests.compiler.fake_gpu import DEVICE, fake_gpu
from tests.compiler.kernels_in_pytorch import keep_mask, kernels_in_pytorch
from tests.compiler.test_conformance import ARCHITECTURES
from tests.examples import small
from zoo.data.batches import Batch

PACKABLE = ("shallow", "post", "pre", "unscaled", "gelu", "student")
"""Architectures whose layers are attention, SSRU and feed-forward networks without biases of attention scores."""
Updating = Callable[[Spec], EmittedProgram]
REFUSED = {"additive": "additive scores", "t5": "biases", "alibi": "biases", "ssru": "Ssru", "mixture": "TopKGates"}
REFUSED |= {
    "restricted": "RestrictedAttention",
    "lstm": "Lstm",
    "patches": "the model's source is not text",
    "speech": "the model's source is not text",
}


def batch(seed: int = 1, sentences: int = 7) -> Batch:
    generator = np.random.default_rng(seed)
    lengths = generator.integers(0, 15, (2, sentences))
    return examples.rows(*([generator.integers(4, 101, n).tolist() for n in side] for side in lengths)).to_batch()


def fill(rows: PackedRows, given: Batch, seed: int = 5) -> None:
    rows.buffer.copy_(rows.host(given.source, given.target, seed=seed, rate=0.1, tokens=3.0))


@pytest.fixture
def updating() -> Iterator[Updating]:
    """A function that returns a program, whose updates compute in PyTorch what kernels compute on a GPU."""
    with kernels_in_pytorch():
        yield lambda spec: build_module(spec, (Purpose.TRAIN, Purpose.UPDATE)).train()


@pytest.mark.parametrize("name", PACKABLE)
def test_packed_rows_have_the_loss_and_the_gradients_of_padded_batches(name: str, updating: Updating) -> None:
    made = updating(small(**{**ARCHITECTURES[name], "dropout": 0.0}))
    rows, given = PackedRows(128, 120, "cpu"), batch()
    gradients = GradientProgram(made, rows, bfloat16=False)
    fill(rows, given)
    gradients.compute()
    packed, losses = gradients.gradient.clone(), gradients.losses.clone()
    made.zero_grad()
    loss = made(given.source, given.target.values)
    loss.smoothed.backward()
    padded = torch.cat([parameter.grad.flatten() for parameter in made.parameters() if parameter.grad is not None])
    torch.testing.assert_close(losses, torch.stack([loss.smoothed.detach(), loss.plain.detach()]))
    torch.testing.assert_close(packed, padded, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_models_without_kernels_are_refused(name: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("compiler.backends.eager"), "find_spec", lambda _: True)
    assert reason in str(update_refusal(small(**ARCHITECTURES[name])))
    assert update_refusal(small()) is None


def test_dropout_depends_on_seed_layer_and_element_alone() -> None:
    seed, shape = torch.tensor(2**62 + 12345), torch.Size((400, 500))
    mask = keep_mask(seed, 7, shape, 0.3)
    assert 0.69 < float(mask.float().mean()) < 0.71
    assert torch.equal(mask[:3], keep_mask(seed, 7, torch.Size((3, 500)), 0.3))
    neighbours = mask.roll(1, dims=1)
    for other in (keep_mask(seed + 1, 7, shape, 0.3), keep_mask(seed, 8, shape, 0.3), neighbours):
        assert 0.56 < float((mask == other).float().mean()) < 0.60  # 0.7² + 0.3², as if independent


@pytest.mark.parametrize("bfloat16", [False, True])
def test_a_step_repeats_bitwise_with_its_seed_and_differs_with_another(bfloat16: bool, updating: Updating) -> None:
    made, rows = updating(small(dropout=0.1)), PackedRows(128, 128, "cpu")
    gradients, found = GradientProgram(made, rows, bfloat16=bfloat16), []
    for seed in (5, 6, 5):
        fill(rows, batch(), seed)
        gradients.compute()
        found.append(gradients.gradient.clone())
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])


def test_parts_of_a_batch_add_up_to_the_batch(updating: Updating) -> None:
    made, given = updating(small(dropout=0.0)), batch(sentences=12)
    whole, parts = (GradientProgram(made, PackedRows(n, n, "cpu"), bfloat16=False) for n in (200, 60))
    fill(whole.rows, given)
    whole.compute()
    split = given.split_packed({"source": 60, "target": 60})
    assert len(split) > 1
    for number, part in enumerate(split):
        fill(parts.rows, part)
        (parts.accumulate if number else parts.compute)()
    torch.testing.assert_close(parts.losses, whole.losses)
    torch.testing.assert_close(parts.gradient, whole.gradient, rtol=1e-3, atol=1e-4)


def test_packed_rows_contain_all_tokens_and_the_spans_of_their_sentences() -> None:
    rows, given = PackedRows(20, 16, "cpu"), examples.rows([[7, 8], []], [[9], [10, 11]]).to_batch()
    fill(rows, given, seed=2**63 - 1)
    inputs = {name: value.tolist() for name, value in rows.inputs.items()}
    assert inputs["seed"] == 2**63 - 1
    assert (float(rows.rate), float(rows.tokens)) == (pytest.approx(0.1), 3.0)
    assert inputs["source"][0] == [7, 8, EOS, EOS] + [PAD] * 16
    assert inputs["target"][0] == [BOS, 9, BOS, 10, 11] + [PAD] * 11
    assert inputs["labels"][0] == [9, EOS, 10, 11, EOS] + [PAD] * 11
    assert inputs["source_position"][0][:4] == [0, 1, 2, 0]
    assert [row[:4] for row in inputs["source_spans"]] == [[0, 0, 0, 3], [3, 3, 3, 4]]
    assert [row[:4] for row in inputs["reader_spans"]] == [[0, 0, 0, 2], [2, 2, 2, 5]]
    assert [row[:6] for row in inputs["memory_spans"]] == [[0, 0, 3, 3, 3, 0], [3, 3, 4, 4, 4, 0]]
    with pytest.raises(ValueError, match="does not fit into rows of 3 and 16"):
        fill(PackedRows(3, 16, "cpu"), given)


def test_an_update_on_a_gpu_waits_for_nothing() -> None:
    """In this test, each function of `compiler.cuda` computes one operation, in place of its kernels."""
    kernels: dict[str, dict[str, Callable[..., Tensor]]] = {
        "norms": {
            "residual_norm": _add_one,
            "seeded_dropout": _add_one,
            "linear_relu": lambda x, matrix, _: x @ matrix,
        },
        "attention": {"packed_attention": lambda x, *others: x[..., : others[3].count * others[3].d_v] + 1},
        "losses": {"whole_loss": lambda x, table, *_: (x @ table.T).sum((0, 1))[:2]},
    }
    request = requested(small(), (Purpose.TRAIN, Purpose.UPDATE), "cuda:0")
    modules = {name: SimpleNamespace(**each) for name, each in kernels.items()}
    with mock.patch.dict(vars(cuda), modules), fake_gpu() as gpu, torch.no_grad():
        made, rows = program(request, Functions(emit(request.graphs.values()))).train(), PackedRows(64, 64, DEVICE)
        made.run(Purpose.UPDATE, **rows.inputs)  # makes the table of sinusoids
        with mock.patch.object(gpu, "capturing", True):
            loss = made.run(Purpose.UPDATE, **rows.inputs)["loss"]
        assert (type(loss), loss.device) == (FakeTensor, DEVICE)


def _add_one(x: Tensor, *_: object) -> Tensor:
    return x + 1
