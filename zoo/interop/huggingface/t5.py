"""T5, mT5 and MADLAD-400 in transformers (Raffel et al. 2020; Xue et al. 2021; Kudugunta et al. 2023).

The tokens of T5Tokenizer come from `tokenizer.json`. If this file is missing, they come from `spiece.model`, and the
sentinels `<extra_id_99>` to `<extra_id_0>` are added. transformers (version 5) finds some tokens in raw text: the
special tokens and the entries of `added_tokens_decoder`. If `tokenizer_config.json` has no
`additional_special_tokens`, transformers also finds the sentinels and the control and user-defined tokens of
`spiece.model`. The unigram model splits the text between the found tokens. It treats all its tokens as normal tokens.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from specs import BOS, EOS, PAD, UNK, Architecture, FeedForward, Spec, ZooError
from zoo.files.atomic import write_json
from zoo.files.reading import damaged, is_present
from zoo.interop.formats import LAYERS, ImportedModel, ImportRequest
from zoo.interop.huggingface.config import ACTIVATIONS, SpecialTokens
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.tokenizer import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    WrittenIds,
    added_entries,
    content_of,
    decoder_entry,
    never_generated,
    read_saved_model,
    replacement_of_start,
    tokenizer_settings,
)
from zoo.interop.huggingface.weights import take_tables
from zoo.interop.sentencepiece_model import SentencePieceModel, TokenType
from zoo.interop.tables import TOOLKITS, NamedTensors, Settings, read_settings, tensor_layout, written_settings
from zoo.interop.tensors import TokenList
from zoo.interop.vocabulary import ImportedVocabulary, convert_vocabulary
from zoo.models.loading import Model
from zoo.text.rules import AddedTokens
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary

_NETWORKS = {
    **{name: (activation, False) for name, activation in ACTIVATIONS.items()},
    **{f"gated-{name}": (activation, True) for name, activation in ACTIVATIONS.items()},
    "gated-gelu": ("gelu_tanh", True),
}
"""Activation of a feed-forward network and whether the network is gated, keyed by the value of `feed_forward_proj`."""
_UNUSED = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
"""Tensor in old files. transformers ignores this tensor."""
_SENTENCEPIECE = "spiece.model"
_CLASSES = (None, "T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast")
_DEFAULT_NAMES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
_OTHER_NAMES = ("bos_token", "sep_token", "cls_token", "mask_token")
_ADDITIONAL, _EXTRA = "additional_special_tokens", "extra_special_tokens"
_SENTINELS = 100
_END, _UNKNOWN = 1, 2
"""transformers' IDs of EOS and UNK in every exported model. T5Tokenizer supports no other ID for UNK."""
_LANGUAGE_TOKEN = "<2{}>"
"""Token for a target language in MADLAD-400, with `{}` in place of the language code."""
_LANGUAGE = re.compile(r"<2([a-z]{2,4}(_[A-Z][a-z]{3})?(_[A-Z]{2})?)>")
"""Pattern for language tokens. It excludes tasks (`<2translate>`), scripts (`<2Latn>`) and regions (`<2CA>`)."""


