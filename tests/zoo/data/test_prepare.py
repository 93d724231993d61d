"""Preparation of a corpus: from text to a folder that training can read."""

import errno
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

import specs
from specs import UNK, ZooError
from tests.examples import examples, write_pairs
from tests.refusals import refused
from tests.unreadable import unreadable
from zoo.data import prepare as prepare_module
from zoo.data.cleaning import CleaningCounts
from zoo.data.corpus import CorpusReader
from zoo.data.prepare import fingerprint, known_counts, prepare
from zoo.data.prepared_corpus import PreparedCorpus
from zoo.features.image import Image
from zoo.features.modality import FeatureModality
from zoo.files import manifest, storage
from zoo.files.atomic import remove_folder
from zoo.files.reading import UnreadableError
from zoo.report import Report
from zoo.text.copying import copy_symbols
from zoo.text.trees.tokenizer import TreeTokenizer
from zoo.text.trees.tree import read_tree
from zoo.text.vocabulary import Vocabulary

NOUNS = {"dog": "Hund", "house": "Haus", "cat": "Katze", "tree": "Baum", "garden": "Garten", "mouse": "Maus"}
VERBS = {"sees": "sieht", "finds": "findet", "likes": "mag", "has": "hat"}


def sentences(count, seed=0):
    choice = random.Random(seed)
    pairs = []
    for number in range(count):
        words = [choice.choice(list(each.items())) for each in (NOUNS, VERBS, NOUNS)]
        source, target = (" ".join(word[side] for word in words) for side in (0, 1))
        pairs.append((f"{source} {number}.", f"{target} {number}."))
    return pairs


def part(name):
    return {"source": f"{name}.en", "target": f"{name}.de"}


TRAIN, DEV = sentences(400), sentences(20, seed=1)
SIDES = ("source", "target")
HELD_OUT = {"corpus__test": [{"held_out": 7}]}


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    write_pairs(TRAIN, folder, "train")
    write_pairs(DEV, folder, "dev")
    return folder


def spec_of(folder, **changes):
    corpus = {"folder": str(folder), "train": [part("train")], "dev": [part("dev")], "test": []}
    fields = {key.replace("__", "."): value for key, value in changes.items()}
    return specs.load("tiny", {"corpus": corpus, "vocabulary": {"size": 120}, **fields})


def prepared_of(folder, report=None, **changes):
    return prepare(spec_of(folder, **changes), report or Report())


def text(prepared, split):
    """The text of a split, as its tokens have it."""
    store, decode = prepared.store(split), prepared.vocabulary.decode
    sides = ([decode(store.row(side, index).tolist(), side) for index in range(len(store))] for side in SIDES)
    return list(zip(*sides, strict=True))


def texts(pairs):
    return {side: [pair[number] for pair in pairs] for number, side in enumerate(SIDES)}


def tree():
    return sorted(path.relative_to(storage.home()).as_posix() for path in storage.home().rglob("*") if path.is_file())


def test_a_prepared_corpus_is_one_folder(folder):
    assert known_counts(spec_of(folder)) is None
    assert tree() == []
    prepared = prepared_of(folder)
    assert known_counts(spec_of(folder)) == prepared.counts
    assert prepared.folder == storage.prepared() / prepared.fingerprint
    assert (text(prepared, "train"), text(prepared, "dev"), text(prepared, "test")) == (TRAIN, DEV, [])
    assert (prepared.texts("dev"), prepared.texts("test")) == (texts(DEV), texts([]))
    assert (prepared.vocabulary.sizes, prepared.vocabulary.shared) == ((120, 120), True)
    assert (prepared.counts.read, prepared.counts.kept) == (400, 400)
    files = {"vocabulary.model", "counts.json", "dropped.txt", "manifest.json", "sections.yaml"}
    assert {path.name for path in prepared.folder.iterdir()} == {"train", "dev", "test"} | files
    assert {path.parent for path in storage.home().rglob("manifest.json")} == {prepared.folder}
    sections = (prepared.folder / "sections.yaml").read_text()
    assert f"folder: {folder}" in sections
    assert "size: 120" in sections


def test_copy_symbols_replace_the_numbers_that_both_sides_have(folder):
    symbols, found = copy_symbols(3), set()
    prepared = prepared_of(folder, vocabulary__copy_symbols=3)
    assert (prepared.vocabulary.copy_symbols, prepared.texts("dev")) == (symbols, texts(DEV))
    for pair, (source, target) in zip(TRAIN, text(prepared, "train"), strict=True):
        (symbol,) = set(symbols) & {*source} or {""}
        number = pair[0].split()[-1].rstrip(".")
        assert (source, target) == tuple(side.replace(number, symbol or number) for side in pair)
        assert bool(symbol) is (int(number) > 12)  # smaller numbers may become words
        found.add(symbol)
    assert found == {*symbols, ""}


