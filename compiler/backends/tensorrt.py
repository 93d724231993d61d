"""The `tensorrt` backend: compiles the encoder and the decoder step to TensorRT engines, with torch-tensorrt.

NVIDIA distributes TensorRT's libraries, which are not on PyPI. The tests of this module do not need the libraries. The
tests cover request checks, profiles, settings, exported programs, and the names of the weights to refit.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends import export
from compiler.backends.backend import Backend, BuildRequest, weights_digest
from compiler.backends.export import TRANSLATING, artefact_key, assemble_program, export_programs, fixed_sizes
from compiler.decoder import CACHE_BLOCK
from compiler.emitted import EmittedProgram
from compiler.graph import Graph
from compiler.operations.operation import ValueKind
from compiler.program import MAX_PREFIX_TOKENS
from specs import Spec, ZooError, install_hint


class Profile(NamedTuple):
    """Optimisation profile for one input of an engine: its minimum, optimal and maximum shapes."""

    min: tuple[int, ...]
    usual: tuple[int, ...]
    max: tuple[int, ...]


def input_profiles(graph: Graph, spec: Spec) -> dict[str, Profile]:
    """Return an optimisation profile for each graph input, keyed by name.

    The profiles cover shapes from one sentence to a large batch of the longest sentences.
    """
    longest = spec.corpus.max_length + 1
    max_target = int(longest * spec.decoding.length_factor) + spec.decoding.extra_length
    capacity = -(-(max_target + 1) // CACHE_BLOCK) * CACHE_BLOCK  # the decoder also reads BOS
    beam = spec.decoding.beam
    smallest = {"batch": 1, "beams": 1, "source": 1, "capacity": CACHE_BLOCK, "new": 1}
    usual = {"batch": 32, "beams": beam, "source": min(32, longest), "new": 1}
    usual["capacity"] = min(2 * CACHE_BLOCK, capacity)
    largest = {"batch": 256, "beams": max(8, beam), "source": longest, "capacity": capacity, "new": MAX_PREFIX_TOKENS}
    largest |= fixed_sizes(graph)
    return {
        name: Profile(*(type_.concrete(**sizes) for sizes in (smallest, usual, largest)))
        for name, type_ in graph.inputs.items()
    }


def compile_settings(version: str, device: str) -> dict[str, Any]:
    """Return the options for torch-tensorrt's compiler. Their names depend on the version of torch-tensorrt."""
    settings: dict[str, Any] = {
        "device": device,
        "require_full_compilation": False,  # sinusoids are computed in float64, which TensorRT does not have
        "min_block_size": 1,
        "truncate_double": False,
        "immutable_weights": False,  # allow replacing the weights of an engine
        "cache_built_engines": False,  # torch-tensorrt's cache key ignores the topology; we cache engines ourselves
        "reuse_cached_engines": False,
        "decompose_attention": True,  # the attention converter needs queries, keys and values of one shape
        "attn_bias_is_causal": False,  # by default, torch-tensorrt treats a padding mask as a causal mask
    }
    if tuple(map(int, version.split(".")[:2])) < (2, 12):
        settings |= {"use_explicit_typing": True, "enabled_precisions": {torch.float32}}  # later versions' defaults
    return settings


