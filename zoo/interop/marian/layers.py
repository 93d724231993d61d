"""Marian's matrices under our names. Its layout is ours: x W, one matrix for each that the paper names."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from specs import Architecture
from zoo.interop.marian.archive import Archive
from zoo.interop.marian.options import embedding_of_both, has_output_bias, tied_layers
from zoo.interop.numbering import Numbering
from zoo.interop.settings import Settings

Named = Iterator[tuple[str, Tensor]]
_PROJECTIONS = {"query": "q", "key": "k", "value": "v", "output": "o"}


def rows(within: Archive, options: Settings) -> tuple[int, int]:
    """Of the embeddings of source and target."""
    names = ("Wemb", "Wemb") if embedding_of_both(options) else ("encoder_Wemb", "decoder_Wemb")
    source, target = (within.shape(name)[0] for name in names)
    return source, target


def layers(within: Archive, options: Settings, of: Architecture) -> dict[str, Tensor]:
    """All tensors but those that have a row or a number for each token."""
    found: dict[str, Tensor] = {}
    for number in range(of.depths.encoder):
        found.update(_layer(within, f"encoder_l{number + 1}", f"encoder.{number}", of, "self_attention"))
    tied = tied_layers(options)
    for number, named in enumerate(tied):
        first = tied.index(named)
        if first == number:
            found.update(_layer(within, f"decoder_l{named}", f"decoder.{number}", of, of.decoder[0].kind))
        else:
            found |= _again(found, f"decoder.{first}.", f"decoder.{number}.")
    if of.norm == "pre":
        for side in ("encoder", "decoder"):
            found.update(_norm(within, f"{side}_top", "", side, of.d_model))
    return found


def embeddings(within: Archive, options: Settings, of: Architecture, numberings: tuple[Numbering, Numbering]) -> Named:
    """Those that have, in our order of the tokens of source and target."""
    source, target = numberings
    if of.tied_embeddings == "all":
        yield "embedding", source.rows(within.take("Wemb"))
    else:
        both = within.take("Wemb") if embedding_of_both(options) else None
        yield "source_embedding", source.rows(within.take("encoder_Wemb") if both is None else both)
        yield "target_embedding", target.rows(within.take("decoder_Wemb") if both is None else both)
    output = "decoder_ff_logit_out"
    if of.tied_embeddings == "none":
        as_in_old_ones = within.has(f"{output}_W")
        table = within.take(f"{output}_W").T if as_in_old_ones else within.take(f"{output}_Wt")
        yield "output_projection", target.rows(table)
    yield "output_bias", target.bias(within.take(f"{output}_b") if has_output_bias(options) else None)


def _layer(within: Archive, theirs: str, ours: str, of: Architecture, first: str) -> Named:
    if first == "ssru":
        yield from _ssru(within, f"{theirs}_rnn", f"{ours}.ssru", of)
    else:
        yield from _attention(within, f"{theirs}_self", f"{ours}.self_attention", of)
    if ours.startswith("decoder"):
        yield from _attention(within, f"{theirs}_context", f"{ours}.cross_attention", of)
    for number, (rows, columns) in enumerate(((of.d_model, of.d_ff), (of.d_ff, of.d_model)), start=1):
        yield f"{ours}.feed_forward.w{number}", within.take(f"{theirs}_ffn_W{number}", rows, columns)
        yield f"{ours}.feed_forward.b{number}", within.vector(f"{theirs}_ffn_b{number}", columns)
    yield from _norm(within, f"{theirs}_ffn_ffn", _suffix(of), f"{ours}.feed_forward", of.d_model)


def _again(found: dict[str, Tensor], there: str, here: str) -> dict[str, Tensor]:
    """The same layer once more: a weights file has no tensor under two names."""
    return {here + name.removeprefix(there): tensor.clone() for name, tensor in found.items() if name.startswith(there)}


def _attention(within: Archive, theirs: str, ours: str, of: Architecture) -> Named:
    for name, letter in _PROJECTIONS.items():
        yield f"{ours}.{name}", within.take(f"{theirs}_W{letter}", of.d_model, of.d_model)
        yield f"{ours}.{name}_bias", within.vector(f"{theirs}_b{letter}", of.d_model)
    yield from _norm(within, f"{theirs}_Wo", _suffix(of), ours, of.d_model)


def _ssru(within: Archive, theirs: str, ours: str, of: Architecture) -> Named:
    yield f"{ours}.value", within.take(f"{theirs}_W", of.d_model, of.d_model)
    yield f"{ours}.gate", within.take(f"{theirs}_Wf", of.d_model, of.d_model)
    yield f"{ours}.gate_bias", within.vector(f"{theirs}_bf", of.d_model)
    yield from _norm(within, theirs if of.norm == "pre" else f"{theirs}_ffn", _suffix(of), ours, of.d_model)


def _norm(within: Archive, theirs: str, suffix: str, ours: str, width: int) -> Named:
    yield f"{ours}.norm_gain", within.vector(f"{theirs}_ln_scale{suffix}", width)
    yield f"{ours}.norm_bias", within.vector(f"{theirs}_ln_bias{suffix}", width)


def _suffix(of: Architecture) -> str:
    return "_pre" if of.norm == "pre" else ""
