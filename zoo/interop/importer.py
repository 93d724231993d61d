"""Import of other toolkits' models, from files or the Hugging Face Hub, into the local model store (`zoo import`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import specs
from specs import Spec, ZooError
from zoo.files.storage import require_space
from zoo.interop.formats import UNKNOWN_LANGUAGES, ImportRequest, are_language_codes
from zoo.interop.huggingface.hub import HubModel, licence_of_card
from zoo.interop.import_formats import find_format, read_foreign
from zoo.models.folder import ModelFolder
from zoo.models.local_store import StoredModel
from zoo.models.registries.revision import is_name
from zoo.publishing.provenance import Provenance
from zoo.publishing.publish import complete, new_bundle
from zoo.report import Report


def import_model(source: str, request: ImportRequest, report: Report) -> Path:
    """Import a model from another toolkit into the local model store.

    Args:
        source: A file, a folder, or `hf:ORG/NAME`.
        request: The options of the import.
        report: Receives notes, warnings and the progress.

    Returns:
        The folder of the imported model in the local model store.

    Raises:
        ZooError: The format is unknown, the model is damaged or has a property that zoo does not support, or the
            name is invalid or in use. In all these cases, nothing is written.
    """
    with stage_import(source, request, report) as bundle:
        name = bundle.spec.name
    return StoredModel.current(name).folder


@contextmanager
def stage_import(source: str, request: ImportRequest, report: Report) -> Iterator[ModelFolder]:
    """Import a model into a temporary folder, and move it into the local model store at the end of the `with` block.

    The arguments and errors are the same as for `import_model`. If the block raises an exception, nothing is written.
    """
    if request.languages and not are_language_codes(request.languages):
        problem = f"`--languages {' '.join(request.languages)}` must be two language codes"
        raise ZooError(problem, hint="use language codes, such as in `--languages en de`")
    if re.match(r"\w+://", source):
        problem = f"`{source}` is a URL, but models are imported from files and folders"
        hint = "download the model first, or write `hf:ORG/NAME` for a model on the Hugging Face Hub"
        raise ZooError(problem, hint=hint)
    hub = HubModel.parse(source)
    path = hub.download(report) if hub else Path(source)
    origin_name = hub.name if hub else path.absolute().name
    name = request.name or _default_name(origin_name)
    if not is_name(name):
        hint = "choose a name with `--name NAME`: letters, digits and `-_.,`, beginning with a letter or a digit"
        raise ZooError(f"`{name}` is not a valid name for a model", hint=hint)
    format = find_format(path, request.format)
    format.check_options(request)

    with new_bundle(name, replace=request.replace) as bundle:
        imported = read_foreign(format, path, replace(request, name=name, origin_name=origin_name))
        model = imported.model
        for note in (*imported.notes, *_notes_for_user(model.spec)):
            report.info(f"note: {note}")
        origin = {"format": format.name, "source": source if hub else origin_name, **imported.origin}
        updated = {"licence": licence_of_card(path) or request.licence}
        if request.description:
            updated["description"] = request.description
        require_space(bundle.folder, sum(tensor.nbytes for tensor in model.weights.tensors.values()), "the bundle")
        replace(model, spec=model.spec.model_copy(update=updated)).write(bundle)
        provenance = Provenance(imported={**origin, **request.facts}, notes=imported.notes)
        del imported, model  # free their memory, because the next lines load the bundle
        complete(bundle, provenance, report)
        yield bundle


def _notes_for_user(spec: Spec) -> Iterator[str]:
    """Yield notes that are only for the user who imports the model, and not for the model card."""
    if spec.languages is None and (spec.corpus.source, spec.corpus.target) == UNKNOWN_LANGUAGES:
        yield "the languages of the model are unknown: set them with `--languages`, such as `--languages en de`"
    if spec.name in specs.names():
        yield (
            f"`{spec.name}` is also the name of a spec included in zoo: `--model {spec.name}` now selects the "
            "imported model. To avoid that, choose another name with `--name`"
        )


def _default_name(origin_name: str) -> str:
    """Derive a name for the imported model: the last part of the original name, without invalid characters."""
    stem = re.sub(r"\.(npz|pt|bin|decoder\.yml|yml)$", "", origin_name.rpartition("/")[2])
    return re.sub(r"[^-_,.A-Za-z0-9]+", "-", stem).strip("-.")