class T5(Family):
    """The `hf-t5` format: T5 and mT5 models in transformers, including MADLAD-400."""

    name = "hf-t5"
    model_types: ClassVar[tuple[str, ...]] = ("t5", "mt5")
    model_class = "T5ForConditionalGeneration"
    tables: ClassVar[Mapping[str, str]] = TOOLKITS["transformers.t5"]["tables"]
    """Names of the embeddings and of the output projection."""

    layout = tensor_layout("transformers.t5")

    def read(self, path: Path, request: ImportRequest) -> ImportedModel:
        """Read a model. Raise ZooError if it is damaged or has a property that zoo does not support."""
        files = self.open(path, request)
        config, weights = files.config, files.weights
        special = files.special_tokens(end=1, pad=0)
        rows = config.integer("vocab_size", 32128, minimum=4)
        fields = self.architecture(config)
        weights.pop(_UNUSED, None)
        # If the file has no separate output projection, transformers ties it, regardless of `tie_word_embeddings`.
        has_output = self.tables["output"] in weights and any(
            name in weights for key, name in self.tables.items() if key != "output"
        )
        equal = [key for key in self.tables if key != "output" or not has_output]
        tables = take_tables(weights, self.tables, equal, rows, fields["d_model"])
        vocabulary = _read_vocabulary(path, rows, special)
        search = files.generation_settings(special.end, vocabulary.target, forces_end=False)
        return self.imported(files, request, fields, tables, vocabulary, search)

    def settings_of(self, spec: Spec) -> dict[str, Any]:
        """Return the content of the exported model's `config.json`, except the IDs of the special tokens."""
        a = spec.architecture
        return {
            "architectures": [self.model_class],
            "model_type": self.model_types[0],
            **written_settings(a, "transformers", "transformers.t5"),
            "feed_forward_proj": _feed_forward_name(a),
        }

    def architecture(self, config: Settings) -> dict[str, Any]:
        """Convert `config.json` to fields of `architecture`. Raise ZooError if a setting is not supported."""
        model_type = config.text("model_type")
        fields = read_settings(config, "transformers", f"transformers.{model_type}")
        feed_forward = _feed_forward(config, "gated-gelu" if model_type == "mt5" else "relu")
        return {
            **fields,
            **{side: [*({"kind": kind} for kind in kinds[:-1]), feed_forward] for side, kinds in LAYERS.items()},
            "attention_dropout": fields["dropout"],
            "activation_dropout": fields["dropout"],
        }

    def ids(self, model: Model) -> WrittenIds:
        """Return the token IDs of the exported model. Raise ZooError if transformers cannot represent the tokens."""
        return written_ids(model, self.name)

    def written_tables(self, spec: Spec, tensors: Mapping[str, Tensor], ids: WrittenIds) -> NamedTensors:
        """Yield the embedding and, unless it is tied, the output projection with their names in transformers."""
        yield self.tables["shared"], ids.select(tensors["embedding"])
        if spec.architecture.tied_embeddings == "embeddings":
            yield self.tables["output"], ids.select(tensors["output_projection"])

    def write_vocabulary(self, model: Model, folder: Path, ids: WrittenIds) -> None:
        """Write the SentencePiece model and the tokenizer settings. The settings include the added tokens."""
        tokenizer = model.vocabulary.target
        assert isinstance(tokenizer, Tokenizer)
        sentencepiece = SentencePieceModel(folder / _SENTENCEPIECE, tokenizer.content)
        order = [id for id in ids.order if id is not None]
        pad_id = order[ids.pad]
        languages = model.spec.languages
        of_languages = map(languages.token_of, languages.codes) if languages else ()
        tags = {name: id for name in of_languages if (id := tokenizer.id_of(name)) is not None}
        found = tokenizer.added.ids if tokenizer.added else {}
        added = {name: pad_id if id is None else id for name, id in found.items() if name not in tags}
        # Other language tokens are encoded as text, with a space before them.
        added |= {name: id for name, id in tags.items() if tokenizer.model.is_control(id)}
        names = {pad_id: "<pad>", UNK: "<unk>", EOS: "</s>"} | {id: name for name, id in added.items()}
        while sentencepiece.entries[order[-1]].name == f"<{len(order) - 1}>":  # a row of the embedding without a token
            order.pop()
        content = sentencepiece.reordered(order, names, {PAD: ids.pad, UNK: _UNKNOWN, EOS: _END})
        (folder / _SENTENCEPIECE).write_bytes(content)
        decoder = {}
        for name, token in added.items():
            special = sentencepiece.entries[token].type in (TokenType.CONTROL, TokenType.UNKNOWN)
            decoder[str(int(ids.foreign[token]))] = decoder_entry(name, special=special)
        tokens = {"pad_token": names[pad_id], "unk_token": names[UNK], "eos_token": names[EOS]}
        if pad_id != BOS and BOS in order:  # otherwise, each text that transformers generates would begin with `<s>`
            tokens["bos_token"] = names.get(BOS, sentencepiece.entries[BOS].name)
        settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0, _ADDITIONAL: [], "added_tokens_decoder": decoder}
        write_json(folder / TOKENIZER_CONFIG, settings | tokens)

    def notes(self, spec: Spec) -> Iterator[str]:
        """Yield notes for the user about how an exported model behaves differently in transformers."""
        if spec.vocabulary.byte_fallback:
            yield (
                "zoo reads and writes characters without a token as bytes, but transformers reads them as <unk> and "
                "writes each byte as a token such as <0xE4>"
            )
        yield from super().notes(spec)


