"""The estimated shortlist of a run, and its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import specs
from specs import EOS, Spec, ZooError
from tests.conftest import PAIRS
from tests.examples import examples
from zoo.data.prepare import prepare
from zoo.generation.loading import open_model
from zoo.models.shortlist import NAME, Shortlist
from zoo.publishing.publish import publish, verify
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary
from zoo.training import alignment as module
from zoo.training.alignment import estimate_shortlist, make_shortlist
from zoo.training.run import Run

PAIRED = [([4, 5], [40, 50]), ([4, 6], [40, 60]), ([4], [40]), ([5], [50]), ([6], [60]), ([6, 6], [60, 60, 70])] * 3
"""Source tokens 4, 5 and 6 mean 40, 50 and 60; 70 sometimes follows 60."""


def listed(shortlist: Shortlist, *source: int) -> set[int]:
    return {*shortlist.tokens_of(source).tolist()}


def test_each_source_token_gets_its_translations_and_its_copy(tokens: Vocabulary) -> None:
    shortlist = estimate_shortlist(tokens, PAIRED, frequent=0, best=1)
    assert [listed(shortlist, source) for source in (4, 5, 6, 7)] == [
        {EOS, 4, 40}, {EOS, 5, 50}, {EOS, 6, 60}, {EOS, 7}
    ]  # fmt: skip
    assert listed(shortlist, 5, 6) == {EOS, 5, 6, 50, 60}
    assert {*shortlist.tokens_of([5], prefix=[80, 90]).tolist()} == {EOS, 5, 50, 80, 90}
    assert listed(estimate_shortlist(tokens, PAIRED, frequent=0, best=2), 6) == {EOS, 6, 60, 70}


def test_all_sentences_share_the_most_frequent_tokens(tokens: Vocabulary) -> None:
    shortlist = estimate_shortlist(tokens, PAIRED, frequent=1, best=0)
    assert listed(shortlist) == {EOS, 60}
    assert listed(estimate_shortlist(tokens, [], frequent=5)) == {EOS}


def test_blocks_of_pairs_give_the_lists_of_all_pairs(tokens: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = estimate_shortlist(tokens, PAIRED, best=1)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", 6)
    parts = estimate_shortlist(tokens, PAIRED, best=1)
    assert all(np.array_equal(getattr(whole, name), getattr(parts, name)) for name in ("common", "offsets", "tokens"))


def test_a_byte_gets_all_bytes() -> None:
    section = specs.load("tiny", {"vocabulary": {"size": 400, "byte_fallback": True}}).vocabulary
    vocabulary = Vocabulary.learn(lambda: examples(PAIRS * 30), section.model_copy(update={"size": 340}))
    shortlist = estimate_shortlist(vocabulary, [])
    snowman = vocabulary.encode("☃")
    assert len(snowman) > 2
    assert len(listed(shortlist, *snowman)) >= 256
    assert len(listed(shortlist, vocabulary.encode("dog")[0])) == 2


@pytest.fixture
def run(trained: Callable[..., Run]) -> Run:
    """Return a run whose vocabulary is that of its corpus, with random weights."""
    run = trained()
    prepare(run.spec, Report()).vocabulary.save(run.folder)
    return run


def test_a_run_gets_a_shortlist_that_is_published(run: Run) -> None:
    file = make_shortlist(run, Report())
    assert file == run.folder / NAME
    assert not run.foreign_files()
    translator = open_model(run.folder, backend="eager")
    assert translator.shortlist is not None
    source, target = PAIRS[0]
    words = {*translator.vocabulary.encode(target, "target")}
    assert words <= {*translator.shortlist.tokens_of(translator.vocabulary.encode(source)).tolist()}
    folder = publish(run.folder)
    assert (folder / NAME).read_bytes() == file.read_bytes()
    assert verify(folder).files == len([*folder.iterdir()]) - 1, "the manifest lists all files but itself"
    with (folder / NAME).open("r+b") as stream:
        stream.write(b"1")
    with pytest.raises(ZooError, match="SHA-256"):
        open_model(folder, backend="eager")


def test_a_spec_with_a_shortlist_can_be_published_and_verified(run: Run) -> None:
    """The reference backend does not support it, so its reference sentences are translated without it."""
    spec = run.spec.model_copy(update={"decoding": run.spec.decoding.model_copy(update={"shortlist": True})})
    run.spec_file.write_text(spec.yaml(), encoding="utf-8")
    make_shortlist(run, Report())
    assert verify(publish(run.folder)).sentences


def test_a_corpus_with_another_vocabulary_is_refused(run: Run) -> None:
    for language in ("en", "de"):
        Path(f"pairs.{language}").write_text("aa bb cc dd ee ff gg\nother words than before\n" * 9, encoding="utf-8")
    spec = run.spec.model_copy(update={"vocabulary": run.spec.vocabulary.model_copy(update={"size": 50})})
    run.spec_file.write_text(spec.yaml(), encoding="utf-8")
    with pytest.raises(ZooError, match=r"the corpus of .* has changed"):
        make_shortlist(run, Report())


def test_a_parser_is_refused(run: Run, parsing: Callable[..., Spec]) -> None:
    run.spec_file.write_text(parsing().yaml(), encoding="utf-8")
    with pytest.raises(ZooError, match=r"the task of .* is `parsing`"):
        make_shortlist(run, Report())


VALID: dict[str, Any] = {
    "common": np.array([3], np.int32), "offsets": np.array([0, 2, 3]), "tokens": np.array([4, 5, 6], np.int32)
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"offsets": np.array([0, 3])}, "1 source tokens"),
        ({"offsets": np.array([1, 2, 3])}, "offsets"),
        ({"offsets": np.array([0, 2, 4])}, "offsets"),
        ({"offsets": np.array([0, 4, 3])}, "offsets"),
        ({"offsets": np.array([0.0, 2.0, 3.0])}, "types or shapes"),
        ({"tokens": np.array([[4, 5, 6]], np.int32)}, "types or shapes"),
        ({"tokens": np.array([4, 5, 7], np.int32)}, "outside the target vocabulary of 7"),
        ({"tokens": np.array([4, 5, -1], np.int32)}, "outside the target vocabulary of 7"),
        ({"common": np.array([7], np.int32)}, "outside the target vocabulary of 7"),
        ({"common": np.array([0.5])}, "types or shapes"),
    ],
)
def test_a_damaged_table_is_reported(changes: dict[str, Any], message: str) -> None:
    content = safetensors.numpy.save(VALID)
    Shortlist.parse(content, Path(NAME), (2, 7))
    with pytest.raises(ZooError, match=message) as error:
        Shortlist.parse(safetensors.numpy.save({**VALID, **changes}), Path(NAME), (2, 7))
    assert "zoo shortlist RUN" in str(error.value.hint)


def test_a_truncated_file_is_reported() -> None:
    content = safetensors.numpy.save(VALID)
    for wrong in (b"", content[:9], content[:-1], safetensors.numpy.save({"common": VALID["common"]})):
        with pytest.raises(ZooError, match="is damaged"):
            Shortlist.parse(wrong, Path(NAME), (2, 7))
