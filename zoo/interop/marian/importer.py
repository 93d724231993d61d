"""Import Marian models: options become the `architecture` of a spec, and matrices get zoo's names.

The layout is the same in Marian and zoo: x @ W, with one matrix for each matrix of the paper.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from specs import Spec
from zoo.interop.formats import ImportedModel, ImportFormat, ImportRequest, assemble
from zoo.interop.marian.files import (
    SUFFIX,
    is_binary_model,
    model_files,
    network_options,
    read_arrays,
    read_decoder,
    tensors_of,
)
from zoo.interop.marian.vocabulary import read_shortlist, read_vocabulary, shortlist_files
from zoo.interop.tables import Settings, read_settings, read_tensors, tensor_layout
from zoo.interop.tensors import EmbeddingTables, ForeignTensors

_CONTROL_CHARACTERS = {f"<0x{number:02X}>" for number in range(32)}
"""Names of the tokens that represent bytes of control characters."""
_SCRIPTS = ("preprocess.sh", "postprocess.sh")
_SEARCH_NOTE = (
    "translations differ from Marian's, because Marian computes pre-norm models differently in search and in training. "
    "From the second token on, its search does not normalise keys and values. zoo normalises them, as in training"
)
_FIRST_WITH_NORMALISED_KEYS = (1, 10, 42)
"""First version of Marian that always normalises keys and values in the self-attention of pre-norm models.

Commit 14042019 of marian-dev (October 2021) added this normalisation. Versions up to 1.10.23, and 1.10.25 to 1.10.27,
do not have this commit. Builds of 1.10.24 and 1.10.28 exist with and without the commit. There is no version between
1.10.28 and 1.10.42.
"""
_OUTPUT = "decoder_ff_logit_out"


class MarianImport(ImportFormat):
    """The `marian` import format."""

    name = "marian"

    def recognises(self, path: Path) -> bool:
        """Return whether the path is an .npz or .bin file, a `decoder.yml`, or a folder that contains such a file."""
        if path.is_dir():
            return any(path.glob(f"*{SUFFIX}")) or len(model_files(path)) == 1
        return path.name.endswith((SUFFIX, ".npz")) or is_binary_model(path)

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        # A damaged model is reported before missing vocabularies.
        arrays = read_arrays(path) if path.suffix in (".npz", ".bin") else None
        decoder = read_decoder(path, request.languages)
        arrays = arrays or read_arrays(decoder.model)
        options = network_options(arrays, decoder.model)
        tensors = tensors_of(arrays, decoder.model)
        architecture = _architecture_fields(options)
        tables = _read_embeddings(tensors, options)
        rows = len(tables.source), len(tables.target)
        vocabulary = read_vocabulary(decoder.vocabularies, rows, request)
        control_characters = [id for id, name in enumerate(vocabulary.target.names) if name in _CONTROL_CHARACTERS]
        suppressed = [*decoder.decoding["suppressed_tokens"], *control_characters]
        decoding = {**decoder.decoding, "suppressed_tokens": suppressed}
        description = f"Imported from Marian's {decoder.model.name}."
        layers = partial(_read_layers, options)
        model = assemble(request, description, architecture, tables, vocabulary, decoding, tensors, layers)
        version = str(options.any("version", "")).split(" ")[0]
        origin = {"engine": f"Marian {version}".strip()}
        notes = [*decoder.notes, *vocabulary.notes, *([] if _searches_as_trained(model.spec) else [_SEARCH_NOTE])]
        for name in _SCRIPTS:
            if decoder.model.with_name(name).is_file():
                notes.append(f"zoo does not run the script `{name}`: the model receives unprocessed text")
        files = shortlist_files(decoder.model.parent)
        if len(files) == 1:
            model = replace(model, shortlist=read_shortlist(files[0], vocabulary, rows))
            use = "to use it, add `--shortlist --backend native` to `zoo decode`"
            notes.append(f"the shortlist `{files[0].name}` is imported; {use}")
        elif files:
            found = f"{len(files)} shortlists ({', '.join(file.name for file in files)})"
            notes.append(f"the folder has {found}, so none is imported; keep one shortlist and import the model again")
        return ImportedModel(model, origin, tuple(notes))


def _searches_as_trained(spec: Spec) -> bool:
    """Return whether Marian computes the same function in search as in training.

    In pre-norm models, Marian normalises the keys and values of self-attention only if they are computed from the same
    tensor as the queries. In search, keys and values come from the inputs of all steps so far, so Marian does not
    normalise them.
    """
    return spec.architecture.norm.placement != "pre" or spec.architecture.decoder[0].kind != "self_attention"


def _architecture_fields(options: Settings) -> dict[str, Any]:
    """Convert a Marian model's options to fields of `architecture`. Raise ZooError if an option is not supported."""
    fields = read_settings(options, "marian")
    d_ff = fields["d_ff"]
    if options.integer("transformer-decoder-dim-ffn", 0) not in (0, d_ff):
        problem = f"differs from the encoder's `transformer-dim-ffn: {d_ff}`, but zoo supports one `d_ff`"
        raise options.error("transformer-decoder-dim-ffn", problem)
    return {
        **fields,
        "encoder": [{"kind": "self_attention"}, {"kind": "feed_forward"}],
        "decoder": [{"kind": _first_sublayer(options)}, {"kind": "cross_attention"}, {"kind": "feed_forward"}],
        "norm": {**fields["norm"], "placement": _norm_placement(options)},
    }


