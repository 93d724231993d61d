"""A folder of Hugging Face's Marian: read, and put together as ours."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from specs import ZooError
from zoo.files.reading import file_exists, read_json
from zoo.interop.huggingface import tensors, vocabularies
from zoo.interop.huggingface.config import architecture, shares_embeddings
from zoo.interop.huggingface.engine import Transformers
from zoo.interop.huggingface.generation import KEYS, generation
from zoo.interop.huggingface.vocabularies import Special
from zoo.interop.imported import Engine, Imported, Positions, Wanted, are_codes, require_folder
from zoo.interop.settings import Settings
from zoo.interop.spec import imported_spec

_CONFIG, _GENERATION, _TOKENIZER = "config.json", "generation_config.json", "tokenizer_config.json"


class HuggingFaceMarian:
    """`zoo.interop.imported.Format`."""

    name = "hf-marian"
    description = "a folder of transformers' Marian: config.json, weights, vocab.json, source.spm, target.spm"
    engine = "transformers"

    def recognises(self, place: Path) -> bool:
        if not file_exists(place / _CONFIG):
            return False
        try:
            return read_json(place / _CONFIG).get("model_type") == "marian"
        except ZooError:
            return False

    def read(self, place: Path, wanted: Wanted) -> Imported:
        require_folder(place, self.name)
        config = Settings(read_json(place / _CONFIG), str(place / _CONFIG))
        end = config.whole("eos_token_id", 0)
        start = config.whole("decoder_start_token_id", config.whole("pad_token_id", 58100))
        of = tensors.Tensors(place)
        # Sinusoids that transformers writes into a file are no word on what the model was trained with.
        own, tables = tensors.positions(of, config.whole("d_model", 1024, least=1))
        positions = wanted.positions or ("transformers" if own else "marian")
        section = {**architecture(config, positions), **own}
        sizes = _sizes(config)
        special = Special(end, start, config.whole("pad_token_id", start))
        tokens = vocabularies.read(place, sizes, special, shared=shares_embeddings(config))
        settings = _searched(place, config)
        search = generation(settings, end, tokens.target, forced=settings is config)
        positioned = config.whole("max_position_embeddings", 1024, least=2)
        decoding = {**search.decoding, "max_source_length": min(positioned - 1, _MOST)}
        for each in (config, settings):
            each.finish()
        spec = imported_spec(
            _with_languages(wanted, place),
            f"Imported from the Hugging Face Marian model {wanted.called or place.absolute().name}.",
            architecture=section,
            vocabulary=tokens.section,
            decoding=decoding,
        )
        network, width = spec.architecture, spec.architecture.d_model
        numberings = tokens.source, tokens.target
        # Marian starts from a vector of zeros, for which transformers has a token.
        removed = {*search.removed, *([start] if positions == "marian" and start == special.pad else [])}
        found = chain(tensors.layers(of, network), tensors.embeddings(of, network, numberings, removed))
        turn = tensors.in_our_order if positions == "transformers" and not own else tensors.as_it_is
        read = {name: turn(name, tensor, width) for name, tensor in found}
        of.finish()
        read.update(tables)
        origin = {"format": self.name, "source": place.name, "engine": "transformers"}
        origin["positions"] = "its own" if own else positions
        notes = (*([] if own else _told(positions)), *search.notes, *tokens.notes)
        return Imported(spec, tokens.vocabulary, read, origin, notes)

    def open(self, place: Path, imported: Imported) -> Engine:
        return Transformers(place, imported)


_MOST = 100_000  # of `decoding.max_source_length`


def _searched(place: Path, config: Settings) -> Settings:
    """Where it is said how to search: in a file of its own, and in older folders in the config."""
    if file_exists(place / _GENERATION):
        config.without_effect(*KEYS)
        return Settings(read_json(place / _GENERATION), str(place / _GENERATION))
    return config


def _sizes(config: Settings) -> tuple[int, int]:
    source = config.whole("vocab_size", 58101, least=5)
    return source, config.whole("decoder_vocab_size", source, least=5)


def _with_languages(wanted: Wanted, place: Path) -> Wanted:
    if wanted.languages or not file_exists(place / _TOKENIZER):
        return wanted
    said: dict[str, Any] = read_json(place / _TOKENIZER)
    pair = [str(said.get(f"{side}_lang", "")).lower().replace("_", "-") for side in ("source", "target")]
    if not are_codes(pair):
        return wanted
    return replace(wanted, languages=(pair[0], pair[1]))


def _told(positions: Positions) -> list[str]:
    if positions == "transformers":
        return []
    return [
        "positions are Marian's own, which such a model was trained with; those of transformers are a little "
        "different, and translations with them, too: `--positions transformers` takes these"
    ]
