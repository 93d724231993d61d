"""Exported programs and the backends that use them: free sizes, nothing written in place, keys of artefacts."""

from __future__ import annotations

import sys
from contextvars import copy_context
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch

from compiler import TRANSLATE, Purpose, build, graphs
from compiler.assemble import initial_weights
from compiler.backends import BACKENDS, choose_backend
from compiler.backends.conformance import disagreement
from compiler.backends.export import TRANSLATING, artefact_key, export_programs
from compiler.backends.inductor import _allow_variants
from compiler.backends.tensorrt import check_shapes, engine_key, input_profiles
from compiler.decoder import CACHE_BLOCK
from specs import ZooError
from tests.compiler.conftest import requested, run_python
from tests.examples import changed, small
from tests.refusals import refused

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def exported() -> Any:
    return export_programs(requested(small(N=1)))


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
    types = {"integer": torch.long, "float": torch.float, "mask": torch.bool}
    for batch, beams, new, source, room in ((1, 1, 1, 1, 16), (2, 1, 3, 9, 32), (1, 4, 1, 3, 16), (5, 3, 2, 2, 48)):
        sizes = {"batch": batch, "beams": beams, "new": new, "source": source, "capacity": room}
        inputs = [torch.zeros([n(**sizes) for n in t.shape], dtype=types[t.kind]) for t in graph.inputs.values()]
        outputs = dict(zip(graph.results, program(*inputs), strict=True))
        assert outputs["log_probabilities"].shape == (batch * beams, new, 101)


def test_auto_says_why_no_backend_can_build_a_request() -> None:
    order = replace(requested(small(), device="cuda"), precision="int8")
    assert "int8" in str(refused("the `eager` backend cannot run this", choose_backend, "auto", order).hint)


def test_calls_of_compiled_functions_restore_torchs_limit_and_leak_nothing() -> None:
    call, before = _allow_variants(lambda parameters, inputs: {}), torch._dynamo.config.recompile_limit
    counts = set[tuple[int, int]]()
    for _ in range(6):
        call(torch.nn.Module(), {})
        counts.add((len(copy_context()), torch._dynamo.config.recompile_limit))
    assert counts == {(len(copy_context()), before)}


@pytest.mark.skipif(BACKENDS["onnx"].unavailable_reason() is not None, reason="the backend is not available")
def test_an_onnx_model_is_keyed_by_its_weights_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artefact, weights = Mock(side_effect=ZooError("the key is recorded")), build(small()).weights()
    monkeypatch.setattr(sys.modules["compiler.backends.onnx"], "Artefact", artefact)
    for score, factor in (("scaled_dot_product", 1.0), ("dot_product", 1.0), ("scaled_dot_product", 1.1)):
        other = {name: tensor * factor for name, tensor in weights.items()}
        refused("key is recorded", build, small(attention_score=score), weights=other, backend="onnx", folder=tmp_path)
    keys = [call.args[2] for call in artefact.call_args_list]
    changes = [{name for name in key if key[name] != keys[0][name]} for key in keys[1:]]
    assert ("code" in changes[0], changes[1]) == (True, {"weights"})


@pytest.mark.slow
def test_an_aot_package_serves_all_weights_of_a_spec_without_a_compiler(artefacts: Path) -> None:
    times = []
    for factor in (1.0, 1.1):  # the conformance test compiles the same package
        weights = {name: tensor * factor for name, tensor in build(small(N=1)).weights().items()}
        program = build(small(N=1), weights=weights, backend="aot", folder=artefacts)
        assert disagreement(program)[Purpose.DECODE_STEP] < 1e-5
        times.append({file: file.stat().st_mtime_ns for file in artefacts.glob("*/*.pt2")})
    assert times[0] == times[1] != {}
    code = (
        "import sys, pathlib; from compiler import build; from tests.examples import small; "
        f"build(small(N=1), backend='aot', folder=pathlib.Path({str(artefacts)!r})); "
        "print({'torch._inductor', 'torch._dynamo'} & set(sys.modules))"
    )
    assert run_python(code) == "set()\n"


