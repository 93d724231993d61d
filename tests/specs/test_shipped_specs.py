"""Every shipped spec loads, is as short as its row, and is written so that all readers of YAML agree."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import specs
from specs.catalogue import FOLDER
from specs.loader import load, parent

NAMES = specs.names()
ENTITLED = set(specs.METADATA_FIELDS)
PAPER = {
    "a-h1": {"architecture.h": 1, "architecture.d_k": 512, "architecture.d_v": 512},
    "a-h4": {"architecture.h": 4, "architecture.d_k": 128, "architecture.d_v": 128},
    "a-h16": {"architecture.h": 16, "architecture.d_k": 32, "architecture.d_v": 32},
    "a-h32": {"architecture.h": 32, "architecture.d_k": 16, "architecture.d_v": 16},
    "b-dk16": {"architecture.d_k": 16},
    "b-dk32": {"architecture.d_k": 32},
    "c-n2": {"architecture.N": 2},
    "c-n4": {"architecture.N": 4},
    "c-n8": {"architecture.N": 8},
    "c-dmodel256": {"architecture.d_model": 256, "architecture.d_k": 32, "architecture.d_v": 32},
    "c-dmodel1024": {"architecture.d_model": 1024, "architecture.d_k": 128, "architecture.d_v": 128},
    "c-dff1024": {"architecture.d_ff": 1024},
    "c-dff4096": {"architecture.d_ff": 4096},
    "d-dropout0": {"architecture.dropout": 0.0},
    "d-dropout02": {"architecture.dropout": 0.2},
    "d-smoothing0": {"training.label_smoothing": 0.0},
    "d-smoothing02": {"training.label_smoothing": 0.2},
    "e-learned": {"architecture.positional_encoding": "learned"},
    "big": {
        "architecture.d_model": 1024,
        "architecture.d_ff": 4096,
        "architecture.h": 16,
        "architecture.dropout": 0.3,
        "training.steps": 300_000,
    },
}


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        found |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def idle_keys(written: dict[str, Any], inherited: dict[str, Any]) -> list[str]:
    """Keys that a file sets to the value they have without it."""
    there = leaves(inherited)
    return [key for key, value in leaves(written).items() if key not in ENTITLED and there.get(key) == value]


def changes(name: str, other: str) -> dict[str, Any]:
    found = specs.difference(load(name), load(other))
    return {key: here for key, (_, here) in found.items() if key not in ENTITLED}


def test_the_catalogue_holds_what_the_paper_has() -> None:
    top = {"base", "big", "base-enfr", "big-enfr", "tiny", "multi30k-ende"}
    assert top <= set(NAMES)
    assert {name for name in NAMES if name.startswith("table3/")} == {f"table3/{row}" for row in ["base", *PAPER]}


@pytest.mark.parametrize("name", NAMES)
def test_loads_under_its_name_and_its_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parent)
    spec = load(name)
    assert spec.short_name == name
    for reference in (f"specs/{name}.yaml", f"./specs/{name}.yaml", str(FOLDER / f"{name}.yaml"), f"specs/{name}"):
        assert load(reference) == spec
        assert load(reference).short == name


def test_published_names_are_distinct() -> None:
    assert len({load(name).name for name in NAMES}) == len(NAMES)
    assert load("table3/a-h1").name == "transformer-table3-a-h1-ende"


@pytest.mark.parametrize("name", [name for name in NAMES if name != "base"])
def test_no_key_repeats_what_the_parent_says(name: str) -> None:
    above = parent(name)
    assert above is not None, "every spec but base extends another"
    assert idle_keys(yaml.safe_load(text_of(name)), above.model_dump(mode="json")) == []


def test_an_idle_key_would_be_found() -> None:
    inherited = load("base").model_dump(mode="json")
    assert idle_keys({"name": "x", "training": {"steps": 100_000, "average": 1}}, inherited) == ["training.steps"]


@pytest.mark.parametrize("name", NAMES)
def test_description_is_one_short_sentence_and_the_modeline_names_the_schema(name: str) -> None:
    description = load(name).description
    assert description.endswith(".")
    assert len(description) < 90
    first = text_of(name).splitlines()[0]
    assert first.startswith("# yaml-language-server: $schema=")
    assert ((FOLDER / f"{name}.yaml").parent / first.partition("=")[2]).resolve() == FOLDER / "schema.json"


def test_base_writes_every_field() -> None:
    spec = load("base").model_dump(mode="json")
    assert yaml.safe_load(text_of("base")) == spec


def test_base_is_the_papers() -> None:
    spec = load("base")
    a, t = spec.architecture, spec.training
    assert (a.N, a.d_model, a.d_ff, a.h, a.d_k, a.d_v, a.dropout) == (6, 512, 2048, 8, 64, 64, 0.1)
    assert (a.norm, a.tied_embeddings, a.projection_bias) == ("post", "all", False)
    assert (t.steps, t.source_tokens, t.target_tokens, t.warmup_steps) == (100_000, 25_000, 25_000, 4000)
    assert (t.beta1, t.beta2, t.epsilon, t.label_smoothing, t.average) == (0.9, 0.98, 1e-9, 0.1, 5)
    assert (spec.decoding.beam, spec.decoding.alpha, spec.decoding.extra_length) == (4, 0.6, 50)


def test_big_is_its_row() -> None:
    columns = {"architecture.d_model": 1024, "architecture.d_ff": 4096, "architecture.h": 16}
    schedule = {"training.steps": 300_000, "training.checkpoint_steps": 600, "training.average": 20}
    assert changes("big", "base") == columns | {"architecture.dropout": 0.3} | schedule
    assert changes("big-enfr", "base-enfr") == columns | schedule
    french = {"vocabulary.size", "corpus.target", "corpus.train", "corpus.dev", "corpus.test"}
    assert set(changes("big-enfr", "big")) == french | {"architecture.dropout"}
    assert set(changes("base-enfr", "base")) == french


@pytest.mark.parametrize("row", PAPER)
def test_table_3_changes_its_columns_and_no_other(row: str) -> None:
    assert changes(f"table3/{row}", "table3/base") == PAPER[row]
    assert parent(f"table3/{row}") == load("table3/base")


def test_table_3_does_not_average() -> None:
    assert changes("table3/base", "base") == {"training.average": 1}


PUBLISHED = {
    "training-parallel-europarl-v7.tgz": "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    "training-parallel-commoncrawl.tgz": "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    "training-parallel-nc-v9.tgz": "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
}
"""As in tensorflow/datasets, `url_checksums/wmt14_translate.txt`; of the other archives no such list says anything."""


@pytest.mark.parametrize("name", NAMES)
def test_archives_come_by_https_with_the_sums_that_are_published_and_none_invented(name: str) -> None:
    corpus = load(name).corpus
    for part in (*corpus.train, *corpus.dev, *corpus.test):
        if isinstance(part, specs.Archive):
            assert part.sha256 == PUBLISHED.get(part.archive.rpartition("/")[2])
            assert part.archive.startswith("https://www.statmt.org/")
            assert corpus.source in part.source
            assert corpus.target in part.target


def test_schema_file_is_fresh() -> None:
    stored = json.loads((FOLDER / "schema.json").read_text(encoding="utf-8"))
    assert stored == specs.schema(), "write it anew: zoo schema > specs/schema.json"


def test_schema_is_for_files_that_extend() -> None:
    schema = specs.schema()
    assert "required" not in schema
    assert list(schema["properties"])[:3] == ["extends", "format", "name"]
    assert schema["properties"]["format"]["maximum"] == specs.history.FORMAT
    for section in ("Architecture", "Vocabulary", "Corpus", "Training", "Decoding", "Compilation", "Parsing"):
        assert "required" not in schema["$defs"][section], section
        assert schema["$defs"][section]["additionalProperties"] is False
    assert schema["$defs"]["Archive"]["required"] == ["archive", "sha256", "source", "target"]
    assert schema["$defs"]["Depths"]["required"] == ["encoder", "decoder"]
    assert schema["$defs"]["SelfAttention"]["required"] == ["kind"]


def test_every_field_is_described_with_its_section() -> None:
    sections = {name: field.annotation for name, field in specs.Spec.model_fields.items()}
    for name in ("architecture", "vocabulary", "training", "decoding"):
        for key, field in sections[name].model_fields.items():  # type: ignore[union-attr]
            described = field.description or ""
            assert re.search(r"\((\d|no letter|the paper is silent)", described), f"{name}.{key}"
            assert described.endswith("."), f"{name}.{key}"
    for section in (specs.Depths, specs.SelfAttention, specs.CrossAttention, specs.FeedForward):
        for key, field in section.model_fields.items():
            assert re.search(r"\(3\.\d.*\).*\.$", field.description or ""), f"{section.__name__}.{key}"


def test_no_field_has_a_default() -> None:
    spec = load("base")
    for section in (spec, *(getattr(spec, key) for key in type(spec).model_fields)):
        if section is None or isinstance(section, str):
            continue
        for key, field in type(section).model_fields.items():
            assert field.is_required(), key


def test_those_without_bytes_are_few() -> None:
    """As the README has it: `tiny`, what extends it, and `parsing/tiny`."""
    without = {name for name in specs.names() if not specs.load(name).vocabulary.byte_fallback}
    of_tiny = {name for name in specs.names() if (above := parent(name)) and above.name == specs.load("tiny").name}
    assert len(of_tiny) > 1
    assert without == {"tiny", "parsing/tiny", *of_tiny}


def test_specs_needs_neither_torch_nor_numpy() -> None:
    program = "import sys, specs; specs.load('big'); print([m for m in ('torch', 'numpy') if m in sys.modules])"
    root = Path(specs.__file__).parent.parent
    ran = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


DIALECTS = {
    "t2t-v1": {"architecture.positional_encoding", "training.source_tokens", "training.target_tokens"},
    "t2t-v3": {
        *("architecture.positional_encoding", "training.source_tokens", "training.target_tokens", "architecture.norm"),
        *("architecture.attention_dropout", "architecture.activation_dropout"),
        *("training.learning_rate", "training.warmup_steps", "training.beta2", "decoding.extra_length"),
    },
    "fairseq": {
        *("architecture.positional_encoding", "architecture.norm_epsilon", "architecture.projection_bias"),
        *("architecture.initial_weights", "architecture.first_position", "training.learning_rate", "training.epsilon"),
        *("training.label_smoothing", "training.average", "corpus.max_length", "corpus.max_ratio"),
        *("decoding.beam", "decoding.alpha", "decoding.length_penalty", "decoding.stopping_rule"),
        *("decoding.length_factor", "decoding.extra_length", "decoding.min_length"),
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_is_found_by_its_name_and_says_where_each_difference_comes_from(dialect: str) -> None:
    assert load(dialect) == load(f"dialects/{dialect}")
    assert load(dialect).short == f"dialects/{dialect}"
    found = changes(dialect, "base")
    assert set(found) == DIALECTS[dialect]
    why = specs.comments(dialect)
    assert set(why) == {"", *found}
    assert "o field says" in why[""], "what a spec cannot say is named"


def test_the_rate_of_fairseqs_recipe() -> None:
    spec = load("fairseq")
    peak = spec.training.learning_rate / (spec.architecture.d_model * spec.training.warmup_steps) ** 0.5
    assert peak == pytest.approx(0.0007, rel=1e-5)


def test_a_name_that_several_folders_have_names_none() -> None:
    assert load("a-h16").short == "table3/a-h16"
    assert load("base").short == "base"
    names = [name.rpartition("/")[2] for name in NAMES if "/" in name]
    assert all(load(name).short.endswith(name) for name in names)
