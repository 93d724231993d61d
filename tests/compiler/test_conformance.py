"""Every available backend computes what the interpreter computes, and continues from any state as `eager` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
import yaml

from compiler import PASSES, TRANSLATE, Purpose, artefact, build, graphs, native_codegen
from compiler.assemble import prepare_build
from compiler.backends import BACKENDS, BuildRequest
from compiler.backends.conformance import disagreement
from compiler.instruction import MAX_INT8_ROWS
from compiler.kernels import library
from compiler.kernels.program import PackedModel
from compiler.padded_batch import PaddedBatch
from specs import Features, Spec, ZooError
from tests.compiler.conftest import run_python, shaken
from tests.examples import changed, small
from tests.refusals import refused

SUBLAYERS: dict[str, dict[str, object]] = {
    "restricted": {"kind": "restricted_attention", "radius": 3},
    "restricted, grouped": {"kind": "restricted_attention", "radius": 3, "h": 4, "kv_heads": 2},
    "ssru": {"kind": "ssru"},
    "lstm": {"kind": "lstm"},
    "dilated": {"kind": "convolution", "kernel": 3, "dilated": True},
    "separable": {"kind": "separable_convolution", "kernel": 5},
    "bottleneck": {"kind": "bottleneck_convolution", "kernel": 3, "dilations": [2, 1]},
    "gated": {"kind": "convolution", "kernel": 3, "dilated": False, "gated": True},
    "mixture": {"kind": "mixture_of_experts", "experts": 4, "top_k": 2},
}
"""Sub-layers that may take the place of self-attention."""
FEED_FORWARD = {"kind": "feed_forward"}
ARCHITECTURES: dict[str, dict[str, object]] = yaml.safe_load("""
  shallow: {N: 1}
  post: {N: {encoder: 3, decoder: 2}}
  pre: {N: 2, norm: {placement: pre}, positions: {kind: learned, rows: 128}, tied_embeddings: none,
        projection_bias: true, d_k: 8, d_v: 8}
  additive: {attention_score: additive}
  unscaled: {attention_score: dot_product, positions: {kind: sinusoidal_halves}}
  gelu: {activation: gelu, output_bias: true, positions: {kind: sinusoidal, first: 2}, norm: {placement: pre},
         tied_embeddings: none}
  student: {activation: silu, positions: {kind: sinusoidal_halves, first: 1}, output_bias: true,
            N: {encoder: 2, decoder: 3}, decoder: [{kind: ssru}, {kind: cross_attention}, {kind: feed_forward}]}
  t5: {N: 2, encoder: [{kind: self_attention}, {kind: feed_forward, gated: true, bias: false}], activation: gelu_tanh,
       attention_score: dot_product, positions: {kind: relative, buckets: 8, max_distance: 7},
       norm: {kind: rms_norm, placement: pre}, scale_embeddings: false, scale_logits: true}
  modern: {N: 2, encoder: [{kind: self_attention, h: 4, kv_heads: 2}, {kind: feed_forward, gated: true}],
           decoder: [{kind: self_attention, h: 4, kv_heads: 1, d_k: 4}, {kind: cross_attention, h: 4, kv_heads: 2},
                     {kind: feed_forward, gated: true, activation: silu, d_ff: 20}],
           positions: {kind: rotary}, norm: {kind: rms_norm, placement: both, embeddings: true}, d_k: 8}
  alibi: {encoder: [{kind: self_attention, h: 3}, {kind: feed_forward}, {kind: feed_forward, d_ff: 9}],
          positions: {kind: alibi}}
  speech: {N: 1, tied_embeddings: target, source: {kind: features, width: 5, activation: glu,
           subsampling: [{kernel: 5, stride: 2}, {kernel: 3, stride: 3}]}}
  patches: {N: 1, source: {kind: features, width: 5}, positions: {kind: sinusoidal_2d, rows: 2}, tied_embeddings: none}
  half variance: {decoder: [{kind: self_attention, norm: {kind: none, placement: post}},
                  {kind: cross_attention, embedded_queries: true}, {kind: feed_forward}], norm: {kind: half_variance}}
  bytenet: {N: 2, encoder: [{kind: bottleneck_convolution, kernel: 5, dilations: [1, 2], d_conv: 6}],
            decoder: [{kind: aligned_memory}, {kind: bottleneck_convolution, kernel: 3, dilations: [3]}],
            norm: {placement: pre}}
  no positions: {N: 1, positions: {kind: none}}
  reordered: {encoder: [{kind: feed_forward}, {kind: self_attention}],
              decoder: [{kind: feed_forward}, {kind: cross_attention}, {kind: self_attention}]}
