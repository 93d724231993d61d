"""Values from the command line or from Python, over files; and files over files."""

from pathlib import Path

import pytest

import specs
from specs.loader import load


def test_command_line_values_are_read_as_yaml() -> None:
    spec = load(
        "base",
        [
            "training.steps=500",
            "training.epsilon=1.0e-8",
            "corpus.deduplicate=true",
            "corpus.max_ratio=3",
            "corpus.folder=../some where/x=y",
            "compilation.disabled_passes=[fuse_projections]",
            "architecture={h: 4, norm: pre}",
        ],
    )
    assert (spec.training.steps, spec.training.epsilon) == (500, 1e-8)
    assert spec.corpus.deduplicate is True
    assert isinstance(spec.corpus.max_ratio, float)
    assert spec.corpus.folder == "../some where/x=y"
    assert spec.compilation.disabled_passes == ("fuse_projections",)
    assert (spec.architecture.h, spec.architecture.norm, spec.architecture.d_k) == (4, "pre", 64)
    assert spec.short_name == "base"


@pytest.mark.parametrize(("written", "value"), [("1e-3", 1e-3), ("5E+2", 500.0), ("2.e0", 2.0)])
def test_an_exponent_needs_no_dot_where_it_is_typed(written: str, value: float) -> None:
    assert load("tiny", [f"training.learning_rate={written}"]).training.learning_rate == value
    assert load("tiny", [f"training={{learning_rate: {written}, clip_norm: 1e1}}"]).training.clip_norm == 10.0
    assert load("tiny", [f"corpus.folder={written}", f"name={written.replace('+', '')}"]).corpus.folder == written
    with pytest.raises(specs.ZooError, match="must be a whole number"):
        load("tiny", [f"training.steps={written}"])


def test_the_last_override_wins() -> None:
    assert load("base", ["training.steps=1", "training={steps: 2}", "training.steps=3"]).training.steps == 3


def test_clocks_of_checkpoints_are_exchanged_together() -> None:
    spec = load("base", ["training.checkpoint_minutes=10", "training.checkpoint_steps=null"])
    assert (spec.training.checkpoint_minutes, spec.training.checkpoint_steps) == (10.0, None)


def test_python_overrides_nest_or_are_dotted() -> None:
    nested = load("tiny", {"training": {"steps": 5}, "corpus": {"train": [{"grammar": 7}]}})
    dotted = load("tiny", {"training.steps": 5, "corpus.train": (specs.Grammar(grammar=7),)})
    assert nested == dotted
    assert nested.corpus.train == (specs.Grammar(grammar=7),)


def test_one_text_is_one_override() -> None:
    assert load("tiny", "training.steps=5").training.steps == 5


def test_a_file_extends_a_name_or_a_path_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "mine.yaml").write_text("extends: big\narchitecture: {N: 3}\n", encoding="utf-8")
    (tmp_path / "deep" / "own.yml").write_text("extends: ../mine.yaml\ntraining: {steps: 7}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    spec = load("deep/own.yml")
    assert (spec.training.steps, spec.architecture.N, spec.architecture.h) == (7, 3, 16)
    assert (spec.short_name, spec.name) == ("own", "transformer-big-ende")
    assert load(Path("deep") / "own.yml") == spec
    assert specs.parent("deep/own.yml") == load("mine.yaml")


def test_a_description_is_true_of_the_spec_that_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("extends: tiny\nname: own\n", encoding="utf-8")
    Path("more.yaml").write_text("extends: own.yaml\nname: more\n", encoding="utf-8")
    Path("said.yaml").write_text("extends: own.yaml\ndescription: Said.\n", encoding="utf-8")
    assert load("own.yaml").description == "A model of one's own, by a spec that extends `tiny`."
    assert load("more.yaml").description == "A model of one's own, by a spec that extends `own`."
    assert load("said.yaml").description == "Said."
    assert load("own.yaml", ["description=Set."]).description == "Set."
    Path("whole.yaml").write_text(load("tiny").yaml(), encoding="utf-8")
    assert load("whole.yaml").description == load("tiny").description == load("tiny", ["name=x"]).description


def test_a_licence_is_of_the_spec_that_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("extends: tiny\nlicence: CC-BY-4.0\n", encoding="utf-8")
    Path("more.yaml").write_text("extends: own.yaml\nname: more\n", encoding="utf-8")
    assert [load(name).licence for name in ("tiny", "own.yaml", "more.yaml")] == [None, "CC-BY-4.0", None]
    assert load("more.yaml", ["licence=MIT"]).licence == "MIT"
    assert specs.parse(load("own.yaml").yaml(), "run/spec.yaml").licence == "CC-BY-4.0"


def test_a_file_at_the_path_wins_over_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "big.yaml").write_text("extends: base\nname: mine\n", encoding="utf-8")
    (tmp_path / "big").write_text("not a spec", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load("specs/big.yaml").name == "mine"
    assert load("big").name == load("big.yaml").name == "transformer-big-ende"


def test_a_list_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: base\ncorpus: {train: [{source: a.en, target: a.de}], test: []}\n", encoding="utf-8")
    corpus = load(path).corpus
    assert corpus.train == (specs.Files(source="a.en", target="a.de"),)
    assert corpus.test == ()
    assert corpus.dev == load("base").corpus.dev


def test_aliases_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: base\ncorpus: {dev: &d [{held_out: 9}], test: *d}\n", encoding="utf-8")
    assert load(path).corpus.dev == load(path).corpus.test == (specs.HeldOut(held_out=9),)


def test_a_whole_number_is_a_number_and_text_with_a_byte_order_mark_is_text(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes("\ufeffextends: base\ntraining: {learning_rate: 2}\ndescription: Füße.\n".encode())
    assert load(path).training.learning_rate == 2.0
    assert load(path).description == "Füße."


@pytest.mark.parametrize("side", ["training.source_tokens", "training.target_tokens"])
def test_a_step_holds_the_longest_sentence_and_its_end(side: str) -> None:
    load("base", {"corpus.max_length": 64, side: 65})
    with pytest.raises(specs.ZooError, match="has no room"):
        load("base", {"corpus.max_length": 64, side: 64})


def test_a_table_of_positions_holds_the_longest_sentence_and_its_end() -> None:
    learned = {"architecture.positional_encoding": "learned", "corpus.max_length": 64}
    load("base", learned | {"architecture.max_positions": 65})
    with pytest.raises(specs.ZooError, match="has no row"):
        load("base", learned | {"architecture.max_positions": 64})


def test_errors_of_overrides_come_in_their_order() -> None:
    wrong = ["training.steps=x", "decoding.beam=y", "architecture.h=z", "training.steps=w"]
    with pytest.raises(specs.ZooError) as caught:
        load("tiny", wrong)
    assert [each.where for each in (caught.value, *caught.value.additional)] == [
        f"command line: `{text}`" for text in wrong[1:]
    ]


def test_a_folder_with_a_spec_in_it_is_no_spec_but_a_hint() -> None:
    Path("runs/x").mkdir(parents=True)
    Path("runs/x/spec.yaml").write_text("extends: tiny\n")
    with pytest.raises(specs.ZooError) as caught:
        load("runs/x")
    assert (caught.value.summary, caught.value.hint) == ("`runs/x` is a folder", "its spec is `runs/x/spec.yaml`")