def _first_sublayer(options: Settings) -> str:
    """Return the kind of the first sub-layer in each decoder layer: `self_attention` or `ssru`."""
    if options.any("transformer-decoder-autoreg", "self-attention") == "rnn":
        options.require({"dec-cell": ("ssru",), "layer-normalization": (False,)})
        return "ssru"
    options.ignore("dec-cell", "layer-normalization")
    return "self_attention"


def _norm_placement(options: Settings) -> str:
    """Return `post` for a post-norm model, or `pre` for a pre-norm model. Raise ZooError for other models.

    The value of each Marian option is a string of operations, one per letter: `d` applies dropout, `a` adds the
    residual connection, and `n` normalises.
    """
    defaults = {"preprocess": "", "postprocess": "dan", "postprocess-top": "", "postprocess-emb": "d"}
    steps = tuple(options.text(f"transformer-{key}", default).replace("d", "") for key, default in defaults.items())
    if steps == ("", "an", "", ""):
        return "post"
    if steps == ("n", "a", "n", ""):
        _require_normalised_keys(options)
        return "pre"
    values = ", ".join(f"`{key}: {options.any(f'transformer-{key}', '')}`" for key in defaults)
    raise options.error(
        "transformer-preprocess",
        f"belongs to a model that is neither post-norm nor pre-norm ({values}); zoo imports only post-norm "
        "(`postprocess: dan`) and pre-norm (`preprocess: n`, `postprocess: da`, `postprocess-top: n`)",
    )


def _require_normalised_keys(options: Settings) -> None:
    """Raise ZooError if a pre-norm model comes from an old Marian version that might not normalise keys and values."""
    numbers = re.match(r"v?(\d+)\.(\d+)\.(\d+)", options.text("version"))
    if numbers is None:
        raise options.error(
            "version", "does not begin with the number of the Marian version that trained the model, such as v1.12.0"
        )
    if tuple(map(int, numbers.groups())) < _FIRST_WITH_NORMALISED_KEYS:
        raise options.error(
            "version",
            "is older than 1.10.42: in pre-norm models, such versions may not normalise the keys and values of "
            "self-attention, which zoo does not support",
            "translate with the Marian version that trained the model, or train it again with Marian 1.11 or later",
        )


def _read_embeddings(source: ForeignTensors, options: Settings) -> EmbeddingTables:
    """Pop the embeddings, the output projection and its bias from `source`."""
    names = ("tied-embeddings-all", "tied-embeddings-src", "tied-embeddings", "output-omit-bias")
    all_tied, sources_tied, targets_tied, without_bias = (options.boolean(name, False) for name in names)
    if all_tied or sources_tied:
        encoder = decoder = source.take("Wemb")
    else:
        encoder, decoder = source.take("encoder_Wemb"), source.take("decoder_Wemb")
    if all_tied or targets_tied:
        output = decoder
    elif f"{_OUTPUT}_W" in source:  # old versions of Marian
        output = source.take(f"{_OUTPUT}_W").T
    else:
        output = source.take(f"{_OUTPUT}_Wt")
    bias = None if without_bias else source.take(f"{_OUTPUT}_b")
    scale = decoder.shape[-1] ** 0.5
    return EmbeddingTables(encoder, decoder, output, bias, scale, scale)


def _read_layers(options: Settings, source: ForeignTensors, spec: Spec) -> dict[str, Tensor]:
    """Pop the tensors of all layers from `source`. Return tensors with zoo's names.

    Raise ZooError if a tensor is missing or does not have the shape that `spec` requires, or an option is unknown.
    """
    for number, original in enumerate(_tied_layers(options), start=1):
        if number != original:  # a weights file has no aliases, so the tensors of the original layer are copied
            prefix = f"decoder_l{original}_"
            own = {name: tensor for name, tensor in source.items() if name.startswith(prefix)}
            source.update({f"decoder_l{number}_{name.removeprefix(prefix)}": tensor for name, tensor in own.items()})
    section = "marian.pre" if spec.architecture.norm.placement == "pre" else "marian"
    tensors = read_tensors(source, tensor_layout(section).rows(spec))
    options.require_all_known()
    return tensors


def _tied_layers(options: Settings) -> list[int]:
    """Return, for each decoder layer, the 1-based number of the layer whose weights it uses."""
    depth = options.integer("dec-depth", minimum=1)
    tied = options.any("transformer-tied-layers", []) or list(range(1, depth + 1))
    if not isinstance(tied, list) or len(tied) != depth or any(layer not in range(1, depth + 1) for layer in tied):
        raise options.error("transformer-tied-layers", f"must list {depth} layer numbers, one per decoder layer")
    return tied
