"""What was written stays readable: frozen runs and bundles of every past format, and the upgrades between formats."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import specs
import zoo
from specs import Spec, ZooError, catalogue, history, loader
from specs.notation import dump
from specs.written import Written
from specs.written import given as given_value
from zoo.files import storage
from zoo.publishing.verify import verify
from zoo.report import Report
from zoo.training.train import train

FROZEN = sorted(Path(__file__).with_name("frozen").glob("format-*"))
OTHER_BATCHES = {"format-1-a"}
"""Begun when a corpus was prepared otherwise: what is left of their epoch is no more, and none goes on with another."""


def frozen_spec(folder: Path) -> Spec:
    file = folder / "spec.yaml"
    return specs.parse(file.read_text(encoding="utf-8"), str(file))


def expected(folder: Path) -> tuple[list[str], list[str]]:
    lines = (folder / "expected.txt").read_text(encoding="utf-8").splitlines()
    sources, texts = zip(*(line.split("\t") for line in lines), strict=True)
    return list(sources), list(texts)


@pytest.fixture(params=FROZEN, ids=lambda folder: folder.name)
def frozen(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


def test_every_past_format_is_frozen() -> None:
    numbers = {int(folder.name.split("-")[1]) for folder in FROZEN}
    assert numbers >= set(range(history.FIRST, history.FORMAT)), "see CONTRIBUTING.md: a change of a field"
    assert max(numbers) <= history.FORMAT


def test_a_frozen_folder_says_the_format_it_is_of(frozen: Path) -> None:
    for folder in (frozen / "run", frozen / "bundle"):
        said = yaml.safe_load((folder / "spec.yaml").read_text(encoding="utf-8")).get("format", history.FIRST)
        assert said == int(frozen.name.split("-")[1])


def test_a_frozen_folder_names_no_place_of_the_machine_that_made_it(frozen: Path) -> None:
    for file in frozen.rglob("*"):
        assert not file.is_file() or not any(word in file.read_bytes() for word in (b"/tmp", b"/root", b"/home"))


def test_frozen_specs_are_read(frozen: Path) -> None:
    run, bundle = frozen_spec(frozen / "run"), frozen_spec(frozen / "bundle")
    assert run == bundle
    assert (run.name, run.architecture.depths.decoder, run.decoding.extra_length) == ("frozen", 2, 10)
    # All that a later format added is what it was before it could be said.
    assert [each.kind for each in run.architecture.decoder] == ["self_attention", "cross_attention", "feed_forward"]
    assert (run.training.dev_score, run.training.max_tokens, run.decoding.search) == ("perplexity", None, "beam")
    assert (run.vocabulary.byte_fallback, run.decoding.max_source_length) == (False, 1024)
    assert (run.task.kind, run.vocabulary.target_size) == ("translation", None)
    network, search = run.architecture, run.decoding
    assert (network.activation_dropout, network.attention_score) == (0.0, "scaled_dot_product")
    assert (network.activation, network.first_position, network.output_bias) == ("relu", 0, False)
    assert (search.length_penalty, search.stopping_rule, search.length_factor, search.suppressed_tokens) == (
        "gnmt",
        "admissible",
        1.0,
        (),
    )
    assert search.min_length == 0
    assert not run.vocabulary.separate_models
    assert run.licence is None


@pytest.mark.parametrize("kind", ["run", "bundle"])
def test_frozen_models_translate_to_the_same_text(frozen: Path, kind: str) -> None:
    sources, texts = expected(frozen)
    translator = zoo.load(str(frozen / kind), device="cpu", backend="eager", precision="float32")
    assert translator.translate(sources) == texts


def test_frozen_bundles_are_what_was_published(frozen: Path) -> None:
    shutil.copytree(frozen / "bundle", storage.models() / "frozen")
    verified = verify("frozen")
    files = sum(file.is_file() for file in (frozen / "bundle").iterdir())
    assert (verified.files, verified.sentences) == (files - 1, 4)  # all but the manifest
    sources, texts = expected(frozen)
    assert zoo.load("frozen", device="cpu", backend="eager").translate(sources) == texts


def longer(spec: Spec) -> Spec:
    training = spec.training.model_copy(update={"steps": spec.training.steps + 3, "log_steps": 1})
    return spec.model_copy(update={"training": training})


def test_frozen_runs_go_on(frozen: Path) -> None:
    run = Path(shutil.copytree(frozen / "run", "run"))
    spec = longer(frozen_spec(run))
    if frozen.name in OTHER_BATCHES:
        with pytest.raises(ZooError, match="the corpus has changed since `run` was begun, or how this version prep"):
            zoo.train(spec, run=run, device="cpu")
        assert (run / "spec.yaml").read_bytes() == (frozen / "run" / "spec.yaml").read_bytes()
        return
    train(spec, run=run, device="cpu", report=Report())
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["step"] for line in logged if "loss" in line] == [3001, 3002, 3003]
    assert frozen_spec(run) == spec
    assert f"format: {history.FORMAT}\n" in (run / "spec.yaml").read_text(encoding="utf-8")
    assert zoo.load("run", device="cpu").translate(["we read two books today"])


def test_every_format_has_its_upgrade() -> None:
    assert set(history.UPGRADES) == set(range(history.FIRST, history.FORMAT))


def written_before(spec: Spec) -> str:
    """A whole spec as the first format had it."""
    values = spec.model_dump(mode="json")
    del values["task"]
    for name, later in {
        "architecture": (
            *("encoder", "decoder", "activation_dropout", "attention_score"),
            *("activation", "first_position", "output_bias"),
        ),
        "training": (
            *(
                "max_tokens",
                "max_minutes",
                "dev_score",
                "patience",
                "clip_norm",
                "subword_regularization",
                "start_from",
            ),
        ),
        "vocabulary": ("target_size", "byte_fallback", "separate_models"),
        "decoding": (
            *("search", "max_source_length", "temperature", "top_k", "top_p", "workers"),
            *("length_penalty", "stopping_rule", "length_factor", "min_length", "suppressed_tokens"),
        ),
        "compilation": ("precision",),
    }.items():
        for key in later:
            del values[name][key]
    return dump(values)


def test_what_an_upgrade_supplies_is_not_read_from_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base.yaml of tomorrow changes nothing of what was trained by today's."""
    base = specs.load("base", {"vocabulary.byte_fallback": False})
    text = written_before(base)

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("the catalogue is read")

    for module in (catalogue, loader):
        monkeypatch.setattr(module, "find", refuse)
    monkeypatch.setattr(catalogue.Source, "text", refuse)
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert specs.parse(text, "spec.yaml") == base


