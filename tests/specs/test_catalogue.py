"""Every shipped spec loads, changes only what its row of the paper says, and is found by its name."""

import re
from typing import Any

import pytest
import yaml

import specs
from specs.catalogue import FOLDER
from specs.loader import load, parent

NAMES = specs.names()
BIG = {"architecture.d_model": 1024, "architecture.d_ff": 4096, "architecture.h": 16}
ROWS = {
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
    "e-learned": {"architecture.positions": {"kind": "learned", "rows": 512}},
    "big": {**BIG, "architecture.dropout": 0.3, "training.steps": 300_000},
}
"""Columns of Table 3 in which each row differs from the base model."""
CHECKSUMS = {
    "training-parallel-europarl-v7.tgz": "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    "training-parallel-commoncrawl.tgz": "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    "training-parallel-nc-v9.tgz": "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
}
"""From tensorflow/datasets, `url_checksums/wmt14_translate.txt`. No such list has the other archives."""


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def leaves(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def redundant_keys(written: dict[str, Any], inherited: dict[str, Any]) -> list[str]:
    """Return the keys that a file sets to the value that they have without it."""
    defaults = leaves(inherited)
    metadata = set(specs.METADATA_FIELDS)
    return [key for key, value in leaves(written).items() if key not in metadata and defaults.get(key, ...) == value]


def changes(name: str, other: str) -> dict[str, Any]:
    differing = specs.difference(load(name), load(other))
    return {key: new for key, (_, new) in differing.items() if key not in specs.METADATA_FIELDS}


def test_catalogue_has_the_paper_s_models() -> None:
    assert {"base", "big", "base-enfr", "big-enfr", "tiny", "multi30k-ende"} <= set(NAMES)
    assert {name for name in NAMES if name.startswith("table3/")} == {f"table3/{row}" for row in ["base", *ROWS]}
    assert len({load(name).name for name in NAMES}) == len(NAMES)
    assert load("table3/a-h1").name == "transformer-table3-a-h1-ende"


def test_shipped_specs_load_by_name_and_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parent)
    for name in NAMES:
        spec = load(name)
        assert spec.short_name == name
        for reference in (f"specs/{name}.yaml", f"./specs/{name}.yaml", str(FOLDER / f"{name}.yaml"), f"specs/{name}"):
            assert load(reference) == spec
            assert load(reference).short_name == name


def test_folder_may_be_left_out_of_a_unique_name() -> None:
    assert load("a-h16").short_name == "table3/a-h16"
    assert load("base").short_name == "base", "the spec at the top level, not table3/base"
    assert load("fairseq") == load("dialects/fairseq")


def test_no_shipped_spec_repeats_a_value_of_its_parent() -> None:
    for name in NAMES:
        extended = parent(name)
        if extended is None:
            assert name == "base", "every other spec extends one"
        else:
            assert redundant_keys(yaml.safe_load(text_of(name)), extended.model_dump(mode="json")) == [], name
    inherited = load("base").model_dump(mode="json")
    assert redundant_keys({"name": "x", "training": {"steps": 100_000, "average": 1}}, inherited) == ["training.steps"]


def test_shipped_specs_have_a_short_description_and_name_the_schema() -> None:
    for name in NAMES:
        description = load(name).description
        assert description.endswith("."), name
        assert len(description) < 90, name
        first = text_of(name).splitlines()[0]
        assert first.startswith("# yaml-language-server: $schema="), name
        assert ((FOLDER / f"{name}.yaml").parent / first.partition("=")[2]).resolve() == FOLDER / "schema.json"


def test_base_sets_every_field_to_the_paper_s_value() -> None:
    spec = load("base")
    assert yaml.safe_load(text_of("base")) == spec.model_dump(mode="json")
    a, t = spec.architecture, spec.training
    assert (a.N, a.d_model, a.d_ff, a.h, a.d_k, a.d_v, a.dropout) == (6, 512, 2048, 8, 64, 64, 0.1)
    assert (a.norm.placement, a.tied_embeddings, a.projection_bias) == ("post", "all", False)
    assert [sublayer.kind for sublayer in a.encoder] == ["self_attention", "feed_forward"]
    assert [sublayer.kind for sublayer in a.decoder] == ["self_attention", "cross_attention", "feed_forward"]
    assert (t.steps, t.source_tokens, t.target_tokens, t.warmup_steps) == (100_000, 25_000, 25_000, 4000)
    assert (t.beta1, t.beta2, t.epsilon, t.label_smoothing, t.average) == (0.9, 0.98, 1e-9, 0.1, 5)
    assert (spec.decoding.beam, spec.decoding.alpha, spec.decoding.extra_length) == (4, 0.6, 50)


