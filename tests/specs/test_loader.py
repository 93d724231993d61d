"""Overrides lie over files, files over the files that they extend, and a spec is equal to what its text parses to."""

from pathlib import Path

import numpy as np
import pytest

import specs
from specs import Depths, Spec
from specs.loader import load, parent, parse
from specs.reader import KIND_MAPPINGS
from tests.specs.files import refusal, write


def test_values_are_read_as_yaml() -> None:
    overrides = ["training.steps=500", "training.epsilon=1.0e-8", "corpus.deduplicate=true", "corpus.max_ratio=3"]
    overrides += ["corpus.folder=../some where/x=y", "compilation.disabled_passes=[fuse_projections]"]
    spec = load("base", [*overrides, "architecture={h: 4, norm: {placement: pre}}"])
    corpus = spec.corpus
    assert (spec.training.steps, spec.training.epsilon) == (500, 1e-8)
    assert (corpus.deduplicate, type(corpus.max_ratio), corpus.folder) == (True, float, "../some where/x=y")
    assert spec.compilation.disabled_passes == ("fuse_projections",)
    assert (spec.architecture.h, spec.architecture.norm.placement, spec.architecture.d_k) == (4, "pre", 128)
    assert load("b-dk16", ["architecture={h: 4, d_k: null}"]).architecture == load("a-h4").architecture
    assert spec.short_name == "base"


@pytest.mark.parametrize(("written", "value"), [("1e-1", 0.1), ("5E+1", 50.0), ("2.e0", 2.0)])
def test_exponent_needs_no_decimal_point_where_a_float_is_expected(written: str, value: float) -> None:
    assert load("tiny", [f"training.learning_rate_factor={written}"]).training.learning_rate_factor == value
    section = f"training={{learning_rate_factor: {written}, clip_norm: 1e1}}"
    assert load("tiny", [section]).training.clip_norm == 10.0
    assert load("tiny", [f"corpus.folder={written}", f"name={written.replace('+', '')}"]).corpus.folder == written
    assert "must be a whole number" in refusal("tiny", [f"training.steps={written}"]).problem


def test_the_last_override_wins_and_python_values_may_be_nested_or_dotted() -> None:
    assert load("tiny", "training.steps=5") == load("tiny", ["training.steps=5"])
    assert load("base", ["training.steps=1", "training={steps: 2}", "training.steps=3"]).training.steps == 3
    values = {
        "architecture.h": np.int64(4),
        "corpus": {"folder": Path("x"), "train": [{"grammar": np.array(7)}, specs.Grammar(grammar=8)]},
    }
    corpus = "corpus={folder: x, train: [{grammar: 7}, {grammar: 8}]}"
    assert load("base", values) == load("base", ["architecture.h=4", corpus])


def test_chain_of_files_across_folders() -> None:
    write("mine.yaml", "extends: big\narchitecture: {N: 3}\n")
    write("deep/own.yml", "extends: ../mine.yaml\narchitecture: {h: 4, d_k: 7}\n")
    spec = load("deep/own.yml")
    sizes = spec.architecture
    assert (sizes.d_k, sizes.d_v, sizes.N, sizes.h, sizes.d_model) == (7, 256, 3, 4, 1024)
    assert (spec.short_name, spec.name, spec.has_own_name) == ("own", "transformer-big-ende", False)
    assert load(Path("deep") / "own.yml") == spec
    assert parent("deep/own.yml") == load("mine.yaml")
    assert (parent("big"), parent("base")) == (load("base"), None)


def test_description_and_licence_are_not_inherited_by_users_specs() -> None:
    write("own.yaml", "extends: tiny\nname: own\nlicence: CC-BY-4.0\n")
    write("more.yaml", "extends: own.yaml\nname: more\n")
    write("described.yaml", "extends: own.yaml\ndescription: Described.\n")
    assert load("own.yaml").description == "A user's model that extends `tiny`."
    assert load("more.yaml").description == "A user's model that extends `own`."
    assert load("described.yaml").description == "Described."
    assert load("own.yaml", ["description=Set."]).description == "Set."
    assert [load(name).licence for name in ("tiny", "own.yaml", "more.yaml")] == [None, "CC-BY-4.0", None]
    assert load("more.yaml", ["licence=MIT"]).licence == "MIT"
    write("whole.yaml", load("tiny").yaml())
    assert load("whole.yaml").description == load("tiny").description == load("tiny", ["name=x"]).description


def test_file_at_the_path_has_precedence_over_the_catalogue() -> None:
    write("specs/big.yaml", "extends: base\nname: mine\n")
    write("big", "not a spec")
    assert load("specs/big.yaml").name == "mine"
    assert load("big").name == load("big.yaml").name == "transformer-big-ende"


def test_lists_are_replaced_as_a_whole() -> None:
    text = "extends: base\ncorpus: {train: [{source: a.en, target: a.de}], test: []}\n"
    corpus = load(write("mine.yaml", text)).corpus
    assert (corpus.train, corpus.test) == ((specs.Files(source="a.en", target="a.de"),), ())
    assert corpus.dev == load("base").corpus.dev