def test_what_is_written_in_an_old_file_stays() -> None:
    spec = specs.load("tiny", {"decoding.beam": 7, "compilation.backend": "eager"})
    assert specs.parse(written_before(spec), "spec.yaml") == spec


def test_an_upgraded_value_has_a_place() -> None:
    lines = written_before(specs.load("tiny")).splitlines()
    old = {name: given_value({}, "spec.yaml", line) for name, line in (("architecture", 3), ("training", 30))}
    found = history.upgraded(Written(old, "spec.yaml", 1), unsaid=history.FIRST)
    assert found.at(("architecture", "decoder", 1, "kind")).where == "spec.yaml:3"
    assert found.at(("training", "patience")).where == "spec.yaml:30"
    assert set(found.value) == set(old), "a section that is not there is missing"
    # A rule that an upgraded value breaks is told where the section begins, or where the other value is written.
    text = "\n".join(lines).replace("log_steps: 100", "log_steps: 100\n  patience: x")
    with pytest.raises(ZooError) as error:
        specs.parse(text, "run/spec.yaml")
    assert error.value.where == f"run/spec.yaml:{lines.index('  log_steps: 100') + 2}"


def test_a_file_that_extends_another_lacks_only_what_it_does_not_change(tmp_path: Path) -> None:
    (tmp_path / "above.yaml").write_text("extends: base\ntraining: {patience: 3}\n", encoding="utf-8")
    (tmp_path / "mine.yaml").write_text("format: 1\nextends: above.yaml\ntraining: {seed: 2}\n", encoding="utf-8")
    assert specs.load(tmp_path / "mine.yaml").training.patience == 3


def test_an_old_file_of_ones_own_is_whole_or_says_so(tmp_path: Path) -> None:
    """With every section and no format it is old; one that leaves sections out is taken for one of today."""
    file, text = tmp_path / "mine.yaml", written_before(specs.load("tiny"))
    for whole in (text, f"format: 1\n{text}"):
        file.write_text(whole, encoding="utf-8")
        assert specs.load(file) == specs.load("tiny")
    file.write_text(f"format: 2\n{text}", encoding="utf-8")
    with pytest.raises(ZooError, match=r"`architecture\.encoder` and `architecture\.decoder` are missing"):
        specs.load(file)
    file.write_text(text.partition("compilation:")[0], encoding="utf-8")
    with pytest.raises(ZooError, match=r"`task` and `compilation` are missing"):
        specs.load(file)


