"""`vocab.json`, `source.spm`, `target.spm` and `tokenizer_config.json` of transformers' Marian."""

from __future__ import annotations

import json
from pathlib import Path

from specs import EOS
from zoo.files.atomic import write_json
from zoo.interop.exported import Bundle
from zoo.interop.huggingface.export_network import refused, rows
from zoo.interop.sentence_model import is_language
from zoo.text.tokenizer import SPACE, Tokenizer
from zoo.text.vocabulary import Vocabulary


def require_models(vocabulary: Vocabulary) -> None:
    """Raises ZooError for what is no model of SentencePiece, or is read without EOS."""
    if not isinstance(vocabulary.target, Tokenizer):
        raise refused("its target is brackets of trees, and no text")
    if vocabulary.source.of_words or vocabulary.target.of_words:
        raise refused("its vocabulary is a list of words, and no model of SentencePiece that cuts text")
    if vocabulary.source_end != EOS:
        raise refused("no EOS stands behind its sources, and transformers puts one there")


def write(bundle: Bundle, folder: Path) -> None:
    """Two models of SentencePiece, their tokens' numbers, and what the tokeniser has to know."""
    vocabulary, corpus = bundle.vocabulary, bundle.spec.corpus
    one = bundle.spec.architecture.tied_embeddings == "all"
    for side, list_, model in (
        (vocabulary.source, "vocab.json", "source.spm"),
        (vocabulary.target, "target_vocab.json", "target.spm"),
    ):
        assert isinstance(side, Tokenizer)
        (folder / model).write_bytes(side.content)
        if not (one and model == "target.spm"):
            named = {_name(side, id): id for id in range(side.size)}
            (folder / list_).write_text(json.dumps(named, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "MarianTokenizer",
            "source_lang": corpus.source,
            "target_lang": corpus.target,
            "separate_vocabs": not one,
            "model_max_length": rows(bundle.spec),
        },
    )


def _name(side: Tokenizer, id: int) -> str:
    """As transformers calls it: codes of languages are cut off before a text is cut into tokens."""
    name = str(side.model.id_to_piece(id))
    bare = name.removeprefix(SPACE)
    return bare if is_language(bare) else name
