"""Mistakes in a spec are reported with the file, the line and a hint."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import specs
from specs import ZooError
from specs.loader import load, parse
from tests.refusals import refused
from tests.specs.files import refusal, write

PAIRS = "languages: {codes: [en, de]}\ncorpus: {train: [{pairs: a},\n"
# Each mistake: the text of mine.yaml after `extends: base`, the problem, its line, and a part of the hint.
MISTAKES = [
    ("architecture:\n  d_modle: 3", "`architecture.d_modle` is not a field", 3, "did you mean `d_model`?"),
    ("training: {dropout: 0.1}", "`training.dropout` is not a field", 2, "did you mean `architecture.dropout`?"),
    ("training.steps: 5", "`training.steps` is not a field", 2, "did you mean `training: {steps: ...}`?"),
    ("decoding: {zzz: 1}", "`decoding.zzz` is not a field", 2, "the fields of `decoding` are search, beam, alpha"),
    ("architecture: {h: x}", "`architecture.h` must be a whole number, not `x`", 2, "the number of attention heads"),
    ("training: {epsilon: 1e-9}", "`training.epsilon` must be a number, not `1e-9`", 2, "write `1.0e-9`"),
    ('training: {steps: "3e5"}', "`training.steps` must be a whole number, not `3e5`", 2, "write `300000`"),
    ("training: {steps: 5.0}", "`training.steps` must be a whole number, not `5.0`", 2, "write `5`"),
    ("languages: {codes: [en]}", ".codes` cannot be `[en]`: it must have at least 2", 2, "`languages: null`"),
    ("name: ''", "`name` is empty", 2, "Letters, digits"),
    ("training: {learning_rate_factor: .inf}", "must be a finite number", 2, "Factor that multiplies"),
    ("training: {learning_rate_factor: 0.0005}", "must be at least 0.01, not `0.0005`", 2, "The highest rate is"),
    ("corpus: {deduplicate: yes}", "`corpus.deduplicate` must be true or false, not `yes`", 2, "training pairs"),
    ("name: 5", "`name` must be text, not `5`", 2, 'write `"5"`'),
    ('training: {steps: "5"}', "`training.steps` must be a whole number, not `5`", 2, "write `5`, without quotes"),
    ("corpus: {train: {grammar: 5}}", "`corpus.train` must be a list, not a mapping", 2, "write a list of mappings"),
    ("architecture:", "`architecture` must be a mapping, not `null`", 2, "network"),
    ("architecture: {norm: {placement: prenorm}}", ".placement` must be `post`, `pre` or `both`", 2, "`pre`?"),
    ("vocabulary: {size: 4}", "`vocabulary.size` must be more than 4, not `4`", 2, "special tokens"),
    ("architecture: {dropout: 1.0}", "`architecture.dropout` must be less than 1, not `1.0`", 2, "P_drop"),
    ("name: ../evil", "`name` cannot be `../evil`", 2, "Letters, digits"),
    ("corpus: {source: English}", "`corpus.source` cannot be `English`", 2, "code such as en"),
    ("architecture: {encoder: []}", "`architecture.encoder` is empty", 2, "add sub-layers"),
    ("architecture: {d_model: 511, h: 1}", "`architecture.d_model` is 511", 2, "write `d_model: 512`"),
    ("architecture: {h: 3}", "512, which cannot be divided evenly among 3 heads", 2, "divides `d_model`"),
    ("vocabulary: {shared: false}", "`vocabulary.shared` is false", 2, "write `vocabulary: {shared: true}`"),
    ("vocabulary: {target_size: 9}", "a shared vocabulary has one size", 2, "`target_size: null`"),
    ("training: {steps: 5, cooldown_steps: 6}", "has 5 steps", 2, "write a smaller number"),
    ("training: {dev_score: null, patience: 3}", "`training.patience` needs a score", 2, "`patience: null`"),
    ("training: {ctc_weight: 0.3}", "needs a model that recognises speech or images", 2, "`ctc_weight: null`"),
    ("training: {source_tokens: 256}", "`training.source_tokens` is 256", 2, "below 256"),
    ("architecture: {positions: {kind: learned, rows: 256}}", "up to 256 tokens and EOS", 2, "below 256"),
    ("architecture: {positions: {kind: learned, first: 1}}", ".positions.first` is not a field", 2, "rows"),
    ("corpus: {train: [{held_out: 5}]}", "`corpus.train` cannot contain `held_out`", 2, "`corpus.dev`"),
    ("corpus: {train: [{models: [a]}]}", "either a `source` or a `target`", 2, "`target` for back-translation"),
    ("corpus: {train: [{models: [a], source: b, reference: c}]}", "selects one of several", 2, "`n_best: 4`"),
    ("corpus: {dev: [{models: [a], source: b}]}", "not parts of `corpus.dev`", 2, "`corpus.train`"),
    ("corpus: {train: [{source: a, target: b, tag: bt}]}", "`corpus.train[0].tag` cannot be `bt`", 2, "<BT>"),
    ("corpus: {train: [{models: [a], source: b}], dev: [{held_out: 5}]}", "also move pairs", 2, "the dev set"),
    ("corpus:\n  train:\n    - {grammar: 5, tsv: a}", "no valid kind: `{grammar: 5, tsv: a}`", 4, "a part of a corpus"),
    ("corpus: {train: [my.en, my.de]}", "`corpus.train[0]` must be a mapping, not `my.en`", 2, "a part of a corpus"),
    ("corpus:\n  dev:\n    - {heldout: 5}", "`corpus.dev[0].heldout` is not a field", 4, "mean `held_out`?"),
    ("corpus: {train: [{digits: 5}]}", "`corpus.train[0]` has no sentence pairs", 2, "`kind: recognition` in `task`"),
    ("corpus: {train: [{tsv: a, sha256: null}]}", "`corpus.train[0].sha256` is not a field", 2, "source_column"),
    ("corpus: {train: [{target: b}]}", "reads a source, but `corpus.train[0]` has none", 2, "write `source`"),
    ("corpus: {target: fr, train: [{grammar: 5}]}", "`corpus.train[0]` is English and German", 2, "target: de"),
    ("task: {kind: language_modelling}\ncorpus: {train: [{pairs: a}]}", "needs sentences", 3, "`target` in this part"),
    ("corpus: {train: [{pairs: a}]}", "has files in several languages, but", 2, "`languages: {codes: [en, de]}`"),
    (f"{PAIRS} {{pairs: b, wieght: 2}}]}}", "`corpus.train[1].wieght` is not a field", 4, "mean `weight`?"),
    (f"{PAIRS} {{pairs: b, languages: [en, it]}}]}}", "`it`, a language of `corpus.train[1]`", 4, "en, de"),
    (f"{PAIRS} {{pairs: b, languages: [de, de]}}]}}", "contains a language twice", 4, "each language once"),
    (f"{PAIRS} {{source: b, target: c, source_language: it}}]}}", "of `corpus.train[1]`", 4, "en, de"),
    (f"{PAIRS} {{pairs: 'b.{{lang}}'}}]}}", "`b.{lang}`, with braces other than `{pair}`", 4, "for both languages"),
    (f"{PAIRS} {'{pairs: b}, ' * 500}]}}", "that `corpus.train` exceeds 1,000 parts", 3, "fewer `languages`"),
    ("corpus: {train: [{trees: a}]}", "needs sentence pairs", 2, "`source` and `target`"),
    ("architecture: {N: six}", "`architecture.N` must be a whole number", 2, "{encoder: 12, decoder: 2}"),
    ("architecture: {encoder: [{kind: feedforward}]}", "`architecture.encoder[0].kind` must be", 2, "`feed_forward`?"),
    ("architecture: {encoder: [self_attention]}", "must be a mapping, not `self_att", 2, "{kind: self_attention}"),
    ("architecture: {encoder: [{}]}", "`architecture.encoder[0]` has no valid kind", 2, "{kind: feed_forward}"),
    ("architecture: {encoder: [{kind: convolution}]}", "`architecture.encoder[0].kernel` and", 2, "kernel size"),
    ("architecture: {encoder: [{kind: convolution, kernel: 4, dilated: false}]}", "must be odd, not 4", 2, "kernel: 5"),
    ("architecture: {encoder: [{kind: mixture_of_experts, experts: 2, top_k: 3}]}", "3 of 2 experts", 2, "top_k: 2"),
    ("architecture: {encoder: [{kind: ssru}], d_model: 511, h: 1}", "bidirectional", 2, "d_model: 512"),
    ("architecture: {decoder: []}", "needs sub-layers in `architecture.decoder`", 2, "write sub-layers"),
    ("architecture: {decoder: [{kind: feed_forward}]}", "would never read the source", 2, "cross_attention"),
    ("architecture: {positions: {kind: relative, max_distance: 16}}", "is too small", 2, "more than 16"),
    ("architecture: {positions: {kind: rotary}, d_k: 5}", "`d_k` is odd (5)", 2, "`d_k: 6`"),
    ("architecture: {positions: {kind: alibi}, attention_score: additive}", "does not support", 2, "another"),
    ("architecture: {encoder: [{kind: self_attention, kv_heads: 3}]}", "among 3 key-value heads", 2, "divides `h`"),
    ("decoding: {workers: many}", "`decoding.workers` must be `auto`, not `many`", 2, "Number of threads"),
    ("decoding: {suppressed_tokens: [3]}", "contains 3 (EOS)", 2, "remove 3"),
    ("decoding: {suppressed_tokens: [37000]}", "the largest ID is 36,999", 2, "remove 37,000"),
    ("training:\n\tsteps: 5", "invalid YAML", 3, "indent with spaces"),
    ("vocabulary: {size: 1,5}", "`5` has no value", 2, "with a point, such as `0.5`"),
    ("---\nname: a", "invalid YAML: found another document", 2, "`---` only in the first line"),
    ("name: a\nname: b", "`name` is written twice, first on line 2", 3, "remove one"),
    ("5: a", "a key must be text", 2, "such as `d_model`"),
    ("name: !!python/object:os.system x", "is not supported", 2, "without a tag"),
    ("a: &a [*a]", "an alias refers to a value that contains this alias", 2, "with a value"),
    ("name: a\x07", "contains a control character", 2, "delete this character"),
]


@pytest.mark.parametrize(("text", "problem", "line", "hint"), MISTAKES, ids=[text[:40] for text, *_ in MISTAKES])
def test_mistakes_have_a_line_and_a_hint(text: str, problem: str, line: int, hint: str) -> None:
    error = refusal(write("mine.yaml", f"extends: base\n{text}\n"))
    assert problem in error.problem
    assert error.where == f"mine.yaml:{line}"
    assert hint in str(error.hint)
    assert error.exit_code == 2
    # pydantic's own error does not show, not even in a chained traceback.
    assert "pydantic" not in str(error).lower()
    assert error.__suppress_context__ or error.__context__ is None


LENGTHENED = ["task.source.time_warp=0.5", "corpus.max_length=1000"]
LEARNED = ["architecture.positions={kind: learned, rows: 252}", "corpus.max_length=1301"]  # 1301 * 1.15 / 6 = 249.4


@pytest.mark.parametrize(
    ("overrides", "field", "limit", "length"),
    [(LENGTHENED, "training.source_tokens", 1500, 1000), (LEARNED, "architecture.positions.rows", 250, 1304)],
    ids=["augmentation lengthens examples", "learned positions are counted after the convolutions"],
)
def test_there_is_room_for_the_longest_recording(overrides: list[str], field: str, limit: int, length: int) -> None:
    load("speech/digits", [*overrides, f"{field}={limit + 1}"])
    overrides = [*overrides, f"{field}={limit}"]
    error = refused(rf"`{field}` is {limit}, but .* up to {limit}\b", load, "speech/digits", overrides)
    assert f"`corpus.max_length` below {length}" in error.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# a comment", "the file is empty (mine.yaml)"),
        (b"- a", "the file must be a mapping of keys to values, not a list (mine.yaml:1)"),
        (b"extends: base\nname: \xff\n", "byte 0xff is not valid UTF-8 (mine.yaml:2)"),
        ("extends: base".encode("utf-16-le"), "the text contains a control character (mine.yaml:1)"),
        (b"extends: [a]", "`extends` must be the name or path of a spec, not a list (mine.yaml:1)"),
        (b"extends: nowhere.yaml", "no such file: `nowhere.yaml` (mine.yaml:1)"),
    ],
)
def test_mistakes_of_whole_files(content: bytes, message: str) -> None:
    Path("mine.yaml").write_bytes(content)
    error = refusal("mine.yaml")
    assert error.summary == message
    assert error.hint


@pytest.mark.parametrize(
    ("overrides", "problem", "where"),
    [
        (["training.steps="], "`training.steps` must be a whole number", "command line: `training.steps=`"),
        (["architecture.h"], "`architecture.h` does not set a field", "command line"),
        (["foo.bar=1"], "`foo` is not a field", "command line: `foo.bar=1`"),
        (["corpus.folder=@x"], "invalid YAML", "command line: `corpus.folder=@x`"),
        (["corpus.train.0.source=x"], "`corpus.train` must be a list", "command line: `corpus.train.0.source=x`"),
        (["extends=big"], "`extends` cannot be overridden", "command line: `extends=big`"),
        (["format=1"], "`format` cannot be overridden", "command line: `format=1`"),
        ({"training": {"steps": "5"}}, "`training.steps` must be a whole number", "override: `training.steps`"),
    ],
)
def test_mistakes_of_overrides(overrides: Any, problem: str, where: str) -> None:
    error = refusal("tiny", overrides)
    assert problem in error.problem
    assert error.where == where
    assert error.hint


OUTSIDE = ["", "../tiny", "..", "/", "specs/../tiny", "table3/../tiny", "./.././specs/tiny", "~", "../../etc/passwd"]


@pytest.mark.parametrize(
    ("reference", "problem", "hint"),
    [
        *((name, f"no spec is named `{name}`", "`zoo list`") for name in OUTSIDE),
        ("specs/bgi.yaml", "no such file: `specs/bgi.yaml`", "did you mean `big`?"),
        ("nope.yaml", "no such file: `nope.yaml`", "relative paths are relative to the current folder"),
        ("a\0b", "no spec is named `a\\x00b`", "`zoo list`"),
        ("runs/x", "`runs/x` is a folder, not a spec file", "write `runs/x/spec.yaml`"),
    ],
)
def test_unknown_references(reference: str, problem: str, hint: str) -> None:
    write("runs/x/spec.yaml", "extends: tiny\n")
    error = refusal(reference)
    assert error.problem == problem
    assert hint in str(error.hint)


def test_circular_extends_lists_all_files() -> None:
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        write(f"{name}.yaml", f"name: {name}\nextends: {other}.yaml\n")
    assert refusal("a.yaml").summary == "`extends` is circular: a.yaml -> b.yaml -> c.yaml -> a.yaml (c.yaml:2)"


def test_errors_are_in_the_order_of_files_and_overrides() -> None:
    write("deep/parent.yaml", "extends: base\n\ntraining: {steps: x}\n")
    write("mine.yaml", "extends: deep/parent.yaml\narchitecture: {h: x}\n")
    error = refusal("mine.yaml", ["decoding.beam=0", "training.seed=x", "decoding.beam=-1"])
    errors = (error, *error.additional)
    overridden = [f"command line: `{override}`" for override in ("training.seed=x", "decoding.beam=-1")]
    assert [each.where for each in errors] == ["deep/parent.yaml:3", "mine.yaml:2", *overridden]
    assert str(error).count("hint: ") == 4


def test_contradictions_are_located_at_the_field_written_last() -> None:
    write("parent.yaml", "extends: base\nvocabulary: {shared: false}\n")
    tied = "extends: parent.yaml\n\n\narchitecture: {tied_embeddings: all}\n"
    for text, where in (("extends: parent.yaml\n", "parent.yaml:2"), (tied, "mine.yaml:4")):
        assert refusal(write("mine.yaml", text)).where == where


def test_fields_that_no_file_sets_are_missing_in_the_first_file() -> None:
    write("root.yaml", "name: x\n")
    error = refusal(write("mine.yaml", "extends: root.yaml\ndescription: X.\nlicence: null\n"))
    assert error.problem == "`task`, `architecture`, `vocabulary` and 5 more are missing"
    assert error.hint == "add `extends: base` to root.yaml, or write `task` here"


def test_damaged_complete_spec_is_a_failure_of_the_environment() -> None:
    text = load("tiny").yaml()
    changed = [text.replace("  h: 4\n", new) for new in ("  h: x\n", "")]
    for damaged in (*changed, text[:100], "", "extends: base"):
        error = refused(None, parse, damaged, "run/spec.yaml")
        assert error.exit_code == 1
        assert error.where.startswith("run/spec.yaml")
        assert "restore the original file" in error.hint


def test_unreadable_file_and_file_named_by_dots_only() -> None:
    write("mine.yaml", "extends: base\n")
    with mock.patch.object(Path, "open", side_effect=PermissionError(13, "Permission denied", "mine.yaml")):
        error = refusal("mine.yaml")
    assert (error.problem, error.exit_code) == ("cannot read `mine.yaml`: Permission denied", 1)
    refused("is not a valid name for a spec", load, write("...yaml", "extends: base\n"))


def test_many_errors_are_counted() -> None:
    *listed, last = refusal("tiny", {"compilation.disabled_passes": [1] * 60}).additional
    assert (len(listed), last.summary) == (20, "39 more errors are not listed")


def test_a_field_named_like_a_kind_is_a_field() -> None:
    """Pydantic's locations contain the tags of unions, which a person may have written as a key."""
    fields = {
        "corpus.train[0].Grammar": "corpus.train=[{grammar: 1, Grammar: 2}]",
        "architecture.N.pair": "architecture.N={encoder: 1, decoder: 1, pair: 2}",
        "architecture.encoder[0].feed_forward": "architecture.encoder=[{kind: feed_forward, feed_forward: 1}]",
    }
    for field, override in fields.items():
        assert refusal("tiny", [override]).problem == f"`{field}` is not a field of this spec"
    error = refusal("tiny", ["corpus.train=[{source: a, taget: b}]"])
    assert error.problem == "`corpus.train[0].taget` is not a field of this spec", "it comes before what it misses"
    assert [each.problem for each in error.additional] == ["`corpus.train[0].target` is missing"]


