"""Every shipped spec loads, changes only what its row of the paper says, and is found by its name."""

import re
from typing import Any

import pytest
import yaml

import specs
from specs.catalogue import FOLDER
from specs.loader import load, parent

NAMES = specs.names()
BIG = {"d_model": 1024, "d_ff": 4096, "h": 16}
ROWS = {
    **{f"a-h{h}": {"h": h, "d_k": 512 // h, "d_v": 512 // h} for h in (1, 4, 16, 32)},
    **{f"b-dk{width}": {"d_k": width} for width in (16, 32)},
    **{f"c-n{layers}": {"N": layers} for layers in (2, 4, 8)},
    **{f"c-dmodel{width}": {"d_model": width, "d_k": width // 8, "d_v": width // 8} for width in (256, 1024)},
    **{f"c-dff{width}": {"d_ff": width} for width in (1024, 4096)},
    "d-dropout0": {"dropout": 0.0},
    "d-dropout02": {"dropout": 0.2},
    "e-learned": {"positions": {"kind": "learned", "rows": 512}},
    "big": {**BIG, "dropout": 0.3},
}
"""Rows of Table 3, and the fields of the architecture in which each differs from the base model."""
TRAINING = {
    "d-smoothing0": {"label_smoothing": 0.0},
    "d-smoothing02": {"label_smoothing": 0.2},
    "big": {"steps": 300_000},
}
"""Rows of Table 3 that change the training."""
CHECKSUMS = {
    "training-parallel-europarl-v7.tgz": "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    "training-parallel-commoncrawl.tgz": "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    "training-parallel-nc-v9.tgz": "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
}
"""From tensorflow/datasets, `url_checksums/wmt14_translate.txt`. No such list has the other archives."""


def text_of(name: str) -> str:
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def changes(name: str, other: str) -> dict[str, Any]:
    differing = specs.difference(load(name), load(other))
    return {key: new for key, (_, new) in differing.items() if key not in specs.METADATA_FIELDS}


def sections(architecture: dict[str, Any], training: dict[str, Any]) -> dict[str, Any]:
    changed = {"architecture": architecture, "training": training}
    return {f"{section}.{key}": value for section, fields in changed.items() for key, value in fields.items()}


def test_catalogue_has_the_paper_s_models() -> None:
    assert {"base", "big", "base-enfr", "big-enfr", "tiny", "multi30k-ende"} <= set(NAMES)
    rows = {"base", *ROWS, *TRAINING}
    assert {name for name in NAMES if name.startswith("table3/")} == {f"table3/{row}" for row in rows}
    assert len({load(name).name for name in NAMES}) == len(NAMES)
    assert load("table3/a-h1").name == "transformer-table3-a-h1-ende"


def test_shipped_specs_load_by_name_and_by_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parent)
    for name in NAMES:
        for reference in (f"specs/{name}.yaml", f"./specs/{name}.yaml", str(FOLDER / f"{name}.yaml"), f"specs/{name}"):
            assert load(reference) == load(name)
            assert load(reference).short_name == load(name).short_name == name


def test_folder_may_be_left_out_of_a_unique_name() -> None:
    assert load("a-h16").short_name == "table3/a-h16"
    assert load("base").short_name == "base", "the spec at the top level, not table3/base"
    assert load("fairseq") == load("dialects/fairseq")


def test_shipped_specs_have_a_short_description_and_name_the_schema() -> None:
    for name in NAMES:
        description = load(name).description
        assert description.endswith("."), name
        assert len(description) < 90, name
        directive, _, schema = text_of(name).splitlines()[0].partition("=")
        assert directive == "# yaml-language-server: $schema", name
        assert ((FOLDER / f"{name}.yaml").parent / schema).resolve() == FOLDER / "schema.json"


def test_base_sets_every_field_to_the_paper_s_value() -> None:
    spec = load("base")
    written = yaml.safe_load(text_of("base"))
    a, t = spec.architecture, spec.training
    written["architecture"] |= {"d_k": a.d_k, "d_v": a.d_v}  # null, that is d_model / h
    assert written == spec.model_dump(mode="json")
    assert (a.N, a.d_model, a.d_ff, a.h, a.d_k, a.d_v, a.dropout) == (6, 512, 2048, 8, 64, 64, 0.1)
    assert (a.norm.placement, a.tied_embeddings, a.projection_bias) == ("post", "all", False)
    assert [sublayer.kind for sublayer in a.encoder] == ["self_attention", "feed_forward"]
    assert [sublayer.kind for sublayer in a.decoder] == ["self_attention", "cross_attention", "feed_forward"]
    assert (t.steps, t.source_tokens, t.target_tokens, t.warmup_steps) == (100_000, 25_000, 25_000, 4000)
    assert (t.beta1, t.beta2, t.epsilon, t.label_smoothing, t.average) == (0.9, 0.98, 1e-9, 0.1, 5)
    assert (spec.decoding.beam, spec.decoding.alpha, spec.decoding.extra_length) == (4, 0.6, 50)


def test_big_differs_from_base_as_in_table_3() -> None:
    big = sections(BIG, {"steps": 300_000, "checkpoint_steps": 600, "average": 20})
    assert changes("big", "base") == big | {"architecture.dropout": 0.3}
    assert changes("big-enfr", "base-enfr") == big
    french = {"vocabulary.size", "corpus.target", "corpus.train", "corpus.dev", "corpus.test"}
    assert set(changes("base-enfr", "base")) == french


def test_rows_of_table_3_change_their_columns_only() -> None:
    assert changes("table3/base", "base") == {"training.average": 1}, "Table 3 does not average checkpoints"
    for row in {**ROWS, **TRAINING}:
        assert changes(f"table3/{row}", "table3/base") == sections(ROWS.get(row, {}), TRAINING.get(row, {}))
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
    network = (specs.Architecture, specs.Depths, specs.SelfAttention, specs.CrossAttention, specs.FeedForward)
    sources = r"[Ss]ection 3|[Ss]ections? [56]|Table 1|not in the paper|paper gives|`architecture\.|et al|Shazeer"
    for section in (*network, specs.Vocabulary, specs.Training, specs.Decoding):
        for key in section.model_fields:
            assert re.search(f"({sources}).*\\.$", section.describe(key), re.DOTALL), f"{section.__name__}.{key}"


def test_only_fields_that_written_specs_may_lack_have_a_default() -> None:
    """The default is the value of `base`."""
    spec, lacking = load("base"), {"shortlist", "filters", "copy_symbols", "ctc_weight"}
    for section in (spec, *(getattr(spec, key) for key in type(spec).model_fields)):
        if section is not None and not isinstance(section, str):
            fields = type(section).model_fields.items()
            defaults = {name: field.default for name, field in fields if not field.is_required()}
            assert defaults.keys() <= lacking, section
            assert all(getattr(section, name) == default for name, default in defaults.items())


@pytest.mark.parametrize("dialect", ["t2t-v1", "t2t-v3", "fairseq"])
def test_dialects_give_a_reason_for_each_difference(dialect: str) -> None:
    assert set(specs.comments(dialect)) == {"", *changes(dialect, "base")}


def test_peak_learning_rate_of_the_fairseq_dialect() -> None:
    spec = load("fairseq")
    peak = spec.training.learning_rate_factor / (spec.architecture.d_model * spec.training.warmup_steps) ** 0.5
    assert peak == pytest.approx(0.0007, rel=1e-5)