def test_a_prepared_corpus_is_reused_for_the_same_content(folder, tmp_path, monkeypatch):
    first = prepared_of(folder)
    monkeypatch.setattr(Vocabulary, "learn", lambda *_: pytest.fail("it is already prepared"))
    assert prepared_of(folder).folder == first.folder
    folder.rename(tmp_path / "elsewhere")
    assert prepared_of(tmp_path / "elsewhere").folder == first.folder
    other_name = spec_of(tmp_path / "elsewhere").model_copy(update={"name": "other"})
    assert prepare(other_name, Report()).folder == first.folder


def test_other_text_or_settings_give_another_folder(folder):
    changes = [{}, {"vocabulary__size": 110}, {"vocabulary__kind": "unigram", "vocabulary__size": 60}]
    changes += [{"corpus__max_length": 50}, {"corpus__max_ratio": 3.0}, {"corpus__deduplicate": True}]
    changes += [{"corpus__test": [part("dev")]}, {"corpus__dev": [{"held_out": 5}]}]
    folders = {prepared_of(folder, **change).folder for change in changes}
    write_pairs(DEV[:-1], folder, "dev")
    assert len(folders | {prepared_of(folder).folder}) == len(changes) + 1


def test_only_train_is_cleaned(folder, report):
    bad = [("", "leer"), ("a\x00dog", "ein\tHund"), TRAIN[0], ("dog " * 60, "Hund"), ("dog", "Hund " * 9)]
    write_pairs(TRAIN + bad, folder, "train")
    write_pairs(bad, folder, "dev")
    prepared = prepared_of(folder, report, corpus__deduplicate=True, corpus__max_length=50, corpus__max_ratio=4.0)
    assert prepared.counts == CleaningCounts(405, empty=1, duplicate=1, long=1, ratio=1, kept=401, control=1)
    assert text(prepared, "train") == [*TRAIN, ("a dog", "ein Hund")]
    trimmed = [(source.strip(), target.strip()) for source, target in bad[2:]]
    assert prepared.texts("dev") == texts([bad[0], ("a dog", "ein Hund"), *trimmed])
    assert len(prepared.store("dev")) == 5


def test_held_out_pairs_are_not_in_train(folder):
    write_pairs(TRAIN + [(source, f"{target} wieder") for source, target in TRAIN], folder, "train")
    prepared = prepared_of(folder, corpus__dev=[part("dev"), {"held_out": 30}], corpus__test=[{"held_out": 40}])
    dev, test = (list(zip(*prepared.texts(split).values(), strict=True)) for split in ("dev", "test"))
    assert (dev[:20], len(dev), len(test)) == (DEV, 50, 40)
    sets = [{source for source, _ in pairs} for pairs in (text(prepared, "train"), dev[20:], test)]
    assert len(set.union(*sets)) == sum(map(len, sets)) == 400
    assert prepared.counts.held_out == 2 * (len(sets[1]) + len(sets[2]))
    assert text(prepared, "test") == test


def test_a_corpus_without_enough_usable_pairs_is_rejected(folder):
    write_pairs([("", "x"), ("y", "")], folder, "train")
    refused(r"nothing to train on: 2 pairs read, 0 kept; dropped: 2 with an empty side", prepared_of, folder)
    write_pairs(TRAIN, folder, "train")
    error = refused(r"nothing to train on: .* 400 too long", prepared_of, folder, corpus__max_length=1)
    assert "corpus.max_length" in error.hint
    refused(r"`vocabulary\.size` is 30,000", prepared_of, folder, vocabulary__size=30_000)
    assert tree() == []


def test_impossible_vocabularies_and_errors_of_dev_are_reported_before_the_work(folder, monkeypatch):
    (folder / "dev.de").write_text("eins\n")
    monkeypatch.setattr(Vocabulary, "learn", lambda *_: pytest.fail("too late"))
    refused(r"dev\.en` has 20 lines, but `.*dev\.de` has 1 line\n", prepared_of, folder)
    monkeypatch.setattr(prepare_module, "CorpusReader", lambda *_: pytest.fail("it read the corpus"))
    two_sizes = ("vocabulary={shared: false, target_size: 100}", "architecture.tied_embeddings=target")
    for problem, *fields in (
        ("`vocabulary.size` is 260", "vocabulary.size=260"),
        ("`vocabulary.target_size` is 100", *two_sizes),
        ("`vocabulary.separate_models`", "vocabulary.separate_models=true"),
    ):
        refused(re.escape(problem), prepare, specs.load("base", fields), Report())


def flip_first_bit(data):
    return bytes([data[0] ^ 1]) + data[1:]


