"""Exported programs and what is made of them: free sizes, nothing in place, weights outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from compiler import TRANSLATE, Purpose, build, graphs
from compiler.assemble import find_device
from compiler.backends import BACKENDS, BuildRequest, choose_backend
from compiler.backends.conformance import disagreement
from compiler.backends.export import TRANSLATING, export_programs
from compiler.backends.inductor import _allow_variants
from compiler.backends.tensorrt import check_shapes, compile_settings, engine_key, input_profiles, size_profiles
from compiler.decoder import CACHE_BLOCK
from compiler.initialization import initial_weights
from specs import Spec, ZooError


def _order(spec: Spec, device: str = "cpu", folder: Path | None = None) -> BuildRequest:
    lowered = graphs(spec, TRANSLATE, device)
    return BuildRequest(spec, lowered, initial_weights(spec, lowered), device, folder=folder)


@pytest.fixture
def exported(small: Callable[..., Spec]):
    return export_programs(_order(small(N=1)))


def _called(program) -> list[str]:
    return [str(node.target) for node in program.graph.nodes if node.op == "call_function"]


def test_nothing_is_written_in_place_and_no_attention_is_fused(exported) -> None:
    """An engine gives its caches back, and what it cannot convert for unequal shapes is not there."""
    for purpose in TRANSLATING:
        names = _called(exported[purpose])
        assert not [
            name
            for name in names
            if "scaled_dot_product" in name or name.removeprefix("aten.").partition(".")[0].endswith("_")
        ]
        signature = exported[purpose].graph_signature
        assert not {**signature.user_inputs_to_mutate, **signature.buffers_to_mutate}
    assert "aten.scatter.src" in _called(exported[Purpose.DECODE_STEP])


def test_every_symbolic_size_is_free(small: Callable[..., Spec], exported) -> None:
    program = exported[Purpose.DECODE_STEP].module(check_guards=False)  # they are stricter than the code
    graph = graphs(small(N=1), TRANSLATE)[Purpose.DECODE_STEP]
    for batch, beams, source, room in ((1, 1, 1, 16), (2, 1, 9, 32), (1, 4, 3, 16), (5, 3, 2, 48)):
        size_profiles = {"batch": batch, "beams": beams, "source": source, "capacity": room}
        shapes = {name: [size(**size_profiles) for size in type_.shape] for name, type_ in graph.inputs.items()}
        inputs = [
            torch.full(shape, 3) if graph.inputs[name].kind == "integer" else torch.zeros(shape)
            for name, shape in shapes.items()
        ]
        outputs = dict(zip(graph.results, program(*inputs), strict=True))
        assert outputs["log_probabilities"].shape == (batch, beams, 101)


def test_auto_says_what_nothing_here_can_do(small: Callable[..., Spec]) -> None:
    order = replace(_order(small(), "cuda"), precision="int8")
    with pytest.raises(ZooError, match="the backend `eager` cannot run this") as caught:
        choose_backend("auto", order)
    assert "int8" in str(caught.value.hint)


def test_there_is_one_cpu() -> None:
    assert find_device("cpu:0") == "cpu"


def test_a_call_of_what_inductor_compiles_leaves_nothing_behind() -> None:
    called = _allow_variants(lambda parameters, inputs: {})
    before = torch._dynamo.config.recompile_limit
    called(torch.nn.Module(), {})
    variables = len(copy_context())
    for _ in range(5):
        called(torch.nn.Module(), {})
    assert (len(copy_context()), torch._dynamo.config.recompile_limit) == (variables, before)


class TestOnnx:
    def test_other_scales_make_another_model(
        self, small: Callable[..., Spec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of the same weights and the same code: what is folded into the weights is none of either."""
        keys: list[dict[str, str]] = []

        def kept(folder: Path, name: str, key: dict[str, str]) -> None:
            keys.append(key)
            raise ZooError("enough")

        if problem := BACKENDS["onnx"].unavailable_reason():
            pytest.skip(problem)
        monkeypatch.setattr(sys.modules["compiler.backends.onnx"], "Artefact", kept)
        weights = build(small()).weights()
        for score in ("scaled_dot_product", "dot_product"):
            with pytest.raises(ZooError, match="enough"):
                build(small(attention_score=score), weights=weights, backend="onnx", folder=tmp_path)
        one, two = keys
        assert one["code"] == two["code"]
        assert one != two

    def test_other_weights_make_another_model(self, small: Callable[..., Spec], tmp_path: Path) -> None:
        spec = small(N=1)
        weights = build(spec).weights()
        one = build(spec, weights=weights, backend="onnx", folder=tmp_path / "compiled")
        two = build(
            spec, weights={n: t * 1.1 for n, t in weights.items()}, backend="onnx", folder=tmp_path / "compiled"
        )
        assert len(list((tmp_path / "compiled").iterdir())) == 2
        assert max(disagreement(one)[Purpose.DECODE_STEP], disagreement(two)[Purpose.DECODE_STEP]) < 1e-5


