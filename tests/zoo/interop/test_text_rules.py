"""Importers find out how texts were tokenised and split, or say what is missing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch
import yaml

from specs import ZooError
from tests.refusals import refused
from tests.zoo.interop import conftest as tiny
from tests.zoo.interop.test_fairseq import Model
from zoo.interop import text_rules as vocabulary
from zoo.interop.fairseq import FairseqImport
from zoo.interop.formats import ImportedModel, ImportRequest
from zoo.interop.importer import find_format, read_foreign
from zoo.interop.text_rules import FoundRules, ModelText, TextOptions, find_rules
from zoo.text.rules import TextRules
from zoo.text.vocabulary import Vocabulary

CODES = "#version: 0.2\nc c</w>\n"
MOSES = TextOptions(tokenizer="moses")
ENGLISH_GERMAN = ModelText(("en", "de_AT"))


def read(folder: Path, text: TextOptions = TextOptions()) -> ImportedModel:  # noqa: B008
    return read_foreign(FairseqImport(), folder, ImportRequest("model", text=text))


def rules_of(vocabulary: Vocabulary) -> list[TextRules]:
    return [side.rules for side in (vocabulary.source, vocabulary.target)]  # type: ignore[attr-defined]


def test_raw_text_gives_the_log_probabilities_of_its_tokens(tmp_path: Path) -> None:
    model = Model(share_all_embeddings=True)
    folder = model.write(tmp_path)
    (folder / "bpecodes").write_text(CODES)
    imported = read(folder)
    source, target = "a-b dh cc a", "b  dg cc"
    expected = model.log_probabilities("a @@@ -@@ @ b d@@ h cc a", "b d@@ g cc")
    found = tiny.log_probabilities(imported.model, source, target)
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)
    assert imported.model.vocabulary.decode(imported.model.vocabulary.encode(target, "target")) == "b dg cc"
    assert imported.model.spec.vocabulary.separate_models
    assert [rules.language for rules in rules_of(imported.model.vocabulary)] == ["en", "de"]
    (note,) = imported.notes
    assert "Moses (en, hyphens split, XML escaped), BPE codes of `bpecodes`" in note
    assert "detokenised by Moses (de)" in note


def test_options_of_a_checkpoint_choose_the_rules(tmp_path: Path) -> None:
    def read_with(content: dict[str, Any] | None = None, **options: Any) -> TextRules:
        folder = Model(**options).write(tmp_path, content)
        return rules_of(read(folder).model.vocabulary)[0]

    (tmp_path / "my.codes").write_text(CODES)
    older = {"bpe": "fastbpe", "bpe_codes": "/data/my.codes", "moses_no_escape": True, "moses_source_lang": "fr"}
    rules = read_with(tokenizer="moses", moses_no_dash_splits=True, **older)
    assert rules == TextRules(tokenizer="moses", language="fr", codes=CODES, dash_splits=False, escape=False)
    options = Model().options
    newer = {
        "task": {"_name": "translation", **{key: options.pop(key) for key in ("source_lang", "target_lang")}},
        "model": argparse.Namespace(**{key: value for key, value in options.items() if key != "task"}),
        "tokenizer": {"_name": "space"},
        "bpe": {"_name": "subword_nmt", "bpe_codes": "my.codes", "bpe_separator": "@@"},
    }
    assert read_with({"args": None, "cfg": newer}) == TextRules(tokenizer="space", codes=CODES)
    for key, value in {"bpe": "gpt2", "bpe_separator": "##", "bpe_codes": "other"}.items():
        with pytest.raises(ZooError, match="lacks the BPE codes" if value == "other" else f"{key}: {value}"):
            read_with(**{"bpe": "fastbpe", "bpe_codes": "my.codes", key: value})
    refused("`nltk`", read_with, tokenizer="nltk", bpe="fastbpe", bpe_codes="my.codes")
    assert read(Model(bpe="gpt2").write(tmp_path), TextOptions("space")).model.vocabulary.shared is False


def find(folder: Path, options: TextOptions = MOSES, text: ModelText = ENGLISH_GERMAN) -> FoundRules:
    found = find_rules([], folder, options, text)
    assert found is not None
    return found


def test_files_beside_a_model(tmp_path: Path) -> None:
    assert find_rules([], tmp_path, TextOptions(), ENGLISH_GERMAN) is None
    assert find(tmp_path).sides[1] == TextRules(tokenizer="moses", language="de")
    (tmp_path / "source.bpe").write_text("a b\n")
    (tmp_path / "target.bpe").write_text("a b 5\n")
    (tmp_path / "source.tcmodel").write_text("The (9/14) the (5)\nParis (3/3)\n")
    (tmp_path / "truecase-model.de").write_text("der (9/9)\n")
    found = find(tmp_path)
    assert [rules.codes for rules in found.sides] == ["a b\n", "a b 5\n"]
    assert [(rules.cases or "").strip() for rules in found.sides] == ["The the\nParis", "der"]
    assert "truecasing, BPE codes of `source.bpe` and `target.bpe`" in found.note
    assert find(tmp_path, TextOptions("space", tmp_path / "source.bpe")).sides[1].codes == "a b\n"
    refused("do not name a tokenizer", find, tmp_path, TextOptions())
    refused("languages of the model are unknown", find, tmp_path, MOSES, ModelText(None))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("bpecodes", b"a", "line 1 is not a pair of symbols: `a`"),
        ("bpecodes", b"\xff", "not UTF-8"),
        ("source.tcmodel", b"words (1) " * 7, "at most 30 characters, but these have 41"),
    ],
)
@patch.object(vocabulary, "MAX_CONTENT", 30)
def test_damaged_files_are_reported(file: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "bpecodes").write_text(CODES)
    (tmp_path / file).write_bytes(content)
    refused(message, find, tmp_path, TextOptions("space"))


def test_moses_treats_unknown_languages_as_english(tmp_path: Path) -> None:
    assert [rules.language for rules in find(tmp_path, MOSES, ModelText(("x", "abcdefgh"))).sides] == ["en", "en"]


def test_other_tokenizers_and_missing_codes_are_refused(tmp_path: Path) -> None:
    folder = Model().write(tmp_path)
    refused("lists subwords, which end in `@@`, but there are no BPE codes", read, folder, MOSES)
    dictionary = tmp_path / "dict.de_DE.txt"
    dictionary.write_text(dictionary.read_text().replace("d@@", "￭d"))
    refused("pyonmttok", read, folder, MOSES)
    assert any("pyonmttok" in note for note in read(folder).notes)


def test_marians_lists_of_subwords_take_options(tmp_path: Path) -> None:
    (tmp_path / "v.yml").write_text(yaml.safe_dump({"</s>": 0, "<unk>": 1, "d@@": 2, "og": 3, "cat": 4}))
    (tmp_path / "codes").write_text("#version: 0.2\no g</w>\nc a\nca t</w>\n")
    weights, decoder = tiny.marian_weights(tiny.MARIAN_OPTIONS, 5), {"models": ["model.npz"], "vocabs": ["v.yml"] * 2}
    model = tiny.write_marian(tmp_path, tiny.MARIAN_OPTIONS, weights, decoder)
    request = ImportRequest("mine", ("en", "de"), text=TextOptions("moses", tmp_path / "codes"))
    imported = read_foreign(find_format(model), model, request)
    assert imported.model.vocabulary.source.tokenize("cat  dog") == ["▁cat", "▁d@@", "▁og"]
    assert imported.model.vocabulary.decode(imported.model.vocabulary.encode("dog cat")) == "dog cat"