def test_damaged_folders_are_created_again_with_a_warning(folder, report, monkeypatch, tmp_path):
    """They have the same files, and those of another data folder as well."""
    first = prepared_of(folder, **HELD_OUT)
    damages = [("train/00000.source.values", flip_first_bit), ("vocabulary.model", lambda data: data[:-1])]
    damages += [("dev/target.txt", None), ("manifest.json", b"{}"), ("manifest.json", b"")]
    damages += [("manifest.json", b'{"counts.json": 5}')]
    for number, (name, damage) in enumerate(damages, start=1):
        path = first.folder / name
        whole = path.read_bytes()
        path.unlink()
        if damage is not None:
            path.write_bytes(damage(whole) if callable(damage) else damage)
        refused(name, PreparedCorpus, first.folder)
        assert (prepared_of(folder, report, **HELD_OUT).folder, path.read_bytes()) == (first.folder, whole)
        assert len(report.warnings) == number
        assert name in report.warnings[-1]
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "other"))
    assert (prepared_of(folder, **HELD_OUT).folder / "manifest.json").read_bytes() == path.read_bytes()


def test_files_whose_hashes_were_not_checked_can_be_verified(folder, monkeypatch):
    """Opening a large corpus checks only sizes; training verifies the hashes."""
    monkeypatch.setattr("zoo.data.prepared_corpus._HASHED_BYTES", 10)
    prepared = prepared_of(folder)
    shard = prepared.folder / "train" / "00000.target.values"
    with unreadable(shard, PermissionError()), pytest.raises(UnreadableError, match="permission to read") as caught:
        prepared.verify()
    assert "remove" not in caught.value.hint, "it is not damaged"
    prepared.verify()
    shard.write_bytes(flip_first_bit(shard.read_bytes()))
    assert "zoo prepare" in refused(r"00000\.target\.values` is damaged", PreparedCorpus(prepared.folder).verify).hint


@pytest.mark.parametrize("created_again", [True, False])
def test_a_damaged_folder_that_another_process_replaces_is_not_removed(folder, monkeypatch, report, created_again):
    check, inodes = manifest.check, []

    def replace_and_fail(path, **options):
        monkeypatch.setattr(manifest, "check", check)
        remove_folder(path)
        if created_again:
            inodes.append(prepared_of(folder).folder.stat().st_ino)
        raise ZooError("it is damaged")

    prepared_of(folder)
    monkeypatch.setattr(manifest, "check", replace_and_fail)
    monkeypatch.setattr(Vocabulary, "learn", learn := Mock(side_effect=Vocabulary.learn))
    prepared = prepared_of(folder, report)
    assert (report.warnings, learn.call_count, len(prepared.store("train"))) == ([], 1, 400)
    assert not created_again or prepared.folder.stat().st_ino in inodes


def test_text_that_changes_while_it_is_read_is_rejected(folder, monkeypatch):
    learn, longer = Vocabulary.learn, [("a new line.", "eine neue Zeile."), *TRAIN]
    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, "learn", lambda *options: write_pairs(longer, folder, "train") or learn(*options))
        refused("changed while they were being read", prepared_of, folder, **HELD_OUT)
    assert (tree(), len(prepared_of(folder).store("train"))) == ([], 401)


def test_folders_that_are_temporarily_unreadable_are_kept(folder, report):
    prepared_of(folder)
    before = tree()
    (path,) = storage.prepared().glob("*/manifest.json")
    stale = OSError(errno.ESTALE, "Stale file handle")
    with unreadable(path, stale), pytest.raises(ZooError, match="Stale file handle"):
        prepared_of(folder, report)
    assert (tree(), report.warnings) == (before, [])


@pytest.mark.parametrize("method", ["learn", "save"])
def test_an_interruption_leaves_no_files(folder, monkeypatch, method):
    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, method, Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            prepared_of(folder)
    assert (tree(), len(prepared_of(folder).store("train"))) == ([], 400)


def test_concurrent_preparations_share_one_folder(folder, monkeypatch):
    meeting, learn = threading.Barrier(3), Vocabulary.learn

    def learn_together(*options):
        meeting.wait(20)
        return learn(*options)

    monkeypatch.setattr(Vocabulary, "learn", learn_together)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(prepared_of, [folder] * 3))
    assert len({prepared.folder for prepared in found}) == 1
    assert [text(prepared, "dev") for prepared in found] == [DEV] * 3
    assert os.listdir(storage.prepared()) == [found[0].fingerprint]


KILLED = """
import sys, specs, zoo.data.prepare as prepare
from zoo.report import Report
def stuck(*_):
    print("here", flush=True)
    sys.stdin.read()
prepare.manifest.write = stuck
prepare.prepare(specs.parse(open(sys.argv[1]).read(), "spec"), Report())
"""