""")
for kind, sublayer in SUBLAYERS.items():
    layers = {"encoder": [sublayer, FEED_FORWARD], "decoder": [sublayer, {"kind": "cross_attention"}, FEED_FORWARD]}
    ARCHITECTURES[kind] = {"N": 2 if kind == "dilated" else 1, **layers}  # the dilation differs between layers
QUICK = {"inductor": (), "aot": (), "onnx": {"shallow"}}
"""The architectures that are tested outside of the slow tests, for backends that take long to compile or export.

`inductor` and `aot` share their code generator; a quick test below compiles a training step with it.
"""
CASES = [
    pytest.param(name, each, marks=[pytest.mark.slow] * (each not in QUICK.get(name, ARCHITECTURES)))
    for name, each in product(BACKENDS, ARCHITECTURES)
]

pytestmark = pytest.mark.integration
Built = Callable[..., Any]
TOLERANCE = 1e-5
"""Float32 results of sums in different orders differ by up to some 1e-6, relative to the largest value."""


@pytest.fixture
def built(artefacts: Path) -> Built:
    """Build with a backend, or skip the test with the backend's own reason."""

    def make(name: str, spec: Spec, precision: str = "float32") -> Any:
        if problem := BACKENDS[name].unavailable_reason():
            pytest.skip(problem)
        spec, weights = changed(spec, precision=precision), shaken(spec)
        request = BuildRequest(spec, graphs(spec, TRANSLATE), weights, precision=precision, folder=artefacts)
        if problem := BACKENDS[name].unsupported_reason(request):
            pytest.skip(f"the backend refuses it: {problem}")
        return build(spec, TRANSLATE, weights=weights, backend=name, folder=artefacts)

    return make


@pytest.mark.parametrize(("name", "architecture"), CASES)
def test_a_program_agrees_with_the_interpreter_and_with_eager(built: Built, name: str, architecture: str) -> None:
    spec = small(**ARCHITECTURES[architecture])
    program = built(name, spec)
    errors = disagreement(program)
    assert set(errors) == {Purpose.SCORE, Purpose.DECODE_STEP}
    assert all(error < TOLERANCE for error in errors.values()), errors
    if name != "eager":
        assert_walks_agree(program, build(spec, backend="eager", weights=shaken(spec)))


def assert_walks_agree(one: Any, other: Any) -> None:
    for actual, expected in zip(walk(one), walk(other), strict=True):
        torch.testing.assert_close(actual, expected, atol=2e-5, rtol=1e-5)


EVERY = [Purpose.TRAIN, *TRANSLATE]
TRAINING = [pytest.param(n, EVERY, marks=[pytest.mark.slow] * (n in QUICK)) for n, b in BACKENDS.items() if b.can_train]


@pytest.mark.parametrize(("name", "purposes"), [*TRAINING, ("inductor", [Purpose.TRAIN])])
def test_a_training_program_agrees_with_the_interpreter(name: str, purposes: list[Purpose]) -> None:
    errors = disagreement(build(small(N=1), purposes, backend=name))
    assert errors.keys() == {*purposes} - {Purpose.ENCODE}
    assert all(error < TOLERANCE for error in errors.values()), errors


