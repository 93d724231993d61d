"""Everything in "Attention Is All You Need" as a declarative, graph-compiled model zoo.

    import zoo

    translator = zoo.load("transformer-tiny-ende")
    translator.translate("the old dog sees a small house")

Importing `zoo` does not import torch. Functions that need torch import it when they are called. They raise ImportError
if Python finds a package named `specs` or `compiler` that does not belong to zoo.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from zoo.entry_point import require_own_packages
from zoo.version import __version__ as __version__

if TYPE_CHECKING:
    from compiler import EmittedProgram, PaddedBatch
    from specs import Spec, Sublayer, ZooError
    from zoo.documents.translation import translate_document
    from zoo.generation.translator import Translator
    from zoo.models.find import names
    from zoo.training.run import Run
    from zoo.training.train import batches, save

__all__ = [
    "PaddedBatch",
    "Spec",
    "Translator",
    "ZooError",
    "batches",
    "load",
    "model",
    "names",
    "register_sublayer",
    "save",
    "spec",
    "train",
    "translate_document",
]

_LAZY_ATTRIBUTES = {
    "Spec": "specs",
    "PaddedBatch": "compiler",
    "ZooError": "specs",
    "names": "zoo.models.find",
    "Translator": "zoo.generation.translator",
    "batches": "zoo.training.train",
    "save": "zoo.training.train",
    "translate_document": "zoo.documents.translation",
}


def spec(reference: str | PathLike[str], overrides: Sequence[str] | Mapping[str, object] = ()) -> Spec:
    """Load a spec.

    Args:
        reference: The name of a spec that comes with zoo, such as "base", or the path of a YAML file.
        overrides: Fields to set, as strings (["architecture.h=4"]) or as a mapping ({"architecture": {"h": 4}}).

    Returns:
        The validated spec.

    Raises:
        ZooError: The spec cannot be read or is invalid. The error names the file and line, and gives a hint.

    Examples:
        >>> zoo.spec("big", ["architecture.N=12"]).architecture.N
        12
    """
    return cast("Spec", _import("specs").load(reference, overrides))


def load(
    name: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    max_batch_tokens: int | None = None,
) -> Translator:
    """Load a trained model for translation or parsing.

    A model that is not in the local model store is pulled from the registries. If no registry has the model, it is
    looked up in the catalogue of public models (`zoo list --available`). A model in the catalogue is downloaded,
    imported and stored, and its size and licence are printed. With ZOO_OFFLINE=1, nothing is downloaded.

    Warnings are issued through Python's `warnings` module. Weights are memory-mapped: do not overwrite the files of a
    model while it is loaded.

    Args:
        name: The name of a published model, optionally with a revision (`NAME@2`); the folder of a training run; the
            name of a spec that was trained; or the name of a model in the catalogue, such as `opus-mt-de-fr`. A list of
            several models with the same vocabulary forms an ensemble.
        device: "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".
        precision: "float32", "bfloat16" or "int8". Default: the precision in the spec.
        backend: "auto" or a backend that `zoo doctor` lists. Default: the backend in the spec.
        max_batch_tokens: Maximum number of source tokens in a batch, counting padding. Default: 4096.

    Returns:
        A translator. For a parsing model, this is a `Parser`.

    Raises:
        ZooError: The model does not exist, or one of its files is damaged.

    Examples:
        >>> translator = zoo.load("transformer-tiny-ende")
        >>> translator.translate(["the old dog sees a small house"])
        ['der alte Hund sieht ein kleines Haus']
    """
    opening, find = _import("zoo.generation.loading"), _import("zoo.models.find")
    report = _import("zoo.report").LibraryReport()
    options = {"device": device, "precision": precision, "backend": backend, "max_batch_tokens": max_batch_tokens}
    # This check precedes the search for the model, which may pull it.
    _import("compiler.options").check_names(precision=precision, backend=backend)
    references = [name] if isinstance(name, str | PathLike) else name
    folders = [folder for each in references for folder in find.models(each, report)]
    opened = [opening.open_model(folder, **options) for folder in folders]
    return cast("Translator", opening.Translator.ensemble(opened))


def train(
    spec: Spec | str | PathLike[str],
    *,
    run: str | PathLike[str] | None = None,
    fresh: bool = False,
    device: str = "auto",
    quiet: bool = False,
) -> Run:
    """Train a model, or resume its training.

    At the end, the last checkpoints are averaged, and the model is evaluated on the development set.

    Args:
        spec: A spec, or its name or path.
        run: Folder of the run. An existing run is resumed. Default: `runs/SPEC`.
        fresh: Whether to remove an existing run first.
        device: "auto" (the GPU if there is one), "cpu", "cuda" or "cuda:N".
        quiet: Whether to suppress messages and progress. Warnings are still issued.

    Returns:
        The training run. `run.folder` is its folder.

    Raises:
        ZooError: The spec is invalid, its corpus is unavailable, the run belongs to a different spec, or there is not
            enough memory or disk space.

    Examples:
        >>> run = zoo.train("tiny", quiet=True)
        >>> translator = zoo.load(run.folder)
    """
    training, reports = _import("zoo.training.train"), _import("zoo.report")
    report = reports.WarningsReport() if quiet else reports.LibraryReport()
    own = _import("zoo.models.find").run_of_spec_file(spec) if isinstance(spec, str | PathLike) else None
    folder = Path(run) if run is not None else own
    return cast("Run", training.train(_load_spec(spec), run=folder, fresh=fresh, device=device, report=report))


def model(spec: Spec | str | PathLike[str], *, device: str = "cpu") -> EmittedProgram:
    """Compile a spec to a trainable PyTorch module with random weights.

    Calling the module as `model(source, target)` returns the summed loss of a batch and the number of target tokens.
    The source is a `zoo.PaddedBatch`; `zoo.PaddedBatch.pad` creates one from lists of token IDs. `model.weights()`
    returns the weights in the layout of a weights file.

    Args:
        spec: A spec, or its name or path.
        device: "cpu", "cuda" or "cuda:N".

    Returns:
        The module.

    Raises:
        ZooError: The spec is invalid, or there is not enough memory to train the model.

    Examples:
        >>> network = zoo.model("tiny")
        >>> optimizer = torch.optim.Adam(network.parameters())
    """
    compiler = _import("compiler")
    loaded = _load_spec(spec)
    _import("zoo.planning.memory_estimate").require_memory_to_train(loaded, device)
    purposes = [compiler.Purpose.TRAIN, *compiler.TRANSLATE]
    return cast("EmittedProgram", compiler.build_module(loaded, purposes, device=device))


def register_sublayer(sublayer: type[Sublayer], lower: Callable[[Any, Any, Any], Any]) -> None:
    """Register a new kind of sub-layer, so that specs can use it in encoder and decoder layers in this process.

    Args:
        sublayer: Subclass of `specs.Sublayer` that defines the options for the sub-layer. Its `kind` field is a
            `Literal` with the name of the kind.
        lower: Function `lower(x, sublayer, context)` that returns the output of the sub-layer, with the shape of `x`.
            `x` is a `compiler.builder.Value`, and `context` a `compiler.lowering.context.LayerContext`.

    Raises:
        ZooError: The class is not a subclass of `specs.Sublayer` with exactly one kind, or the name of the kind is
            already taken.
    """
    specs, lowering = _import("specs"), _import("compiler.lowering.transformer")
    fields = sublayer.model_fields if isinstance(sublayer, type) and issubclass(sublayer, specs.Sublayer) else {}
    kinds = get_args(fields["kind"].annotation) if "kind" in fields else ()
    if len(kinds) != 1:
        problem = f"`{getattr(sublayer, '__name__', sublayer)}` is not a subclass of `specs.Sublayer` with one `kind`"
        raise specs.ZooError(problem, hint='pass a subclass with a field such as `kind: Literal["my_kind"]`')
    if kinds[0] in lowering.SUBLAYERS:
        hint = "choose another name; to replace a kind that you registered, restart Python"
        raise specs.ZooError(f"a kind of sub-layer named `{kinds[0]}` already exists", hint=hint)
    _import("specs.spec").add_sublayer_kind(sublayer)
    lowering.SUBLAYERS[kinds[0]] = lower


def _load_spec(reference: Spec | str | PathLike[str]) -> Spec:
    return reference if isinstance(reference, _import("specs").Spec) else spec(cast("str", reference))


def _import(module: str) -> Any:
    """Import a module of zoo, after checking that Python finds zoo's own `specs` and `compiler` packages."""
    require_own_packages("specs", "compiler")
    return import_module(module)


def __getattr__(name: str) -> Any:
    if name not in _LAZY_ATTRIBUTES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_import(_LAZY_ATTRIBUTES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