def test_big_differs_from_base_as_in_table_3() -> None:
    schedule = {"training.steps": 300_000, "training.checkpoint_steps": 600, "training.average": 20}
    assert changes("big", "base") == BIG | {"architecture.dropout": 0.3} | schedule
    assert changes("big-enfr", "base-enfr") == BIG | schedule
    french = {"vocabulary.size", "corpus.target", "corpus.train", "corpus.dev", "corpus.test"}
    assert set(changes("big-enfr", "big")) == french | {"architecture.dropout"}
    assert set(changes("base-enfr", "base")) == french


def test_rows_of_table_3_change_their_columns_only() -> None:
    assert changes("table3/base", "base") == {"training.average": 1}, "Table 3 does not average checkpoints"
    for row, columns in ROWS.items():
        assert changes(f"table3/{row}", "table3/base") == columns
        assert parent(f"table3/{row}") == load("table3/base")


def test_archives_use_https_and_published_checksums() -> None:
    for name in NAMES:
        corpus = load(name).corpus
        for part in corpus.parts:
            if isinstance(part, specs.Archive):
                assert part.sha256 == CHECKSUMS.get(part.archive.rpartition("/")[2])
                assert part.archive.startswith("https://www.statmt.org/")
                assert corpus.source in part.source
                assert corpus.target in part.target


def test_every_field_description_names_its_section() -> None:
    sections = [specs.Architecture, specs.Vocabulary, specs.Training, specs.Decoding, specs.Depths]
    sections += [specs.SelfAttention, specs.CrossAttention, specs.FeedForward]
    for section in sections:
        for key in section.model_fields:
            described = section.describe(key)
            sources = (
                r"[Ss]ection 3|[Ss]ections? [56]|Table 1|not in the paper|paper gives|`architecture\.|et al|Shazeer"
            )
            assert re.search(sources, described), key
            assert described.endswith("."), f"{section.__name__}.{key}"


def test_only_fields_that_written_specs_may_lack_have_a_default() -> None:
    """The default is the value of `base`."""
    spec, lacking = load("base"), {"shortlist", "filters", "copy_symbols", "ctc_weight"}
    for section in (spec, *(getattr(spec, key) for key in type(spec).model_fields)):
        if section is not None and not isinstance(section, str):
            fields = type(section).model_fields.items()
            defaults = {name: field.default for name, field in fields if not field.is_required()}
            assert defaults.keys() <= lacking, section
            assert all(getattr(section, name) == default for name, default in defaults.items())


def test_only_tiny_specs_lack_byte_fallback() -> None:
    without = {name for name in NAMES if not load(name).vocabulary.byte_fallback}
    extending_tiny = {name for name in NAMES if (extended := parent(name)) and extended.name == load("tiny").name}
    assert len(extending_tiny) > 1
    digits = {"speech/digits", "speech/digits-natural", "pictures/digits"}
    assert without == {"tiny", "parsing/tiny", *digits, *extending_tiny}


DIALECTS = {
    "t2t-v1": "architecture.positions.kind training.source_tokens training.target_tokens",
    "t2t-v3": """
        architecture.positions.kind architecture.norm.placement architecture.attention_dropout
        architecture.activation_dropout training.source_tokens training.target_tokens training.learning_rate_factor
        training.warmup_steps training.beta2 decoding.extra_length""",
    "fairseq": """
        architecture.positions.kind architecture.positions.first architecture.norm.epsilon
        architecture.projection_bias architecture.initial_weights training.learning_rate_factor training.epsilon
        training.label_smoothing training.average corpus.max_length corpus.max_ratio decoding.beam decoding.alpha
        decoding.length_penalty decoding.stopping_rule decoding.length_factor decoding.extra_length
        decoding.min_length""",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_give_a_reason_for_each_difference(dialect: str) -> None:
    differing = changes(dialect, "base")
    assert set(differing) == set(DIALECTS[dialect].split())
    reasons = specs.comments(dialect)
    assert set(reasons) == {"", *differing}


def test_peak_learning_rate_of_the_fairseq_dialect() -> None:
    spec = load("fairseq")
    peak = spec.training.learning_rate_factor / (spec.architecture.d_model * spec.training.warmup_steps) ** 0.5
    assert peak == pytest.approx(0.0007, rel=1e-5)