def test_what_zoo_writes_says_its_format() -> None:
    spec = specs.load("tiny")
    assert spec.yaml().startswith(f"format: {history.FORMAT}\nname: ")
    assert spec.yaml("0.1.0").startswith(f"# written by zoo 0.1.0\nformat: {history.FORMAT}\nname: ")
    # What lacks a field of the format that it says is damaged, not old.
    with pytest.raises(ZooError, match=r"`training\.patience` is missing"):
        specs.parse(spec.yaml().replace("  patience: null\n", ""), "spec.yaml")


@pytest.mark.parametrize("by", [None, "9.9.9"])
def test_a_newer_format_is_refused_by_its_version(by: str | None, tmp_path: Path) -> None:
    """Whatever else is in it: nobody is sent to look for damage."""
    number = history.FORMAT + 1
    text = specs.load("tiny").yaml(by).replace(f"format: {history.FORMAT}\n", f"format: {number}\nunheard: of\n")
    file = tmp_path / "spec.yaml"
    file.write_text(text, encoding="utf-8")
    author = "a newer zoo" if by is None else f"zoo {by}"
    problem = f"{author} wrote this, in format {number}, and this one reads formats 1 to {history.FORMAT}"
    for read in (lambda: specs.parse(text, str(file)), lambda: specs.load(file)):
        with pytest.raises(ZooError) as error:
            read()
        assert error.value.problem == problem
        assert error.value.where == f"{file}:{1 if by is None else 2}"
        assert (error.value.hint, error.value.exit_code) == ("install a newer zoo", 2)


def test_a_run_of_a_newer_format_is_refused_by_its_version() -> None:
    run = Path(shutil.copytree(FROZEN[-1] / "run", "run"))
    spec = frozen_spec(run)
    text = spec.yaml().replace(f"format: {history.FORMAT}\n", "format: 99\n")
    (run / "spec.yaml").write_text(text, encoding="utf-8")
    for use in (lambda: zoo.load("run"), lambda: zoo.train(spec, run="run", device="cpu")):
        with pytest.raises(ZooError, match="a newer zoo wrote this, in format 99"):
            use()


@pytest.mark.parametrize("said", ["two", "0", "null", "true", "2.0", "[2]", "-1"])
def test_a_format_that_is_none(said: str) -> None:
    text = specs.load("tiny").yaml().replace(f"format: {history.FORMAT}\n", f"format: {said}\n")
    with pytest.raises(
        ZooError, match=r"^`format` must be (a whole number|at least 1), not .* \(run/spec.yaml:1\)(\n|$)"
    ):
        specs.parse(text, "run/spec.yaml")


layers = st.integers(1, 128)
overrides = st.fixed_dictionaries(
    {},
    optional={
        "description": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
        "architecture.N": st.one_of(layers, st.fixed_dictionaries({"encoder": layers, "decoder": layers})),
        "architecture.encoder": st.permutations(["self_attention", "feed_forward"]).map(
            lambda kinds: [{"kind": kind} for kind in kinds]
        ),
        "architecture.norm_epsilon": st.floats(min_value=1e-30, max_value=1.0),
        "training.dev_score": st.sampled_from(["perplexity", "bleu", None]),
        "training.start_from": st.one_of(st.none(), st.from_regex(r"[-+.0-9eE_:xo]{1,12}", fullmatch=True)),
        "training.seed": st.integers(0, 2**63 - 1),
        "vocabulary.byte_fallback": st.booleans(),
        "decoding.max_source_length": st.integers(1, 100_000),
        "decoding.workers": st.one_of(st.just("auto"), st.integers(1, 1024)),
        "compilation.without": st.lists(st.text("abc_", min_size=1), max_size=3),
    },
)


@settings(max_examples=50, deadline=None)
@given(overrides, st.sampled_from([None, "0.1.0", "12.0.1rc1"]))
def test_what_is_written_is_what_is_read(changed: dict[str, Any], version: str | None) -> None:
    spec = specs.load("tiny", changed)
    again = specs.parse(spec.yaml(version), "spec.yaml")
    assert again == spec
    assert again.yaml(version) == spec.yaml(version)


def test_a_whole_spec_is_loaded_by_its_path_too(frozen: Path) -> None:
    """As `zoo plan runs/old/spec.yaml` does it."""
    for kind in ("run", "bundle"):
        file = frozen / kind / "spec.yaml"
        assert specs.load(file) == specs.parse(file.read_text(encoding="utf-8"), str(file))