def engine_key(request: BuildRequest, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the cache key of the engines: everything that the engines depend on, except for the weights."""
    profiles = [input_profiles(request.graphs[purpose], request.spec) for purpose in TRANSLATING]
    return {**artefact_key(request), "profiles": str(profiles), **versions}


def _build(request: BuildRequest) -> EmittedProgram:  # pragma: no cover  (needs TensorRT's libraries)
    import tensorrt
    import torch_tensorrt

    versions = {
        "torch_tensorrt": torch_tensorrt.__version__,
        "tensorrt": tensorrt.__version__,
        "gpu": torch.cuda.get_device_name(request.device),
        "device": request.device,
    }
    artefact = Artefact(request.folder, "tensorrt", engine_key(request, versions))
    folder = artefact.make(lambda empty: _compile(request, empty, torch_tensorrt))
    has_same_weights = (folder / "weights").read_text(encoding="utf-8") == weights_digest(request.weights)
    programs = {} if has_same_weights else export_programs(request)
    engines = {}
    for purpose in TRANSLATING:
        loaded = torch_tensorrt.load(str(folder / f"{purpose}.ep"))
        if not has_same_weights:
            loaded = torch_tensorrt.dynamo.refit_module_weights(loaded, programs[purpose])
        module = loaded.module() if hasattr(loaded, "module") else loaded
        engines[purpose] = _Engine(module, request.graphs[purpose], request.spec)
    return assemble_program(request, engines, "tensorrt")


def _compile(request: BuildRequest, folder: Path, torch_tensorrt: Any) -> None:  # pragma: no cover
    for purpose, program in export_programs(request).items():
        graph = request.graphs[purpose]
        float_type = getattr(torch, next(iter(graph.parameters.values())).type)
        types = {ValueKind.INTEGER: torch.int64, ValueKind.MASK: torch.bool, ValueKind.FLOAT: float_type}
        inputs = [
            torch_tensorrt.Input(
                min_shape=profile.min,
                opt_shape=profile.usual,
                max_shape=profile.max,
                dtype=types[graph.inputs[name].kind],
            )
            for name, profile in input_profiles(graph, request.spec).items()
        ]
        settings = compile_settings(torch_tensorrt.__version__, request.device)
        engine = torch_tensorrt.dynamo.compile(program, inputs, **settings)
        torch_tensorrt.save(engine, str(folder / f"{purpose}.ep"), output_format="exported_program", retrace=False)
    (folder / "weights").write_text(weights_digest(request.weights), encoding="utf-8")


class _Engine:
    """Loaded TensorRT engine. Each call checks that the shapes of the inputs fit the engine's profiles."""

    def __init__(self, module: Any, graph: Graph, spec: Spec) -> None:
        self.module, self.profiles = module, input_profiles(graph, spec)

    def __call__(self, inputs: list[Tensor]) -> Sequence[Tensor]:
        check_shapes(self.profiles, inputs)
        outputs: Sequence[Tensor] = self.module(*inputs)
        return outputs


def check_shapes(profiles: Mapping[str, Profile], inputs: Sequence[Tensor]) -> None:
    """Raise ZooError if an input is larger than the largest shape for which the engine was built."""
    for (name, profile), tensor in zip(profiles.items(), inputs, strict=True):
        if any(size > limit for size, limit in zip(tensor.shape, profile.max, strict=True)):
            raise ZooError(
                f"the input `{name}` has the shape {list(tensor.shape)}, but the TensorRT engine was built for at most "
                f"{list(profile.max)}",
                hint="raise `corpus.max_length` or `decoding.beam`, lower `--max-batch-tokens`, or use another backend",
            )


def _unavailable_reason() -> str | None:
    if importlib.util.find_spec("torch_tensorrt") is None or importlib.util.find_spec("tensorrt") is None:
        return (
            f"torch-tensorrt or TensorRT is not installed: {install_hint('tensorrt')}. "
            "This command installs torch-tensorrt. NVIDIA's libraries (`tensorrt-cu13-libs`) are not on PyPI; pip "
            "fetches them from NVIDIA's package index"
        )
    return None if torch.cuda.is_available() else "it needs an NVIDIA GPU, but torch finds none: use another backend"


def _refuse(request: BuildRequest) -> str | None:
    longest, positions = request.spec.corpus.max_length, request.spec.architecture.max_positions
    if positions is not None and longest >= positions:
        return (
            f"its engines need {longest + 1} positions, but the model has {positions} learned positions: "
            "lower `corpus.max_length`"
        )
    return export.refuse(request)


tensorrt = Backend(
    name="tensorrt",
    summary="TensorRT engines for one kind of NVIDIA GPU",
    unavailable_reason=_unavailable_reason,
    build=_build,
    device="cuda",
    precisions=("float32", "bfloat16"),
    refuse=_refuse,
)
