"""Exported programs and the backends that use them: free sizes, nothing written in place, keys of artefacts."""

from __future__ import annotations

import subprocess
import sys
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from compiler import TRANSLATE, Purpose, build, graphs
from compiler.backends import BACKENDS, BuildRequest, choose_backend
from compiler.backends.conformance import disagreement
from compiler.backends.export import TRANSLATING, export_programs
from compiler.backends.inductor import _allow_variants
from compiler.backends.tensorrt import check_shapes, engine_key, input_profiles
from compiler.decoder import CACHE_BLOCK
from compiler.initialization import initial_weights
from specs import Spec, ZooError
from tests.examples import changed, small

pytestmark = pytest.mark.integration


def _request(spec: Spec, device: str = "cpu", folder: Path | None = None) -> BuildRequest:
    optimised = graphs(spec, TRANSLATE, device)
    return BuildRequest(spec, optimised, initial_weights(spec, optimised), device, folder=folder)


@pytest.fixture(scope="module")
def exported() -> Any:
    return export_programs(_request(small(N=1)))


def test_nothing_is_written_in_place_and_no_attention_is_fused(exported: Any) -> None:
    """TensorRT returns its caches, and its converter cannot fuse attention of unequal shapes."""
    for purpose in TRANSLATING:
        names = [str(node.target) for node in exported[purpose].graph.nodes if node.op == "call_function"]
        assert not [name for name in names if "scaled_dot_product" in name]
        assert not [name for name in names if name.removeprefix("aten.").partition(".")[0].endswith("_")]
        assert ("aten.scatter.src" in names) == (purpose is Purpose.DECODE_STEP)
        signature = exported[purpose].graph_signature
        assert not {**signature.user_inputs_to_mutate, **signature.buffers_to_mutate}


def test_every_symbolic_size_is_free(exported: Any) -> None:
    program = exported[Purpose.DECODE_STEP].module(check_guards=False)  # the guards are stricter than the code
    graph = graphs(small(N=1), TRANSLATE)[Purpose.DECODE_STEP]
    for batch, beams, new, source, room in ((1, 1, 1, 1, 16), (2, 1, 3, 9, 32), (1, 4, 1, 3, 16), (5, 3, 2, 2, 48)):
        sizes = {"batch": batch, "beams": beams, "new": new, "source": source, "capacity": room}
        shapes = {name: [size(**sizes) for size in type_.shape] for name, type_ in graph.inputs.items()}
        types = {"integer": torch.long, "float": torch.float, "mask": torch.bool}
        inputs = [torch.zeros(shape, dtype=types[graph.inputs[name].kind]) for name, shape in shapes.items()]
        outputs = dict(zip(graph.results, program(*inputs), strict=True))
        assert outputs["log_probabilities"].shape == (batch * beams, new, 101)


def test_auto_says_why_no_backend_can_build_a_request() -> None:
    request = replace(_request(small(), "cuda"), precision="int8")
    with pytest.raises(ZooError, match="the `eager` backend cannot run this") as caught:
        choose_backend("auto", request)
    assert "int8" in str(caught.value.hint)


def test_calls_of_compiled_functions_restore_torchs_limit_and_leak_nothing() -> None:
    call = _allow_variants(lambda parameters, inputs: {})
    before = torch._dynamo.config.recompile_limit
    call(torch.nn.Module(), {})
    variables = len(copy_context())
    for _ in range(5):
        call(torch.nn.Module(), {})
    assert (len(copy_context()), torch._dynamo.config.recompile_limit) == (variables, before)


@pytest.mark.skipif(BACKENDS["onnx"].unavailable_reason() is not None, reason="the backend is not available")
def test_an_onnx_model_is_keyed_by_its_weights_and_by_scales_folded_into_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[dict[str, str]] = []

    def record(folder: Path, name: str, key: dict[str, str]) -> None:
        keys.append(key)
        raise ZooError("the key is recorded")

    monkeypatch.setattr(sys.modules["compiler.backends.onnx"], "Artefact", record)
    weights = build(small()).weights()
    for score, factor in (("scaled_dot_product", 1.0), ("dot_product", 1.0), ("scaled_dot_product", 1.1)):
        other = {name: tensor * factor for name, tensor in weights.items()}
        with pytest.raises(ZooError, match="the key is recorded"):
            build(small(attention_score=score), weights=other, backend="onnx", folder=tmp_path)
    assert keys[0]["code"] == keys[1]["code"] == keys[2]["code"]
    assert keys[0] != keys[1]
    assert {name for name in keys[0] if keys[0][name] != keys[2][name]} == {"weights"}