COMPILE_A_TRAINING_STEP = """
from compiler import Purpose, build
from compiler.backends.conformance import disagreement
from tests.examples import small
print(disagreement(build(small(N=1), [Purpose.TRAIN], backend="inductor"))[Purpose.TRAIN])
"""


@pytest.mark.slow
@pytest.mark.skipif(BACKENDS["inductor"].unavailable_reason() is not None, reason="the backend is not available")
def test_inductor_does_not_reuse_code_for_vectors_of_another_length(tmp_path: Path) -> None:
    """torch's cache on disk may be shared by processors, or by settings, with other vector instructions."""
    for capability in ("avx512", "avx2"):
        environment = {"ATEN_CPU_CAPABILITY": capability, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
        assert float(run_python(COMPILE_A_TRAINING_STEP, **environment)) < TOLERANCE


INT8 = [pytest.param(n, "int8", "shallow", marks=[pytest.mark.slow] * (n == "inductor")) for n in BACKENDS]
BFLOAT16 = product(("eager", "native"), ["bfloat16"], ("post", "student", "t5", "modern", "lstm", "mixture", "speech"))


@pytest.mark.parametrize(("backend", "precision", "architecture"), [*INT8, *BFLOAT16])
def test_lower_precision_is_close_to_float32(built: Built, backend: str, precision: str, architecture: str) -> None:
    spec = small(**{**ARCHITECTURES[architecture], "output_bias": True})
    errors = disagreement(built(backend, spec, precision), weights=shaken(spec))
    assert all(1e-5 < error < 0.05 for error in errors.values()), errors


STORED = {
    "float32": ["post", "pre", "alibi"],
    "bfloat16": ["post", "gelu", "t5"],
    "int8": ["post", "student", "modern"],
}


@pytest.mark.parametrize(("precision", "architecture"), [(p, each) for p in STORED for each in STORED[p]])
def test_packed_weights_that_were_stored_are_equal(
    built: Built, tmp_path: Path, precision: str, architecture: str
) -> None:
    """Bitwise, at another address. The pointers of these architectures lead to all kinds of weights."""
    program = built("native", small(**{**ARCHITECTURES[architecture], "output_bias": True}), precision)
    program.model.write(tmp_path)
    stored = PackedModel.read(tmp_path)
    assert bytes(stored.weights.content) == bytes(program.model.weights.content)
    assert stored.weights.address != program.model.weights.address
    again = build(program.spec, weights=program.weights(), backend="native", precision=precision, packed=stored)
    assert again.model is stored
    assert all(torch.equal(*pair) for pair in zip(walk(again), walk(program), strict=True))


@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize("architecture", ["post", "t5", "modern", "student"])
def test_native_int8_rounds_as_eager_does(built: Built, architecture: str) -> None:
    spec, is_same = small(**{**ARCHITECTURES[architecture], "output_bias": True}), list[torch.Tensor]()
    reference = build(spec, weights=shaken(spec), backend="eager", precision="int8")
    for actual, expected in zip(walk(built("native", spec, "int8")), walk(reference), strict=True):
        # A value halfway between two 8-bit integers may be rounded to either, which changes its row by one step.
        torch.testing.assert_close(actual, expected, atol=6e-2, rtol=0)
        is_same.append(((actual - expected).abs() < 1e-4).flatten())
    assert torch.cat(is_same).float().mean() > 0.9


@pytest.mark.skipif(BACKENDS["native"].unavailable_reason() is not None, reason="the backend is not available")
def test_auto_generates_native_code_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although this code decides whether the backend can run the model."""
    generate = Mock(side_effect=native_codegen.generate_native_code)
    monkeypatch.setattr("compiler.backends.backend.generate_native_code", generate)
    assert build(small(N=1), backend="auto").backend == "native"
    assert generate.call_count == 1


@pytest.mark.skipif(BACKENDS["native"].unavailable_reason() is not None, reason="the backend is not available")
def test_auto_takes_native_unless_int8_rows_are_too_long() -> None:
    assert prepare_build(small(N=1, d_ff=MAX_INT8_ROWS), precision="int8", backend="auto")[0].name == "native"
    spec = small(N=1, d_ff=MAX_INT8_ROWS + 1)
    assert prepare_build(spec, precision="int8", backend="auto")[0].name == "eager"
    error = refused("the `native` backend cannot run this", prepare_build, spec, precision="int8", backend="native")
    assert all(part in str(error.hint) for part in ("65,537", "`eager`"))


@pytest.mark.skipif(BACKENDS["native"].unavailable_reason() is not None, reason="the backend is not available")
def test_auto_warns_and_uses_eager_without_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = ZooError("collect2: final link failed: No space left on device")
    monkeypatch.setattr(library, "_compile", Mock(side_effect=full))
    monkeypatch.setattr(artefact, "_temporary_root", lambda: tmp_path / "temporary")  # without other tests' kernels
    with pytest.warns(RuntimeWarning, match="No space left on device: using the slower `eager` backend instead"):
        program: Any = build(small(), backend="auto", folder=tmp_path / "auto")
    assert program.backend == "eager"
    refused("No space left on device", build, small(), backend="native", folder=tmp_path / "native")


@pytest.mark.parametrize("kind", SUBLAYERS)
def test_the_state_of_every_sublayer_is_carried_whichever_passes_run(kind: str) -> None:
    spec = small(**{**ARCHITECTURES[kind], "N": 2})
    plain = changed(spec, disabled_passes=tuple(each.name for each in PASSES))
    assert_walks_agree(*(build(each, backend="eager") for each in (spec, plain)))


def walk(program: Any) -> Iterator[torch.Tensor]:
    """Yield the results of steps in which rows are selected, suppressed, joined and dropped, beyond a first cache.

    Some steps read several tokens.
    """
    generator, mask_generator = (torch.Generator().manual_seed(number) for number in (0, 1))

    def tokens(rows: int, new: int = 1) -> torch.Tensor:
        return torch.randint(4, 101, (rows, new), generator=generator).to(program.device)

    def start(*sources: list[int]) -> Any:
        options, rows = program.spec.architecture.source, list[Any](sources)
        if isinstance(options, Features):
            rows = [torch.randn(2 * len(tokens), options.width, generator=mask_generator) for tokens in sources]
        first, parents = torch.full((len(sources), 1), 2), torch.zeros(len(sources), 3, dtype=torch.long)
        _, state = program.top_k(program.encode(PaddedBatch.pad(rows).to(program.device)), first.to(program.device), 4)
        return program.select(state, torch.arange(len(sources)), parents.to(program.device))

    state, sentences = start([7, 8, 9, 10, 11, 3], [5, 3], [9, 6, 3]), 3
    for step in range(24):
        if step % 5 == 4:
            best, state = program.top_k(state, tokens(3 * sentences, 1 + step % 4), 6)
            yield from (best.values, best.ends)
        elif step % 5 == 3:
            allowed = torch.rand(3 * sentences, 101, generator=mask_generator) < (0.3 if step % 2 else 0.03)
            allowed = (allowed[:1] if step == 13 else allowed).to(program.device)
            best, state = program.top_k(state, tokens(3 * sentences), 6, allowed)
            # The tokens of -inf are arbitrary. Nearly equal values may be in another order, so compare the set.
            possible = best.tokens.masked_fill(best.values == -torch.inf, 0)
            yield from (best.values, allowed.expand(3 * sentences, -1).gather(1, possible).float(), best.ends)
        else:
            log_probabilities, state = program.advance(state, tokens(3 * sentences, 1 + step % 4))
            yield log_probabilities
        if step == 7:
            state, sentences = program.join(state, start([20, 21, 22, 23, 24, 25, 26, 27, 3], [30, 3])), 5
        kept = [0, 2, 3] if step == 12 else [1, 2] if step == 19 else list(range(sentences))
        parents = torch.randint(0, 3, (len(kept), 3), generator=generator).to(program.device)
        state, sentences = program.select(state, torch.tensor(kept), parents), len(kept)
