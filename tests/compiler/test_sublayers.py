"""Sub-layers of all kinds: formulas against plain torch, and that none looks ahead or at padding."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from compiler import TRANSLATE, Purpose, build, build_module, cost, graphs
from compiler.backends import BACKENDS
from compiler.costs import sublayer_stack
from compiler.decoder import CACHE_BLOCK
from compiler.padded_batch import PaddedBatch
from compiler.runtime.attention import restricted_attention
from compiler.runtime.layers import ssru, ssru_step
from specs import RestrictedAttention, Spec
from tests.compiler.test_conformance import FEED_FORWARD, SUBLAYERS
from tests.compiler.test_cost import count_flops, runs
from tests.examples import small
from tests.refusals import refused

KINDS: dict[str, dict[str, object]] = {"full": {"kind": "self_attention"}, **SUBLAYERS}
KINDS["contiguous"] = {"kind": "convolution", "kernel": 3, "dilated": False}
KINDS["mixture"] = {"kind": "mixture_of_experts", "experts": 2, "top_k": 2}  # every expert learns from any sentence
every_kind = pytest.mark.parametrize("of", KINDS.values(), ids=KINDS)


def test_ssru_keeps_small_contributions_in_bfloat16() -> None:
    """A gate close to 1 rounds to 1 in bfloat16, which would ignore the input."""
    gate, value = (torch.full((1, 8, 2), number, dtype=torch.bfloat16) for number in (7.0, 1.0))
    at_once, state = ssru(gate, value), torch.zeros(1, 1, 2, dtype=torch.bfloat16)
    assert at_once[0, -1, 0].item() == pytest.approx(1 - torch.tensor(7.0).sigmoid().item() ** 8, rel=1e-2)
    torch.testing.assert_close(ssru_step(gate, value, state)[:, 1:], at_once, rtol=0, atol=0)
    for expected in at_once.split(1, 1):
        state = ssru_step(gate[:, :1], value[:, :1], state)[:, 1:]
        torch.testing.assert_close(state, expected, rtol=3e-2, atol=0)


def layers(of: dict[str, object], **architecture: object) -> Spec:
    """Return a small spec with a sub-layer of this kind instead of self-attention."""
    decoder = [of, {"kind": "cross_attention"}, FEED_FORWARD]
    return small(**{"encoder": [of, FEED_FORWARD], "decoder": decoder, "dropout": 0.0, **architecture})


WINDOWS = ((1, 3, 4), (7, 2, 4), (5, 4096, 4096), (32, 4, 16), (33, 20, 20))


@pytest.mark.parametrize(("length", "radius", "block"), WINDOWS)
@pytest.mark.parametrize("after", [False, True])
def test_restricted_attention_has_a_band_mask(length: int, radius: int, block: int, after: bool) -> None:
    query, key, value = (torch.randn(2, 3, length, width) for width in (5, 5, 4))
    away = torch.arange(length) - torch.arange(length)[:, None]
    band = (away >= -radius) & (away <= (radius if after else 0))
    expected = functional.scaled_dot_product_attention(query, key, value, attn_mask=band, scale=0.5)
    reach = (radius, radius if after else 0)
    torch.testing.assert_close(restricted_attention(query, key, value, reach, block, 0.5), expected)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 13, 64])
def test_ssru_and_its_gradient_equal_a_loop(length: int) -> None:
    gate, value, weights = (torch.randn(2, length, 3, dtype=torch.double) for _ in range(3))
    gate.requires_grad_(), value.requires_grad_()
    c, found = torch.zeros(2, 3, dtype=torch.double), []
    for t in range(length):
        c = gate[:, t].sigmoid() * c + (1 - gate[:, t].sigmoid()) * value[:, t]
        found.append(c)
    expected = torch.stack(found, 1)
    torch.testing.assert_close(ssru(gate, value), expected)
    sums = ((each * weights).sum() for each in (ssru(gate, value), expected))
    mine, theirs = (torch.autograd.grad(each, (gate, value)) for each in sums)
    torch.testing.assert_close(mine, theirs)
    steps = ssru_step(gate[:, 1:], value[:, 1:], expected[:, :1]) if length > 1 else expected
    torch.testing.assert_close(steps, expected)


def test_ssru_does_not_overflow() -> None:
    """The gate is 0 or 1 at all of many positions."""
    value = torch.full((1, 4096, 1), 1e4)
    assert torch.equal(ssru(torch.full_like(value, -200.0), value), value)
    assert torch.equal(ssru(torch.full_like(value, 200.0), value), torch.zeros_like(value))


@every_kind
def test_neither_later_tokens_nor_padding_change_scores(of: dict[str, object]) -> None:
    program = build(layers(of, N=3), [Purpose.SCORE])
    source, targets = PaddedBatch.pad([[5, 6, 7, 3]]), torch.tensor([[2, *range(10, 30), 3]] * 2)
    targets[1, 12] = 50
    before, after = (program.score(source, target[None])[0] for target in targets)
    torch.testing.assert_close(before[:11], after[:11], atol=1e-6, rtol=1e-6)  # batched products may round differently
    assert not torch.allclose(before[12:], after[12:])
    source = PaddedBatch.pad([[5, 6, 7, 3], [8, *[9] * 32, 3], [11, 3]])
    target = torch.tensor([[2, 20, 21, 3, 0, 0], [2, 22, 23, 24, 25, 3], [2, 3, 0, 0, 0, 0]])
    both = program.score(source, target)
    for row, written in enumerate((4, 6, 2)):
        alone = program.score(source.rows(row, row + 1), target[[row], :written])[0]
        torch.testing.assert_close(both[row, : written - 1], alone, atol=1e-5, rtol=1e-5)


@every_kind
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_every_parameter_gets_a_gradient_also_with_dropout(of: dict[str, object], norm: str) -> None:
    """Dropout is active in training only."""
    program = build_module(layers(of, norm={"placement": norm}, attention_dropout=0.5))
    batch = PaddedBatch.pad([[5, 6, 7, 8, 3]]), torch.tensor([[2, 9, 10, 11, 3]])
    loss = program(*batch)
    assert loss.plain != program(*batch).plain
    loss.smoothed.backward()
    idle = [name for name, each in program.named_parameters() if each.grad is None or not each.grad.any()]
    assert idle == []
    program.eval()
    assert program(*batch).plain == program(*batch).plain


@pytest.mark.parametrize("of", [of for of in KINDS.values() if of["kind"] not in ("self_attention", "ssru")])
def test_the_native_backend_refuses_and_auto_takes_eager(of: dict[str, object]) -> None:
    assert build(layers(of), backend="auto").backend == "eager"
    if BACKENDS["native"].unavailable_reason() is None:
        error = refused(None, build, layers(of), backend="native")
        named = {"restricted_attention": "RestrictedAttention", "lstm": "Lstm", "mixture_of_experts": "TopKGates"}
        first = named.get(str(of["kind"]), "ClearPadding")
        assert error.hint == f"it has no instruction for {first}: use the `eager` backend"


@pytest.mark.parametrize("of", [of for of in KINDS.values() if of["kind"] != "self_attention"])
def test_size_of_the_state(of: dict[str, object]) -> None:
    """The state has a fixed size for any length: keys and values of a window, inputs of a kernel, or one vector."""
    step, a = graphs(layers(of, N=2))[Purpose.DECODE_STEP], layers(of).architecture
    expected = {
        "restricted_attention": 2 * 3 * a.h * (a.d_k + a.d_v),
        "ssru": 2 * a.d_model,
        "lstm": 2 * 2 * a.d_model,
        "convolution": (2 + (6 if of.get("dilated") else 2)) * a.d_model,
        "separable_convolution": 2 * 4 * a.d_model,
        "bottleneck_convolution": (2 * 2 + 2) * a.d_model // 2,
        "mixture_of_experts": 0,
    }
    found = sum(step.inputs[name].bytes()(batch=1, beams=1) for name in step.states)
    assert found == 4 * expected[str(of["kind"])]


@every_kind
def test_flops_are_those_that_torch_counts(of: dict[str, object]) -> None:
    """Keys and values of these specs differ in width, unlike those of the specs that zoo contains."""
    program = build_module(layers(of), [Purpose.TRAIN, *TRANSLATE]).eval()
    source, target = PaddedBatch.full(torch.randint(4, 101, (3, 19))), torch.randint(4, 101, (3, 6))
    at = {"batch": 3, "source": 19, "target": 5, "new": 1, "beams": 1, "past": 0, "capacity": CACHE_BLOCK}
    every = runs(program, source, target) | {Purpose.TRAIN: lambda: program(source, target)}
    # torch does not count its LSTM kernel for whole sequences.
    uncounted = {"lstm": (Purpose.SCORE, Purpose.ENCODE, Purpose.TRAIN), "mixture_of_experts": (Purpose.TRAIN,)}
    for purpose in every.keys() - uncounted.get(str(of["kind"]), ()):
        assert count_flops(every[purpose]) == cost(program.graphs[purpose]).flops(**at)
    if of["kind"] == "self_attention":
        with FlopCounterMode(display=False) as counter:
            program(source, target).smoothed.backward()
        assert counter.get_total_flops() == 3 * cost(program.graphs[Purpose.TRAIN]).flops(**at)


def test_restricted_attention_does_not_store_all_pairs() -> None:
    """The full weights of 16,384 positions would take a gibibyte per head."""
    graph = sublayer_stack(RestrictedAttention(kind="restricted_attention", radius=16), 64, 1)
    node = next(node for node in graph.nodes if node.operation.receptive_field())
    saved = node.operation.saved_elements([graph.types[i] for i in node.inputs], graph.shapes(node))
    assert saved(batch=1, source=16_384) < 16_384 * 16 * 64
    query = torch.randn(1, 1, 16_384, 8)
    for costs in (cost(graph).flops, cost(graph).activation_bytes):  # neither grows faster than the sequence
        assert costs(batch=1, source=16_384) == 2 * costs(batch=1, source=8_192) == 4 * costs(batch=1, source=4_096)
    assert restricted_attention(query, query, query, (16, 16), 16, 1.0).isfinite().all()