def _feed_forward(config: Settings, default: str) -> dict[str, Any]:
    """Convert the `feed_forward_proj` setting, such as `gated-gelu`, to fields of a feed-forward sub-layer."""
    name = config.text("feed_forward_proj", default)
    if name not in _NETWORKS:
        raise config.error("feed_forward_proj", "is a feed-forward network that zoo does not support")
    activation, gated = _NETWORKS[name]
    names = [name for name, ours in ACTIVATIONS.items() if ours == activation]
    config.require({"dense_act_fn": names, "is_gated_act": (gated,)})
    return {"kind": "feed_forward", "bias": False, "activation": activation, "gated": gated}


def _feed_forward_name(a: Architecture) -> str:
    """Return the `feed_forward_proj` setting of the encoder. This is the inverse of `_feed_forward`."""
    network = next(each for each in a.encoder if isinstance(each, FeedForward))
    properties = a.option(network, "activation"), network.gated
    # transformers has no name for a gated network with the exact GELU. The import reads `gated-gelu` as a different
    # activation, so the export of such a network fails.
    return next((name for name, listed in _NETWORKS.items() if listed == properties), "gated-gelu")


@dataclass
class _Tokens:
    """Tokens of a T5Tokenizer, collected while the tokenizer files are read."""

    model: SentencePieceModel
    names: list[str]
    """Names of the tokens, in the order of transformers' IDs. An ID without a token has an empty name."""
    unknown: int
    added: dict[str, int] = field(default_factory=dict)
    """Tokens that the tokenizer finds in raw text: transformers' IDs, keyed by name."""
    special: set[str] = field(default_factory=set)
    """Added tokens that are omitted from the text of a translation."""

    def add(self, name: str, id: int | None = None, *, special: bool = True) -> None:
        """Add a token that the tokenizer finds in raw text. A new token gets the next ID unless `id` is given.

        Translations omit the token if it is `special`.

        Raises:
            ZooError: The ID belongs to another token, or it is too large.
        """
        if id is None:
            id = self.names.index(name) if name in self.names else len(self.names)
        self.names.extend([""] * (id + 1 - len(self.names)))
        if id < 0 or not name or self.names[id] not in ("", name):
            problem = f"its added token `{name}` has no valid ID, or an ID that belongs to another token"[:200]
            raise damaged(self.model.file.parent, problem)
        self.names[id] = name
        self.added[name] = id
        if special:
            self.special.add(name)

    def append_missing(self, names: Iterable[str]) -> None:
        """Append the tokens in `names` that the vocabulary lacks. The tokenizer does not find them in raw text."""
        missing = [name for name in names if name not in self.names]
        self.names.extend(missing)
        self.model.append(missing)


def _read_vocabulary(folder: Path, rows: int, special: SpecialTokens) -> ImportedVocabulary:
    """Read the vocabulary of a T5Tokenizer.

    Args:
        folder: The folder of the model.
        rows: The number of rows in the embedding. It may be larger than the number of tokens.
        special: The IDs of the special tokens according to `config.json`.

    Raises:
        ZooError: A file is missing or damaged, or the tokenizer has a property that zoo does not support.
    """
    # A list of additional tokens in the older file `special_tokens_map.json` replaces no sentinels.
    config = {**_DEFAULT_NAMES, **tokenizer_settings(folder, _ADDITIONAL)}
    if config.get("tokenizer_class") not in _CLASSES:
        problem = f"the tokenizer of `{folder}` is `{config['tokenizer_class']}`, but zoo reads only T5Tokenizer"
        raise ZooError(problem[:200])
    tokens = _read_tokens(folder, config)
    tokens.model.require_fit("T5Tokenizer", "unigram")
    end = tokens.added[config["eos_token"]]
    if end != special.end:
        problem = f"the tokenizer of `{folder}` ends a text with the token {end}, but `eos_token_id` is {special.end}"
        raise ZooError(problem, hint="correct `eos_token_id` in `config.json`", exit_code=1)
    languages = [_LANGUAGE_TOKEN.replace("{}", code) for code in _language_codes(tokens.names)]
    # transformers encodes the other language tokens as text, with a space before each token.
    control = [name for name in languages if name in tokens.added]
    tokens.model.set_control(tokens.special.union(control))
    if len(tokens.names) > rows:
        raise damaged(folder, f"its tokenizer has {len(tokens.names):,} tokens, but `vocab_size` is {rows:,}")
    if max(special.end, special.start, special.pad, tokens.unknown) >= rows:
        raise damaged(folder, f"a special token has no row in the embedding of {rows:,} rows"[:200])
    names = (*tokens.names, *[""] * (rows - len(tokens.names)))
    pad = None if special.pad in (special.start, special.end, tokens.unknown) else special.pad
    listed = TokenList(names, unknown=tokens.unknown, end=special.end, start=special.start, pad=pad)
    imported = convert_vocabulary([tokens.model], listed, listed, shared=True, where=folder, control=control)
    # zoo never attends to padding, and rejects text with a language token.
    ids = {name: None if row == pad else imported.source.ids[row] for name, row in tokens.added.items()}
    tokenizer = imported.vocabulary.source.extended(AddedTokens(ids | dict.fromkeys(languages)), str(folder))
    codes = _language_codes(imported.target.names)
    of_languages = {"codes": codes, "token": _LANGUAGE_TOKEN} if codes else None
    return replace(imported, vocabulary=Vocabulary(tokenizer), languages=of_languages)