@pytest.mark.slow
def test_an_aot_package_serves_all_weights_of_a_spec_without_a_compiler(artefacts: Path) -> None:
    spec = small(N=1)  # the conformance test compiles the same package
    weights = build(spec).weights()
    one = build(spec, weights=weights, backend="aot", folder=artefacts)
    times = {file: file.stat().st_mtime_ns for file in artefacts.glob("*/*.pt2")}
    assert times
    two = build(spec, weights={n: t * 1.1 for n, t in weights.items()}, backend="aot", folder=artefacts)
    assert {file: file.stat().st_mtime_ns for file in artefacts.glob("*/*.pt2")} == times
    assert max(disagreement(one)[Purpose.DECODE_STEP], disagreement(two)[Purpose.DECODE_STEP]) < 1e-5
    code = (
        "import sys, pathlib, specs, tests.conftest as t; from compiler import build; "
        "spec = specs.load('tiny', {**t.SMALL, 'architecture': {**t.SMALL['architecture'], 'N': 1}}); "
        f"build(spec, backend='aot', folder=pathlib.Path({str(artefacts)!r})); "
        "raise SystemExit(bool({'torch._inductor', 'torch._dynamo'} & set(sys.modules)))"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_tensorrt_refuses_what_it_cannot_build() -> None:
    problem = BACKENDS["tensorrt"].unsupported_reason
    assert problem(_request(small(), "cuda")) is None
    assert "NVIDIA GPU" in (problem(_request(small())) or "")
    assert "int8" in (problem(replace(_request(small(), "cuda"), precision="int8")) or "")
    training = graphs(small(), [Purpose.TRAIN, *TRANSLATE], "cuda")
    assert "can only translate" in (problem(BuildRequest(small(), training, {}, "cuda")) or "")


def test_tensorrt_profiles_contain_every_length_of_the_spec() -> None:
    """The decoder reads BOS and all tokens; it reads the last one to predict EOS."""
    spec = small()
    step, longest = graphs(spec)[Purpose.DECODE_STEP], spec.corpus.max_length
    for factor in (0.5, 0.97, 1.0, 3.0):
        for extra in range(0, CACHE_BLOCK, 3):
            profiles = input_profiles(step, changed(spec, "decoding", length_factor=factor, extra_length=extra))
            assert set(profiles) == set(step.inputs)
            for profile in profiles.values():
                for smallest, usual, largest in zip(*profile, strict=True):
                    assert 1 <= smallest <= usual <= largest
            assert profiles["source_padding"].max[3] == longest + 1
            assert profiles["decoder.0.keys"].max[2] >= int(longest * factor) + extra + 1
            rows, (batch, beams, _) = profiles["decoder.0.keys"].usual[0], profiles["token"].usual
            assert rows == batch * beams


def test_tensorrt_refuses_inputs_beyond_the_profile_and_says_which_option_to_raise() -> None:
    spec = small()
    optimised = graphs(spec)
    source = {"source": input_profiles(optimised[Purpose.ENCODE], spec)["source"]}
    check_shapes(source, [torch.zeros(source["source"].max)])
    token = {"token": input_profiles(optimised[Purpose.DECODE_STEP], spec)["token"]}
    batch, beams, _ = token["token"].max
    for profiles, shape in ((source, (1, source["source"].max[1] + 1)), (token, (batch, beams + 1, 1))):
        with pytest.raises(ZooError, match="was built for at most") as caught:
            check_shapes(profiles, [torch.zeros(shape)])
        assert "`decoding.beam`" in str(caught.value.hint)


def test_every_weight_of_a_tensorrt_engine_can_be_replaced(exported: Any) -> None:
    optimised = graphs(small(N=1), TRANSLATE)
    needed: set[str] = set()
    for purpose in TRANSLATING:
        parameters = optimised[purpose].parameters
        names = {f"program.{name}": [t.name for t in p.origin.stored()] for name, p in parameters.items()}
        signature, nodes = exported[purpose].graph_signature, exported[purpose].graph.nodes
        read = {node.name for node in nodes if node.op == "placeholder" and node.users}
        used = {parameter for name, parameter in signature.inputs_to_parameters.items() if name in read}
        assert used <= set(names)
        assert set(parameters) == {name.removeprefix("program.") for name in used}
        needed |= {file for files in names.values() for file in files}
    assert needed == set(initial_weights(small(N=1), optimised))


def test_the_key_of_tensorrt_engines_depends_on_the_topology() -> None:
    variants: tuple[dict[str, object], ...] = ({}, {"N": 1}, {"h": 1}, {"norm": {"placement": "pre"}})
    keys = [engine_key(_request(small(**variant)), {"torch": "2"}) for variant in variants]
    assert len({str(key) for key in keys}) == 4


@pytest.mark.skipif(BACKENDS["tensorrt"].unavailable_reason() is not None, reason="the backend is not available")
def test_a_tensorrt_engine_agrees_with_the_interpreter(tmp_path: Path) -> None:
    program = build(small(N=1), device="cuda", backend="tensorrt", folder=tmp_path / "compiled")
    assert disagreement(program)[Purpose.DECODE_STEP] < 1e-3  # TensorRT computes products in TF32