@pytest.mark.integration
def test_a_killed_preparation_leaves_only_a_hidden_folder(folder, tmp_path, request):
    (tmp_path / "spec.yaml").write_text(spec_of(folder).yaml())
    command, pipe = [sys.executable, "-c", KILLED, str(tmp_path / "spec.yaml")], subprocess.PIPE
    with subprocess.Popen(command, cwd=request.config.rootpath, stdin=pipe, stdout=pipe) as process:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    assert [path.name.startswith(".") for path in storage.prepared().iterdir()] == [True]
    prepared = prepared_of(folder)
    assert list(storage.prepared().iterdir()) == [prepared.folder]


def test_a_full_disk_and_too_large_dev_sets_are_reported_before_the_work(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("zoo.files.storage.shutil.disk_usage", lambda path: Mock(free=100))
        refused("the prepared corpus needs", prepared_of, folder)
    monkeypatch.setattr("zoo.data.corpus._MAX_SCORED_TEXT", 2_000)
    refused(r"`corpus\.dev` has more than 2\.0 kB of text", prepared_of, folder)
    assert tree() == []


def test_corpora_in_archives(folder, tmp_path, monkeypatch):
    (tmp_path / "mirror").mkdir()
    with tarfile.open(tmp_path / "mirror" / "all.tgz", "w:gz") as archive:
        archive.add(folder, "all")
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    archive = {"archive": "http://host.invalid/all.tgz", "sha256": None}
    parts = {f"corpus__{name}": [{**archive, **part(f"all/{name}")}] for name in ("train", "dev")}
    prepared = prepared_of(tmp_path, **parts)
    assert text(prepared, "train") == TRAIN
    # With the hash in corpus.lock, neither the archive nor its members are needed again.
    monkeypatch.delenv("ZOO_MIRROR")
    for path in (storage.archives() / "members").rglob("*.en"):
        path.unlink()
    assert prepared_of(tmp_path, **parts).folder == prepared.folder
    refused("ZOO_OFFLINE", prepared_of, tmp_path, **parts, vocabulary__size=110)


def test_chunks_are_bounded_by_pairs_and_characters(monkeypatch):
    monkeypatch.setattr(prepare_module, "_CHUNK_CHARACTERS", 100)
    pairs = examples([("a", "b")] * 6 + [("x" * 110, "y"), ("x", "y" * 110), ("c", "d")])
    chunks = list(prepare_module._chunks(pairs, 4))
    assert [pair for chunk in chunks for pair in chunk] == pairs
    assert [len(chunk) for chunk in chunks] == [4, 3, 1, 1]


@pytest.mark.integration
def test_trees_are_prepared_like_other_corpora():
    parts = {"corpus.train": [{"grammar": 800}], "corpus.dev": [{"grammar": 3}, {"held_out": 2}], "corpus.test": []}
    sizes = {"vocabulary.size": 90, "vocabulary.target_size": 90, "task.linearisation": "vinyals"}
    prepared = prepare(specs.load("parsing/tiny", parts | sizes), Report())
    tokenizer, store = prepared.vocabulary.target, prepared.store("dev")
    assert isinstance(tokenizer, TreeTokenizer)
    assert (tokenizer.linearisation, prepared.vocabulary.sizes) == ("vinyals", (90, 90))
    sources, trees = prepared.texts("dev").values()
    assert len(trees) == 5
    for number, (source, text) in enumerate(zip(sources, trees, strict=True)):
        ids, leaves = store.row("target", number).tolist(), list(read_tree(text).leaves())
        assert " ".join(leaves) == source
        assert UNK not in ids
        assert list(tokenizer.to_tree(ids, leaves).leaves()) == leaves


def test_options_of_the_encoding_need_another_corpus(monkeypatch):
    spec = specs.load("parsing/tiny")
    before = fingerprint(spec, CorpusReader(spec, Report()))
    monkeypatch.setattr(type(spec.task), "encoding_fields", ("kind",))
    assert fingerprint(spec, CorpusReader(spec, Report())) != before


def test_digits_are_refused_if_the_modality_generates_none(monkeypatch):
    monkeypatch.setattr(Image, "digits", FeatureModality.digits)
    refused("`digits` cannot be generated as image", prepare, specs.load("pictures/digits"), Report())


def test_swapped_files_give_a_warning_even_if_the_corpus_is_prepared_already(folder, report):
    prepared_of(folder, report)
    assert not report.warnings
    prepare(spec_of(folder, corpus__source="de", corpus__target="en"), report)
    expected = "`train.en` is a source file in `corpus.train`, but its suffix is not the source language `de`"
    assert expected in report.warnings[0]
    assert len(report.warnings) == 4, "source and target of train and dev"


def test_a_dev_set_within_the_training_text_gives_a_warning(folder, report):
    write_pairs([*TRAIN[:5], *DEV], folder, "inside")
    prepared_of(folder, report, corpus__dev=[part("inside")])
    (warning,) = report.warnings
    assert warning == "5 of 25 pairs of `corpus.dev` are also in `corpus.train`, so the scores will be too high"