class TestAot:
    @pytest.mark.slow
    def test_weights_are_no_part_of_the_package(self, small: Callable[..., Spec], artefacts: Path) -> None:
        """Another training of the spec runs in the package of the first, in a process without a compiler, too."""
        layers = 1  # as in the conformance test, which has compiled it then
        spec = small(N=layers)
        weights = build(spec).weights()
        one = build(spec, weights=weights, backend="aot", folder=artefacts)
        written = {file: file.stat().st_mtime_ns for file in artefacts.glob("*/*.pt2")}
        assert written
        two = build(spec, weights={n: t * 1.1 for n, t in weights.items()}, backend="aot", folder=artefacts)
        assert {file: file.stat().st_mtime_ns for file in artefacts.glob("*/*.pt2")} == written
        assert max(disagreement(one)[Purpose.DECODE_STEP], disagreement(two)[Purpose.DECODE_STEP]) < 1e-5
        code = (
            "import sys, pathlib, specs, tests.conftest as t; from compiler import build; "
            f"spec = specs.load('tiny', {{**t.SMALL, 'architecture': {{**t.SMALL['architecture'], 'N': {layers}}}}}); "
            f"build(spec, backend='aot', folder=pathlib.Path({str(artefacts)!r})); "
            "raise SystemExit(bool({'torch._inductor', 'torch._dynamo'} & set(sys.modules)))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


class TestTensorRt:
    def test_it_refuses_what_it_cannot_do(self, small: Callable[..., Spec]) -> None:
        refuses = BACKENDS["tensorrt"].unsupported_reason
        assert refuses(_order(small(), "cuda")) is None
        assert "NVIDIA GPU" in (refuses(_order(small())) or "")
        assert "int8" in (refuses(replace(_order(small(), "cuda"), precision="int8")) or "")
        training = graphs(small(), [Purpose.TRAIN, *TRANSLATE], "cuda")
        assert "can only translate" in (refuses(BuildRequest(small(), training, {}, "cuda")) or "")

    def test_profiles_hold_every_length_that_the_spec_has(self, small: Callable[..., Spec]) -> None:
        spec = small()
        spec = spec.model_copy(update={"decoding": spec.decoding.model_copy(update={"length_factor": 3.0})})
        step = graphs(spec)[Purpose.DECODE_STEP]
        found = input_profiles(step, spec)
        assert set(found) == set(step.inputs)
        for profile in found.values():
            for least, usual, most in zip(*profile, strict=True):
                assert 1 <= least <= usual <= most
        longest = spec.corpus.max_length + 1
        assert found["source"].max[1] == longest
        assert found["decoder.0.keys"].max[2] >= 3 * longest + spec.decoding.extra_length
        rows, (batch, beams) = found["decoder.0.keys"].usual[0], found["token"].usual
        assert rows == batch * beams

    @pytest.mark.parametrize("factor", [0.5, 0.97, 1.0, 3.0])
    @pytest.mark.parametrize("extra", range(0, CACHE_BLOCK, 3))
    def test_profiles_hold_the_longest_translation(self, small: Callable[..., Spec], factor: float, extra: int) -> None:
        """BOS and all of its tokens are read, the last of them to find that it ends."""
        spec = small()
        how = {"length_factor": factor, "extra_length": extra}
        spec = spec.model_copy(update={"decoding": spec.decoding.model_copy(update=how)})
        limit = int(spec.corpus.max_length * factor) + extra
        assert size_profiles(spec)["capacity"].max[0] >= limit + 1

    def test_a_beam_that_is_too_wide_is_told_how_it_may_be_wider(self, small: Callable[..., Spec]) -> None:
        spec = small()
        wanted = {"token": input_profiles(graphs(spec)[Purpose.DECODE_STEP], spec)["token"]}
        batch, beams = wanted["token"].max
        with pytest.raises(ZooError, match="was built for at most") as caught:
            check_shapes(wanted, [torch.zeros(batch, beams + 1)])
        assert "`decoding.beam`" in str(caught.value.hint)

    def test_a_shape_beyond_its_profile_is_an_error(self, small: Callable[..., Spec]) -> None:
        spec = small()
        wanted = input_profiles(graphs(spec)[Purpose.ENCODE], spec)
        check_shapes(wanted, [torch.zeros(wanted["source"].max)])
        with pytest.raises(ZooError, match="was built for at most") as caught:
            check_shapes(wanted, [torch.zeros(1, wanted["source"].max[1] + 1)])
        assert caught.value.hint

    @pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cu130", "2.14.0"])
    def test_the_settings_are_those_of_the_version(self, version: str) -> None:
        chosen = compile_settings(version, "cuda:0")
        assert chosen["attn_bias_is_causal"] is False
        assert chosen["decompose_attention"] is True
        assert not chosen["cache_built_engines"]
        assert not chosen["reuse_cached_engines"]
        assert not chosen["immutable_weights"]
        assert ("use_explicit_typing" in chosen) == version.startswith("2.11")
        assert ("enabled_precisions" in chosen) == version.startswith("2.11")

    def test_every_weight_can_be_refitted(self, small: Callable[..., Spec], exported) -> None:
        lowered = graphs(small(N=1), TRANSLATE)
        needed: set[str] = set()
        for purpose in TRANSLATING:
            parameters = lowered[purpose].parameters
            names = {f"program.{name}": [t.name for t in p.origin.stored()] for name, p in parameters.items()}
            signature, nodes = exported[purpose].graph_signature, exported[purpose].graph.nodes
            read = {node.name for node in nodes if node.op == "placeholder" and node.users}
            used = {parameter for name, parameter in signature.inputs_to_parameters.items() if name in read}
            assert used <= set(names)
            assert set(parameters) == {name.removeprefix("program.") for name in used}
            needed |= {file for files in names.values() for file in files}
        assert needed == set(initial_weights(small(N=1), lowered))

    def test_the_fingerprint_knows_the_topology(self, small: Callable[..., Spec]) -> None:
        found = [engine_key(_order(small(**a)), {"torch": "2"}) for a in ({}, {"N": 1}, {"h": 1}, {"norm": "pre"})]
        assert len({str(each) for each in found}) == 4

    @pytest.mark.skipif(
        BACKENDS["tensorrt"].unavailable_reason() is not None,
        reason="TensorRT's libraries or an NVIDIA GPU are not here",
    )
    def test_an_engine_agrees_with_the_interpreter(self, small: Callable[..., Spec], tmp_path: Path) -> None:
        program = build(small(N=1), device="cuda", backend="tensorrt", folder=tmp_path / "compiled")
        assert disagreement(program)[Purpose.DECODE_STEP] < 1e-3
