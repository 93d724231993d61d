"""The estimated shortlist of a run, and its file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import specs
from specs import EOS, Spec
from tests.conftest import PAIRS
from tests.examples import changed, examples, write_pairs
from tests.refusals import refused
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
    expected = [{EOS, 4, 40}, {EOS, 5, 50}, {EOS, 6, 60}, {EOS, 7}]
    assert [listed(shortlist, source) for source in (4, 5, 6, 7)] == expected
    assert listed(shortlist, 5, 6) == {EOS, 5, 6, 50, 60}
    assert {*shortlist.tokens_of([5], prefix=[80, 90]).tolist()} == {EOS, 5, 50, 80, 90}
    assert listed(estimate_shortlist(tokens, PAIRED, frequent=0, best=2), 6) == {EOS, 6, 60, 70}
    # all sentences share the most frequent tokens
    assert listed(estimate_shortlist(tokens, PAIRED, frequent=1, best=0)) == {EOS, 60}
    assert listed(estimate_shortlist(tokens, [], frequent=5)) == {EOS}


def test_blocks_of_pairs_give_the_lists_of_all_pairs(tokens: Vocabulary, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = estimate_shortlist(tokens, PAIRED, best=1)
    monkeypatch.setattr(module, "_BLOCK_PAIRS", 6)
    parts = estimate_shortlist(tokens, PAIRED, best=1)
    assert all(np.array_equal(getattr(whole, name), getattr(parts, name)) for name in ("common", "offsets", "tokens"))


def test_a_byte_gets_all_bytes() -> None:
    spec = changed(specs.load("tiny", {"vocabulary": {"size": 400, "byte_fallback": True}}), "vocabulary", size=340)
    vocabulary = Vocabulary.learn(lambda: examples(PAIRS * 30), spec.vocabulary)
    shortlist, snowman = estimate_shortlist(vocabulary, []), vocabulary.encode("☃")
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
    assert (file, run.foreign_files()) == (run.folder / NAME, [])
    translator = open_model(run.folder, backend="eager")
    encode, (source, target) = translator.vocabulary.encode, PAIRS[0]
    assert {*encode(target, "target")} <= listed(translator.shortlist, *encode(source))
    folder = publish(run.folder)
    assert (folder / NAME).read_bytes() == file.read_bytes()
    assert verify(folder).files == len([*folder.iterdir()]) - 1, "the manifest lists all files but itself"
    (folder / NAME).write_bytes(b"1" + file.read_bytes()[1:])
    refused("SHA-256", open_model, folder, backend="eager")


def test_a_spec_with_a_shortlist_can_be_published_and_verified(run: Run) -> None:
    """The reference backend does not support it, so its reference sentences are translated without it."""
    run.spec_file.write_text(changed(run.spec, "decoding", shortlist=True).yaml(), encoding="utf-8")
    make_shortlist(run, Report())
    assert verify(publish(run.folder)).sentences


def test_a_corpus_with_another_vocabulary_and_a_parser_are_refused(run: Run, parsing: Callable[..., Spec]) -> None:
    write_pairs([("aa bb cc dd ee ff gg",) * 2, ("other words than before",) * 2] * 9)
    other = changed(run.spec, "vocabulary", size=50)
    for spec, problem in ((other, "the corpus of .* has changed"), (parsing(), "the task of .* is `parsing`")):
        run.spec_file.write_text(spec.yaml(), encoding="utf-8")
        refused(problem, make_shortlist, run, Report())


INT32 = np.int32
COMMON, OFFSETS, TOKENS = np.array([3], INT32), np.array([0, 2, 3]), np.array([4, 5, 6], INT32)
VALID = {"common": COMMON, "offsets": OFFSETS, "tokens": TOKENS}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("offsets", OFFSETS[[0, 2]], "1 source tokens"),
        *(("offsets", np.array(offsets), "offsets") for offsets in ([1, 2, 3], [0, 2, 4], [0, 4, 3])),
        *(("tokens", np.array([4, 5, bad], INT32), "outside the target vocabulary of 7") for bad in (7, -1)),
        ("common", np.array([7], INT32), "outside the target vocabulary of 7"),
        ("common", COMMON.astype(float), "types or shapes"),
        ("offsets", OFFSETS.astype(float), "types or shapes"),
        ("tokens", TOKENS[None], "types or shapes"),
    ],
)
def test_a_damaged_table_is_reported(name: str, values: np.ndarray, message: str) -> None:
    Shortlist.parse(safetensors.numpy.save(VALID), Path(NAME), (2, 7))
    error = refused(message, Shortlist.parse, safetensors.numpy.save({**VALID, name: values}), Path(NAME), (2, 7))
    assert "zoo shortlist RUN" in str(error.hint)


def test_a_truncated_file_is_reported() -> None:
    content = safetensors.numpy.save(VALID)
    for wrong in (b"", content[:9], content[:-1], safetensors.numpy.save({"common": VALID["common"]})):
        refused("is damaged", Shortlist.parse, wrong, Path(NAME), (2, 7))
