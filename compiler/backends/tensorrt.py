"""Encoder and step as TensorRT engines: torch.export, then torch-tensorrt, the caches in and out.

TensorRT's libraries are NVIDIA's and not on the package index. What needs none of them (what is refused, the profiles,
the settings, the exported programs, the names to refit by) is tested everywhere, the rest where they are.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import Backend, Order, digest
from compiler.backends.export import TRANSLATING, assembled, exports, written_by
from compiler.backends.export import refuses as none_does
from compiler.decoder import ROOMS
from compiler.emit import emit
from compiler.emitted import EmittedProgram
from compiler.graph import Graph
from compiler.operations.operation import ValueKind
from specs import Spec, ZooError


class Profile(NamedTuple):
    """Of one input: its smallest, its usual and its largest shape. An engine is built for these and takes no others."""

    least: tuple[int, ...]
    usual: tuple[int, ...]
    most: tuple[int, ...]


def sizes(spec: Spec) -> dict[str, Profile]:
    """Of each symbolic size, as shapes of one dimension: from a sentence alone to a large batch of the longest."""
    longest = spec.corpus.max_length + 1
    written = int(longest * spec.decoding.length_factor) + spec.decoding.extra_length
    rooms = -(-(written + 1) // ROOMS) * ROOMS  # BOS is read, too
    every = {
        "batch": (1, 32, 256),
        "beams": (1, spec.decoding.beam, max(8, spec.decoding.beam)),
        "source": (1, min(32, longest), longest),
        "capacity": (ROOMS, min(2 * ROOMS, rooms), rooms),
        "new": (1, 1, 1),
    }
    return {name: Profile(*((size,) for size in three)) for name, three in every.items()}


def profiles(graph: Graph, spec: Spec) -> dict[str, Profile]:
    """Of each input of a graph."""
    every = sizes(spec)
    at = [{name: profile[i][0] for name, profile in every.items()} for i in range(3)]
    return {
        name: Profile(*(tuple(size(**values) for size in type_.shape) for values in at))
        for name, type_ in graph.inputs.items()
    }


def settings(version: str, device: str) -> dict[str, Any]:
    """What torch-tensorrt's compiler is told, in the words of its version."""
    chosen: dict[str, Any] = {
        "device": device,
        "require_full_compilation": False,  # sinusoids are made in float64, which TensorRT does not have
        "min_block_size": 1,
        "truncate_double": False,
        "immutable_weights": False,  # so that other weights go into the same engine
        "cache_built_engines": False,  # its key ignores the topology: engines are kept by our own
        "reuse_cached_engines": False,
        "decompose_attention": True,  # its converter wants queries, keys and values of one shape
        "attn_bias_is_causal": False,  # the default makes a causal mask of one that hides padding
    }
    if tuple(map(int, version.split(".")[:2])) < (2, 12):
        chosen |= {"use_explicit_typing": True, "enabled_precisions": {torch.float32}}  # later ones always do
    return chosen


def fingerprint(order: Order, versions: Mapping[str, str]) -> dict[str, str]:
    """What engines follow from, weights apart."""
    return {
        "code": str(emit(order.graphs.values())),
        "inputs": str([(p, g.inputs, g.parameters) for p, g in order.graphs.items()]),
        "written by": written_by(__file__),
        "profiles": str([profiles(order.graphs[p], order.spec) for p in TRANSLATING]),
        **versions,
    }


def _build(order: Order) -> EmittedProgram:  # pragma: no cover  (needs TensorRT's libraries)
    import tensorrt
    import torch_tensorrt

    versions = {"torch": torch.__version__, "torch_tensorrt": torch_tensorrt.__version__}
    versions |= {"tensorrt": tensorrt.__version__, "gpu": torch.cuda.get_device_name(order.device)}
    versions["device"] = order.device
    artefact = Artefact(order.folder, "tensorrt", fingerprint(order, versions))
    folder = artefact.make(lambda empty: _compile(order, empty, torch_tensorrt))
    same = (folder / "weights").read_text(encoding="utf-8") == digest(order.weights)
    programs = {} if same else exports(order)
    engines = {}
    for purpose in TRANSLATING:
        loaded = torch_tensorrt.load(str(folder / f"{purpose}.ep"))
        if not same:
            loaded = torch_tensorrt.dynamo.refit_module_weights(loaded, programs[purpose])
        graph = order.graphs[purpose]
        engines[purpose] = _Engine(loaded.module() if hasattr(loaded, "module") else loaded, graph, order.spec)
    return assembled(order, engines, "tensorrt")


def _compile(order: Order, folder: Path, torch_tensorrt: Any) -> None:  # pragma: no cover
    for purpose, program in exports(order).items():
        graph = order.graphs[purpose]
        float_type = getattr(torch, next(iter(graph.parameters.values())).type)
        inputs = [
            torch_tensorrt.Input(
                min_shape=profile.least,
                opt_shape=profile.usual,
                max_shape=profile.most,
                dtype=torch.int64 if graph.inputs[name].kind is ValueKind.INTEGER else float_type,
            )
            for name, profile in profiles(graph, order.spec).items()
        ]
        chosen = settings(torch_tensorrt.__version__, order.device)
        made = torch_tensorrt.dynamo.compile(program, inputs, **chosen)
        torch_tensorrt.save(made, str(folder / f"{purpose}.ep"), output_format="exported_program", retrace=False)
    (folder / "weights").write_text(digest(order.weights), encoding="utf-8")


class _Engine:
    """An engine that is loaded, and says itself what does not fit its profiles."""

    def __init__(self, module: Any, graph: Graph, spec: Spec) -> None:
        self.module, self.profiles = module, profiles(graph, spec)

    def __call__(self, inputs: list[Tensor]) -> Sequence[Tensor]:
        check(self.profiles, inputs)
        found: Sequence[Tensor] = self.module(*inputs)
        return found


def check(wanted: Mapping[str, Profile], inputs: Sequence[Tensor]) -> None:
    """Raises ZooError where an input is of a shape that the engine was not built for."""
    for (name, profile), given in zip(wanted.items(), inputs, strict=True):
        if any(size > most for size, most in zip(given.shape, profile.most, strict=True)):
            raise ZooError(
                f"`{name}` is {list(given.shape)}, and the TensorRT engine was built for at most {list(profile.most)}",
                hint="raise `corpus.max_length` or `decoding.beam`, lower `--tokens`, or take another backend",
            )


def _absent() -> str | None:
    if importlib.util.find_spec("torch_tensorrt") is None or importlib.util.find_spec("tensorrt") is None:
        return (
            "torch-tensorrt and TensorRT's libraries are not installed: `pip install -e '.[tensorrt]'` in zoo's own "
            "folder has the first; the libraries (`tensorrt-cu13-libs`) are NVIDIA's own and not on the package index: "
            "pip fetches them from NVIDIA's"
        )
    return None if torch.cuda.is_available() else "it needs an NVIDIA GPU, and torch sees none"


def _refuses(order: Order) -> str | None:
    if not order.device.startswith("cuda"):
        return f"it runs on an NVIDIA GPU, not on `{order.device}`"
    longest = order.spec.corpus.max_length
    if order.spec.architecture.positional_encoding == "learned" and longest >= order.spec.architecture.max_positions:
        return "its engines would take more positions than the spec has learned"
    return none_does(order)


tensorrt = Backend(
    name="tensorrt",
    summary="TensorRT engines for one kind of NVIDIA GPU",
    absent=_absent,
    refuses=_refuses,
    build=_build,
)