def _language_codes(names: Collection[str]) -> list[str]:
    """Return the language codes in tokens such as `<2de>`, as in MADLAD-400. For other models, the list is empty."""
    codes = [match[1] for name in names if (match := _LANGUAGE.fullmatch(name))]
    return codes if len(codes) > 1 else []


def _read_tokens(folder: Path, config: Mapping[str, Any]) -> _Tokens:
    sentinels = config.get("extra_ids", _SENTINELS)
    if type(sentinels) is not int or sentinels < 0:
        raise damaged(folder / TOKENIZER_CONFIG, "`extra_ids` is not a number of tokens")
    is_listed = _ADDITIONAL in config or isinstance(config.get(_EXTRA), list)
    names = [f"<extra_id_{number}>" for number in range(sentinels)]
    is_saved = is_present(folder / TOKENIZER)
    if is_saved:
        model = read_saved_model(folder / TOKENIZER, "unigram", config["unk_token"])
    else:
        model = SentencePieceModel(folder / _SENTENCEPIECE)
    (unknown,) = model.names(TokenType.UNKNOWN)
    tokens = _Tokens(model, model.names(), model.names().index(unknown))
    if not is_saved:
        tokens.append_missing(reversed(names))
        for name in () if is_listed else model.names(TokenType.CONTROL, TokenType.USER_DEFINED):
            tokens.add(name, special=name in model.names(TokenType.CONTROL))
    for id, entry in added_entries(folder, config).items():
        _require_plain(entry, folder)
        tokens.add(entry["content"], id, special=bool(entry.get("special")))
    for name in (*_special_names(config), *([] if is_listed else names)):
        tokens.add(name)
    return tokens


def _require_plain(entry: Mapping[str, Any], folder: Path) -> None:
    """Raise ZooError unless the tokenizer finds an added token wherever its characters occur in raw text.

    A token that the tokenizer matches in normalised text must be ASCII, which normalisation does not change. `lstrip`
    and `rstrip` have no effect, because T5Tokenizer always removes the spaces around added tokens.
    """
    if entry.get("single_word") or (entry.get("normalized") and not entry["content"].isascii()):
        problem = f"cannot import the added token `{entry['content']}` of `{folder}`"
        raise ZooError(
            f"{problem}: it only matches whole words or normalised text"[:300],
            hint="remove this token from the tokenizer",
        )


def _special_names(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of all special tokens in the tokenizer settings, including defaults and extra tokens."""
    yield from filter(None, map(config.get, (*_DEFAULT_NAMES, *_OTHER_NAMES)))
    for listed in (config.get(_ADDITIONAL) or [], config.get(_EXTRA) or []):
        for entry in listed.values() if isinstance(listed, Mapping) else listed:
            yield content_of(entry)


def written_ids(model: Model, format: str) -> WrittenIds:
    """Return the token IDs of an exported model. If PAD or BOS is never generated, it shares another token's ID.

    Args:
        model: The published model. Source and target share one vocabulary.
        format: The name of the export format, for error messages.

    Raises:
        ZooError: The model never generates BOS, and UNK and EOS cannot replace BOS because their embeddings differ.
    """
    never = never_generated(model)
    kept = [id for id in (PAD, BOS) if not never[id]]
    first, *others = [*kept, *range(EOS + 1, len(never))]
    start = replacement_of_start(model, {UNK: _UNKNOWN, EOS: _END}, format)
    pad = 0 if kept else _END
    return WrittenIds([first, EOS, UNK, *others], len(never), pad=pad, end=_END, start=start)