def test_malformed_urls_are_refused() -> None:
    for url in ("http://[::1", "http://x:99999999/a", "http:///a", "http://a..b/c", "http://a\x01b/c", "file://[/a"):
        part = {"archive": url, "sha256": None, "source": "a", "target": "b"}
        assert "http://" in refused("cannot be", load, "tiny", {"corpus.train": [part]}).hint


def test_all_parts_of_an_error_are_escaped() -> None:
    controls = {"a\x1b[31m": "a\\x1b[31m", "\u202e\U000e0041": "\\u202e\\U000e0041", "ä 2\u2009m\n": "ä 2\u2009m\n"}
    for written, escaped in controls.items():
        error = ZooError(written, where=written, hint=written)
        assert (error.problem, error.where, error.hint) == (escaped, escaped, escaped)
        assert str(error) == f"{escaped} ({escaped})\n\nhint: {escaped}"
    assert str(ZooError("the disk is full")) == "the disk is full"


def test_nearest() -> None:
    found = {"warmup": "warmup_steps", "d_modle": "d_model", "n": "N", "tensorflow": None, "fp8": None, "nope": None}
    choices = ["warmup_steps", "d_k", "d_model", "d_ff", "N", "h", "tensorrt", "int8", "float32", "one", "name"]
    assert {word: specs.nearest(word, choices) for word in found} == found


def test_streams_of_two_modalities_need_two_vocabularies() -> None:
    overrides = ["vocabulary.shared=true", "vocabulary.target_size=null"]
    refused("source of text and a target of trees, but `vocabulary", load, "parsing/tiny", overrides)