def test_tensorrt_refuses_what_it_cannot_build() -> None:
    request = requested(small(), device="cuda")
    refused = {"NVIDIA GPU": requested(small()), "int8": replace(request, precision="int8")}
    refused["can only translate"] = replace(request, graphs=graphs(small(), [Purpose.TRAIN, *TRANSLATE], "cuda"))
    for reason, each in refused.items():
        assert reason in (BACKENDS["tensorrt"].unsupported_reason(each) or "")
    assert BACKENDS["tensorrt"].unsupported_reason(request) is None


def test_tensorrt_profiles_contain_every_length_of_the_spec() -> None:
    """The decoder reads BOS and all tokens; it reads the last one to predict EOS."""
    step, longest = graphs(small())[Purpose.DECODE_STEP], small().corpus.max_length
    for factor, extra in product((0.5, 0.97, 1.0, 3.0), range(0, CACHE_BLOCK, 3)):
        profiles = input_profiles(step, changed(small(), "decoding", length_factor=factor, extra_length=extra))
        assert set(profiles) == set(step.inputs)
        for smallest, usual, largest in (sizes for each in profiles.values() for sizes in zip(*each, strict=True)):
            assert 1 <= smallest <= usual <= largest
        keys, (batch, beams, _) = profiles["decoder.0.keys"], profiles["token"].usual
        assert profiles["source_padding"].max[3] == longest + 1
        assert keys.max[2] >= int(longest * factor) + extra + 1
        assert keys.usual[0] == batch * beams


def test_tensorrt_refuses_inputs_beyond_the_profile_and_says_which_option_to_raise() -> None:
    for purpose, name in ((Purpose.ENCODE, "source"), (Purpose.DECODE_STEP, "token")):
        profile = input_profiles(graphs(small())[purpose], small())[name]
        check_shapes({name: profile}, [torch.zeros(profile.max)])
        rows, longest, *others = profile.max
        error = refused("built for at most", check_shapes, {name: profile}, [torch.zeros(rows, longest + 1, *others)])
        assert "`decoding.beam`" in str(error.hint)


def test_every_weight_of_a_tensorrt_engine_can_be_replaced(exported: Any) -> None:
    optimised = graphs(small(N=1), TRANSLATE)
    needed: set[str] = set()
    for purpose in TRANSLATING:
        parameters = optimised[purpose].parameters
        needed |= {tensor.name for parameter in parameters.values() for tensor in parameter.origin.stored()}
        read = {node.name for node in exported[purpose].graph.nodes if node.op == "placeholder" and node.users}
        named = exported[purpose].graph_signature.inputs_to_parameters.items()
        assert {parameter for name, parameter in named if name in read} == {f"program.{name}" for name in parameters}
    assert needed == set(initial_weights(small(N=1), optimised))


def test_the_key_of_tensorrt_engines_depends_on_the_topology() -> None:
    variants = (small(), small(N=1), small(h=1), small(norm={"placement": "pre"}))
    assert len({str(engine_key(requested(spec), {"torch": "2"})) for spec in variants}) == 4


def test_the_key_of_artefacts_contains_the_constants_that_emitted_code_reads() -> None:
    sources = artefact_key(requested(small(N=1)))["sources"]
    for name in ("ROUNDING", "MIN_BLOCK_LENGTH", "SMALLEST_ATTENTION", "SUPPRESSED_LOGIT"):
        assert f"\n{name} = " in sources


@pytest.mark.skipif(BACKENDS["tensorrt"].unavailable_reason() is not None, reason="the backend is not available")
def test_a_tensorrt_engine_agrees_with_the_interpreter(tmp_path: Path) -> None:
    program = build(small(N=1), device="cuda", backend="tensorrt", folder=tmp_path / "compiled")
    assert disagreement(program)[Purpose.DECODE_STEP] < 1e-3  # TensorRT computes products in TF32
