"""Import of models of Marian."""

from __future__ import annotations

from pathlib import Path

from specs import UNK, Spec
from zoo.interop.formats import ImportedModel, ImportRequest, imported_spec
from zoo.interop.marian.decoder import SUFFIX, model_files, read_decoder
from zoo.interop.marian.files import is_binary_model, network_options, read_arrays, tensors_of
from zoo.interop.marian.network import architecture_fields, read_embeddings, read_layers
from zoo.interop.marian.vocabulary import read_shortlist, read_vocabulary, shortlist_files

_SCRIPTS = ("preprocess.sh", "postprocess.sh")
_SEARCH_NOTE = (
    "translations differ from those of Marian, whose search does not compute pre-norm models as they were trained. "
    "From the second token on, Marian's decoder does not normalise keys and values; zoo normalises them, as in training"
)


class MarianImport:
    """The import format `marian`. Implements `zoo.interop.formats.ImportFormat`."""

    name = "marian"
    description = "Marian's .npz or .bin, or its folder with decoder.yml and .spm or .yml vocabularies"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is an .npz or .bin file, a `decoder.yml`, or a folder with one of them."""
        if path.is_dir():
            return any(path.glob(f"*{SUFFIX}")) or len(model_files(path)) == 1
        return path.name.endswith((SUFFIX, ".npz")) or is_binary_model(path)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        arrays = read_arrays(path) if path.suffix in (".npz", ".bin") else None
        decoder = read_decoder(path)
        arrays = arrays or read_arrays(decoder.model)
        options = network_options(arrays, decoder.model)
        tensors = tensors_of(arrays, decoder.model)
        architecture = architecture_fields(options)
        tables = read_embeddings(tensors, options)
        rows = len(tables.source), len(tables.target)
        vocabulary = read_vocabulary(decoder.vocabularies, rows, request)
        embeddings, fields = tables.converted(vocabulary.source, vocabulary.target)
        suppressed = [*([UNK] if decoder.suppresses_unknown else []), *vocabulary.control_characters]
        spec = imported_spec(
            request,
            f"Imported from Marian's {decoder.model.name}.",
            architecture={**architecture, **fields},
            vocabulary=vocabulary.fields,
            decoding={**decoder.decoding, "suppressed_tokens": suppressed},
        )
        layers = read_layers(tensors, options, spec)
        options.require_all_known()
        tensors.require_all_taken()
        version = str(options.any("version", "")).split(" ")[0]
        origin = {"format": self.name, "source": decoder.model.name, "engine": f"Marian {version}".strip()}
        scripts = [name for name in _SCRIPTS if decoder.model.with_name(name).is_file()]
        script_notes = (
            f"zoo does not run the script `{name}`: the model receives unprocessed text" for name in scripts
        )
        search_notes = () if _searches_as_trained(spec) else (_SEARCH_NOTE,)
        notes = (*decoder.notes, *vocabulary.notes, *search_notes, *script_notes)
        files, shortlist = shortlist_files(decoder.model.parent), None
        if len(files) == 1:
            shortlist = read_shortlist(files[0], vocabulary, rows)
            use = "to use it, add `--shortlist --backend native` to `zoo decode`"
            notes += (f"the shortlist `{files[0].name}` is imported; {use}",)
        elif files:
            names = ", ".join(file.name for file in files)
            notes += (
                f"the folder has {len(files)} shortlists ({names}), so none is imported; leave one and import again",
            )
        return ImportedModel(spec, vocabulary.vocabulary, {**layers, **embeddings}, origin, notes, shortlist)


def _searches_as_trained(spec: Spec) -> bool:
    """Return whether Marian's search computes the model as it was trained.

    In pre-norm models, Marian normalises the keys and values of self-attention only if they are computed from the same
    tensor as the queries. In its search, they come from the inputs of all steps so far, and are not normalised.
    """
    return spec.architecture.norm.placement != "pre" or spec.architecture.decoder[0].kind != "self_attention"