def test_pairs_stand_for_files_in_both_directions() -> None:
    start = "extends: base\nlanguages: {codes: [en, de, fr]}\ncorpus:\n  train:\n    - {pairs: 'a.{pair}', weight: 3}\n"
    rest = "    - pairs: '{source}-{target}'\n      languages: [fr, de]\n      tag: <BT>\n  dev: [{pairs: d}]\n"
    corpus = load(write("data/mine.yaml", start + rest)).corpus
    files = [part for part in corpus.train if isinstance(part, specs.Files)]
    assert [(part.source, part.target, *corpus.direction(part), part.weight, part.tag) for part in files] == [
        ("a.en-de.en", "a.en-de.de", "en", "de", 3, None),
        ("a.en-de.de", "a.en-de.en", "de", "en", 3, None),
        ("a.en-fr.en", "a.en-fr.fr", "en", "fr", 3, None),
        ("a.en-fr.fr", "a.en-fr.en", "fr", "en", 3, None),
        ("a.de-fr.de", "a.de-fr.fr", "de", "fr", 3, None),
        ("a.de-fr.fr", "a.de-fr.de", "fr", "de", 3, None),
        ("de-fr.de", "de-fr.fr", "de", "fr", 1, "<BT>"),
        ("fr-de.fr", "fr-de.de", "fr", "de", 1, "<BT>"),
    ]
    written = {"source": "d.de", "target": "d.en", "source_language": "de", "target_language": "en"}
    assert [part.model_dump() for part in corpus.dev[:2]] == [{"source": "d.en", "target": "d.de"}, written]
    lines = [specs.where_written("data/mine.yaml", (), path) for path in ("a.de-fr.fr", "fr-de.de", "d.en", "d")]
    assert (corpus.folder, lines) == ("data", [*(f"data/mine.yaml:{n}" for n in (5, 6, 9)), None])
    assert [len(getattr(load("everyday").corpus, split)) for split in ("train", "dev", "test")] == [72, 12, 12]


def test_aliases_integers_for_floats_and_byte_order_marks_are_accepted() -> None:
    path = write("mine.yaml", "\ufeffextends: base\ncorpus: {dev: &d [{held_out: 9}], test: *d}\n")
    assert load(path).corpus.dev == load(path).corpus.test == (specs.HeldOut(held_out=9),)
    path = write("other.yaml", "extends: base\ntraining: {learning_rate_factor: 2}\ndescription: Füße.\n")
    assert load(path).training.learning_rate_factor == 2.0
    assert load(path).description == "Füße."


def test_shipped_specs_are_equal_to_their_parsed_text() -> None:
    for name in specs.names():
        again = parse(load(name).yaml(), "run/spec.yaml")
        assert again == load(name)
        assert again.short_name == load(name).name


def test_equality_depends_on_fields_only() -> None:
    spec = load("base")
    other = spec.with_short_name("other")
    assert (other, other.short_name) == (spec, "other")
    assert len({spec, other, load("base"), load("tiny"), "base"}) == 3


def test_depths_may_differ_and_equal_depths_are_one_number() -> None:
    equal, different = Depths(encoder=6, decoder=6), Depths(encoder=12, decoder=2)
    assert (load("base").architecture.N, load("base").architecture.depths) == (6, equal)
    assert load("base", {"architecture.N": equal}) == load("base")
    depths = ["architecture.N={encoder: 12, decoder: 2}"]
    spec = load("base", depths)
    assert spec.architecture.N == spec.architecture.depths == different
    assert "\n  N:\n    encoder: 12\n    decoder: 2\n" in spec.yaml()
    assert load("base", {"architecture.N": different}) == parse(spec.yaml(), "spec.yaml") == spec
    assert str(different) == "12 and 2"
    assert load("base", [*depths, "architecture.N.decoder=3"]).architecture.depths.decoder == 3
    assert load("base", [*depths, "architecture.N=4"]).architecture.N == 4


def test_a_part_of_another_kind_loses_the_options_of_the_first() -> None:
    learned = load("table3/e-learned")
    assert learned.architecture.positions.model_dump() == {"kind": "learned", "rows": 512}
    rotary = load("table3/e-learned", ["architecture.positions.kind=rotary"])
    assert rotary.architecture.positions.model_dump() == {"kind": "rotary", "theta": 10_000.0}
    assert load("table3/e-learned", ["architecture.positions.rows=600"]).architecture.max_positions == 600
    norm = load("dialects/fairseq", ["architecture.norm.kind=rms_norm"]).architecture.norm
    assert (norm.kind, norm.epsilon) == ("rms_norm", 1e-5), "both kinds of norms have the same options"


def test_mappings_whose_kind_decides_their_keys_are_the_unions_of_the_schema() -> None:
    schema = Spec.model_json_schema()
    sections = [schema, *schema["$defs"].values()]
    fields = [field for section in sections for field in section.get("properties", {}).items()]
    assert {key for key, field in fields if "discriminator" in field} == set(KIND_MAPPINGS)
