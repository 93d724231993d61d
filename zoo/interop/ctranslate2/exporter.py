"""Export to CTranslate2, through its Python API for converters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from specs import BOS, EOS, PAD, UNK, Spec, ZooError
from zoo.interop.ctranslate2.importer import CTranslate2Import, open_translator
from zoo.interop.ctranslate2.model_spec import SpecWriter, require_supported
from zoo.interop.formats import Bundle, ExportCheck, ImportFormat
from zoo.interop.roundtrip import cannot_export
from zoo.text.languages import LanguagePair
from zoo.text.tokenizer import SPACE, Tokenizer


class CTranslate2Export:
    """The export format `ctranslate2`. Implements `zoo.interop.formats.ExportFormat`."""

    name = "ctranslate2"
    description = "a folder of CTranslate2, in float32"

    def reader(self, bundle: Bundle) -> ImportFormat | None:
        """Return the import format. Return None if the heads have several sizes.

        The import supports one number of heads and one d_k = d_v, and the export pads the smaller of d_k and d_v.
        """
        a = bundle.spec.architecture
        attentions = [each for each in (*a.encoder, *a.decoder) if each.kind != "feed_forward"]
        sizes = {tuple(a.option(each, name) for name in ("h", "d_k", "d_v")) for each in attentions}
        is_readable = len(sizes) == 1 and all(d_k == d_v for _, d_k, d_v in sizes)
        return CTranslate2Import() if is_readable else None

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """Write `model.bin`, `config.json`, the vocabularies and the SentencePiece models.

        Returns:
            Notes for the user: the search options of CTranslate2 that correspond to the spec, and any differences.

        Raises:
            ZooError: CTranslate2 is not installed, or it does not support a property of the model.
        """
        source, target = bundle.vocabulary.source, bundle.vocabulary.target
        if not isinstance(target, Tokenizer):
            raise cannot_export("CTranslate2", "the target consists of brackets of parse trees, not of text")
        if find_spec("ctranslate2") is None:
            hint = "run `pip install -e '.[ctranslate2]'` in zoo's source folder"
            raise ZooError("cannot write the model: CTranslate2 is not installed", hint=hint)
        require_supported(bundle.spec.architecture)
        names = [_token_names(source), _token_names(target)]
        writer = SpecWriter(bundle.spec, bundle.tensors)
        model = writer.model()
        if unused := sorted(bundle.tensors.keys() - writer.used):
            raise cannot_export("CTranslate2", f"it has no tensor for `{unused[0]}`")
        model.register_source_vocabulary(names[0])
        model.register_target_vocabulary(names[1])
        model.config.unk_token, model.config.bos_token, model.config.eos_token = (
            names[1][id] for id in (UNK, BOS, EOS)
        )
        model.config.decoder_start_token = names[1][BOS]
        model.config.add_source_eos = bool(bundle.vocabulary.source_suffix)
        model.config.layer_norm_epsilon = bundle.spec.architecture.norm.epsilon
        model.validate()
        model.optimize("float32")
        model.save(str(folder))
        if source.content == target.content and not source.is_word_level:
            (folder / "sentencepiece.model").write_bytes(source.content)
        elif not source.is_word_level:
            (folder / "source.spm").write_bytes(source.content)
            (folder / "target.spm").write_bytes(target.content)
        return [*_language_notes(bundle, names), *_search_notes(bundle.spec, names[1])]

    def check(self, bundle: Bundle, folder: Path) -> ExportCheck | None:
        """Compare CTranslate2's log-probabilities with the reference log-probabilities of the bundle."""
        proof = bundle.proof
        source, target = (_token_names(side) for side in (bundle.vocabulary.source, bundle.vocabulary.target))
        sources = [[source[id] for id in row if id not in (PAD, EOS)] for row in proof.stream.values.tolist()]
        targets = [[target[id] for id in row if id not in (PAD, BOS, EOS)] for row in proof.target.tolist()]
        rows = [result.log_probs for result in open_translator(folder).score_batch(sources, targets)]
        differences = [
            (torch.tensor(row) - expected[: len(row)]).abs().max()
            for row, expected in zip(rows, proof.log_probabilities, strict=True)
        ]
        # Unlike the built-in max, the maximum of tensors propagates NaN.
        version = import_module("ctranslate2").__version__
        return ExportCheck(f"CTranslate2 {version}", float(torch.stack(differences).max()))


def _token_names(side: Any) -> list[str]:
    """Return the names of tokens for CTranslate2's vocabulary. Words of a word list lose the leading space."""
    names = [str(side.model.id_to_piece(id)) for id in range(side.size)]
    return [name.removeprefix(SPACE) for name in names] if side.is_word_level else names


def _language_notes(bundle: Bundle, names: list[list[str]]) -> Iterator[str]:
    """Yield notes for the user: where CTranslate2 expects the language tokens, which it does not add itself."""
    if bundle.spec.languages is None:
        return
    languages = LanguagePair.of(bundle.spec, bundle.vocabulary, bundle.spec.default_direction)
    if languages.source_tokens:
        tokens = " ".join(names[0][id] for id in languages.source_tokens)
        code = languages.source if bundle.spec.languages.source_token == "source" else languages.target
        yield f"Put the language tokens before the tokens of each source: for `{code}`, `{tokens}`."
    if languages.target_tokens:
        tokens = " ".join(names[1][id] for id in languages.target_tokens)
        yield f"Pass the language tokens of the target as `target_prefix`: for `{languages.target}`, `{tokens}`."


def _search_notes(spec: Spec, target: list[str]) -> Iterator[str]:
    """Yield notes for the user: the search options of CTranslate2 that correspond to a spec, and any differences."""
    decoding, has_prefix = spec.decoding, spec.languages is not None and spec.languages.target_token is not None
    options: dict[str, Any] = {
        "beam_size": decoding.beam,
        "length_penalty": decoding.alpha,
        "min_decoding_length": decoding.min_length,
    }
    if not decoding.length_factor:
        options["max_decoding_length"] = decoding.extra_length + has_prefix
    if UNK in decoding.suppressed_tokens:
        options["disable_unk"] = True
    if others := [[target[id]] for id in decoding.suppressed_tokens if id != UNK]:
        options["suppress_sequences"] = json.dumps(others, ensure_ascii=False)
    same = decoding.beam == 1 or (
        decoding.stopping_rule == "full" and decoding.length_penalty == "power" and decoding.alpha
    )
    listed = ", ".join(f"`{name}={value}`" for name, value in options.items())
    relation = "correspond to the spec" if same else "come closest to the spec"
    yield f"Pass the search options to each call of CTranslate2: {listed} {relation}."
    if decoding.length_factor:
        longest = f"{decoding.length_factor:g} times the source's length + {decoding.extra_length:,}"
        yield f"In zoo, a translation has at most {longest} tokens; in CTranslate2, at most `max_decoding_length`."
    if decoding.beam == 1:
        return
    if decoding.length_penalty == "gnmt" and decoding.alpha:
        yield "The length penalty of the spec is ((5 + length) / 6)^alpha, and that of CTranslate2 is length^alpha."
    if decoding.stopping_rule != "full":
        rule = decoding.stopping_rule
        yield f"CTranslate2's search stops as with `stopping_rule: full`, while the spec has `stopping_rule: {rule}`."
