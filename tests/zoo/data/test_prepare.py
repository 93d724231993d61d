"""From a corpus to a folder that training can read."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import threading

import pytest

import specs
from specs import ZooError
from zoo.data import prepare as prepare_module
from zoo.data.prepare import PreparedCorpus, known_counts, prepare
from zoo.files import manifest, storage
from zoo.files.atomic import remove_folder
from zoo.files.reading import UnreadableError
from zoo.report import Report
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


def write(folder, name, pairs):
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in ((0, "en"), (1, "de")):
        text = "".join(f"{pair[side]}\n" for pair in pairs)
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8", newline="\n")


def part(name):
    return {"source": f"{name}.en", "target": f"{name}.de"}


TRAIN, DEV = sentences(400), sentences(20, seed=1)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "corpus", "train", TRAIN)
    write(tmp_path / "corpus", "dev", DEV)
    return tmp_path / "corpus"


def spec_of(folder, **changes):
    corpus = {"folder": str(folder), "train": [part("train")], "dev": [part("dev")], "test": []}
    overrides = {"corpus": corpus, "vocabulary": {"size": 120}}
    for key, value in changes.items():
        section, _, field = key.partition("__")
        overrides[section] = overrides.get(section, {}) | {field: value}
    return specs.load("tiny", overrides)


def prepared_of(folder, report=None, **changes):
    return prepare(spec_of(folder, **changes), report or Report())


def text(prepared, split):
    """The text of a split, as its tokens have it."""
    store = prepared.store(split)
    decode = prepared.vocabulary.decode
    return [
        (decode(store.source(index).tolist(), "source"), decode(store.target(index).tolist(), "target"))
        for index in range(len(store))
    ]


def tree():
    return sorted(path.relative_to(storage.home()).as_posix() for path in storage.home().rglob("*") if path.is_file())


def test_everything_is_in_one_folder(folder):
    prepared = prepared_of(folder)
    assert prepared.folder == storage.prepared() / prepared.fingerprint
    assert text(prepared, "train") == TRAIN
    assert text(prepared, "dev") == DEV
    assert prepared.texts("dev") == ([source for source, _ in DEV], [target for _, target in DEV])
    assert (len(prepared.store("test")), prepared.texts("test")) == (0, ([], []))
    assert (prepared.vocabulary.sizes, prepared.vocabulary.shared) == ((120, 120), True)
    assert (prepared.counts.read, prepared.counts.kept) == (400, 400)
    names = {path.name for path in prepared.folder.iterdir()}
    assert names == {*("train", "dev", "test"), "vocabulary.model", "counts.json", "manifest.json", "sections.yaml"}
    assert {path.parent for path in storage.home().rglob("manifest.json")} == {prepared.folder}


def test_counts_are_known_of_what_was_prepared_alone(folder):
    spec = spec_of(folder)
    assert known_counts(spec) is None
    assert known_counts(spec) is None  # to ask prepares nothing
    prepared = prepare(spec, Report())
    assert known_counts(spec) == prepared.counts
    assert prepared.counts.read == len(TRAIN)


def test_the_text_of_train_is_not_kept(folder):
    with pytest.raises(ValueError, match="train"):
        prepared_of(folder).texts("train")


def test_two_vocabularies_are_two(folder):
    prepared = prepared_of(folder, vocabulary__size=80, vocabulary__shared=False, architecture__tied_embeddings="none")
    assert not prepared.vocabulary.shared
    assert text(prepared, "train") == TRAIN


def test_it_is_found_again_and_told_from_others(folder, tmp_path, monkeypatch):
    first = prepared_of(folder)
    monkeypatch.setattr(Vocabulary, "learn", lambda *_: pytest.fail("it was there already"))
    assert prepared_of(folder).folder == first.folder
    write(tmp_path / "elsewhere", "train", TRAIN)
    write(tmp_path / "elsewhere", "dev", DEV)
    assert prepared_of(tmp_path / "elsewhere").folder == first.folder
    assert prepare(spec_of(folder).model_copy(update={"name": "other"}), Report()).folder == first.folder


@pytest.mark.parametrize(
    "change",
    [
        {"vocabulary__size": 110},
        {"vocabulary__kind": "unigram", "vocabulary__size": 60},
        {"corpus__max_length": 50},
        {"corpus__max_ratio": 3.0},
        {"corpus__deduplicate": True},
        {"corpus__test": [part("dev")]},
        {"corpus__dev": [{"held_out": 5}]},
    ],
)
def test_another_corpus_or_vocabulary_is_another_folder(folder, change):
    first = prepared_of(folder)
    assert prepared_of(folder, **change).folder != first.folder
    assert prepared_of(folder).folder == first.folder


def test_changed_text_is_another_folder(folder):
    first = prepared_of(folder)
    write(folder, "dev", DEV[:-1])
    assert prepared_of(folder).folder != first.folder


def test_cleaning_is_of_train_alone_and_told(folder, report):
    bad = [("", "leer"), ("a\x00dog", "ein\tHund"), TRAIN[0], ("dog " * 60, "Hund"), ("dog", "Hund " * 9)]
    write(folder, "train", TRAIN + bad)
    write(folder, "dev", bad)
    prepared = prepared_of(folder, report, corpus__deduplicate=True, corpus__max_length=50, corpus__max_ratio=4.0)
    counts = prepared.counts
    assert (counts.read, counts.empty, counts.duplicate, counts.long, counts.ratio) == (405, 1, 1, 1, 1)
    assert counts.kept == len(prepared.store("train")) == 401
    assert text(prepared, "train")[-1] == ("a dog", "ein Hund")
    assert prepared.texts("dev") == (
        ["", "a dog", TRAIN[0][0], ("dog " * 60).strip(), "dog"],
        ["leer", "ein Hund", TRAIN[0][1], "Hund", ("Hund " * 9).strip()],
    )
    assert len(prepared.store("dev")) == 5


def test_what_is_held_out_is_not_trained_on(folder):
    write(folder, "train", TRAIN + [(source, f"{target} wieder") for source, target in TRAIN])
    prepared = prepared_of(folder, corpus__dev=[part("dev"), {"held_out": 30}], corpus__test=[{"held_out": 40}])
    dev, test = (list(zip(*prepared.texts(split), strict=True)) for split in ("dev", "test"))
    assert dev[:20] == DEV
    assert (len(dev), len(test)) == (50, 40)
    sets = [{source for source, _ in pairs} for pairs in (text(prepared, "train"), dev[20:], test)]
    assert len(set.union(*sets)) == sum(map(len, sets)) == 400
    assert prepared.counts.held_out == 2 * (len(sets[1]) + len(sets[2]))
    assert text(prepared, "test") == test


def test_nothing_left_to_train_on_is_told(folder):
    write(folder, "train", [("", "x"), ("y", "")])
    with pytest.raises(ZooError, match=r"nothing to train on: 2 pairs read, 0 kept; left out: 2 with an empty side"):
        prepared_of(folder)
    write(folder, "train", TRAIN)
    with pytest.raises(ZooError, match=r"nothing to train on: .* 400 too long") as told:
        prepared_of(folder, corpus__max_length=1)
    assert "corpus.max_length" in told.value.hint
    assert not any(storage.prepared().iterdir())


def test_what_is_wrong_with_dev_is_told_before_the_long_work(folder, monkeypatch):
    (folder / "dev.de").write_text("eins\n")
    monkeypatch.setattr(Vocabulary, "learn", lambda *_: pytest.fail("too late"))
    with pytest.raises(ZooError, match=r"dev\.en` has 20 lines and `.*dev\.de` has 1"):
        prepared_of(folder)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (["vocabulary.size=260"], "`vocabulary.size` is 260"),
        (
            ["vocabulary={shared: false, target_size: 100}", "architecture.tied_embeddings=target"],
            "`vocabulary.target_size` is 100",
        ),
        (["vocabulary.separate_models=true"], "`vocabulary.separate_models`"),
    ],
)
def test_a_vocabulary_that_no_text_gives_is_told_before_any_is_read(monkeypatch, fields, told):
    monkeypatch.setattr(prepare_module, "ParallelText", lambda *_: pytest.fail("it looked for text"))
    with pytest.raises(ZooError, match=re.escape(told)):
        prepare(specs.load("base", fields), Report())


def test_a_size_that_is_too_large_is_told(folder):
    with pytest.raises(ZooError, match=r"`vocabulary\.size` is 30,000"):
        prepared_of(folder, vocabulary__size=30_000)
    assert tree() == []


@pytest.mark.parametrize("name", ["train/00000.source.tokens", "vocabulary.model", "dev/target.txt", "counts.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "lose"])
def test_what_is_damaged_is_made_anew_with_a_warning(folder, report, name, damage):
    first = prepared_of(folder)
    path = first.folder / name
    whole = path.read_bytes()
    if damage == "lose":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] if damage == "cut" else bytes([whole[0] ^ 1]) + whole[1:])
    with pytest.raises(ZooError, match=name):
        PreparedCorpus(first.folder)
    again = prepared_of(folder, report)
    assert again.folder == first.folder
    assert path.read_bytes() == whole
    assert name in report.warnings[0]
    assert "anew" in report.warnings[0]


def test_what_opening_took_on_trust_is_verified(folder, monkeypatch):
    """Of a large corpus opening looks at sizes alone, and training looks again."""
    monkeypatch.setattr("zoo.data.prepare._HASHED_BYTES", 10)
    prepared = prepared_of(folder)
    prepared.verify()
    shard = prepared.folder / "train" / "00000.target.tokens"
    shard.write_bytes(bytes([shard.read_bytes()[0] ^ 1]) + shard.read_bytes()[1:])
    trusting = PreparedCorpus(prepared.folder)
    with pytest.raises(ZooError, match=r"00000\.target\.tokens` is damaged") as told:
        trusting.verify()
    assert "zoo prepare" in told.value.hint


def test_what_it_may_not_read_is_not_called_damaged(folder, monkeypatch):
    monkeypatch.setattr("zoo.data.prepare._HASHED_BYTES", 10)
    prepared = prepared_of(folder)
    (shard,), opened = prepared.folder.glob("train/*.target.tokens"), os.open

    def fails(path, *given):
        if path == shard:
            raise PermissionError
        return opened(path, *given)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        with pytest.raises(UnreadableError, match="may not be read") as told:
            prepared.verify()
    assert "remove" not in told.value.hint
    prepared.verify()


def test_a_home_that_is_a_file_is_told(folder, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "file"))
    with pytest.raises(ZooError, match="cannot be written"):
        prepared_of(folder)


@pytest.mark.parametrize("anew", [True, False])
def test_what_another_process_has_removed_or_made_anew_meanwhile_is_left_as_it_is(folder, monkeypatch, report, anew):
    """It found it damaged, too, and was quicker."""
    checked, made = manifest.check, []

    def late(path, **how):
        monkeypatch.setattr(manifest, "check", checked)
        remove_folder(path)
        if anew:
            made.append(prepared_of(folder).folder.stat().st_ino)
        raise ZooError("it is damaged")

    prepared_of(folder)
    monkeypatch.setattr(manifest, "check", late)
    learned, learn = [], Vocabulary.learn
    monkeypatch.setattr(Vocabulary, "learn", lambda *given: learned.append(given) or learn(*given))
    found = prepared_of(folder, report)
    assert report.warnings == []
    assert len(learned) == 1, "nobody does it twice"
    assert found.folder.stat().st_ino in (made if anew else [found.folder.stat().st_ino])
    assert len(found.store("train")) == 400


def test_a_damaged_manifest_is_made_anew(folder, report):
    manifest = prepared_of(folder).folder / "manifest.json"
    whole = manifest.read_text()
    for content in ("{}", "", '{"counts.json": 5}'):
        manifest.write_text(content)
        prepared_of(folder, report)
        assert manifest.read_text() == whole
    assert len(report.warnings) == 3


def test_it_is_the_same_every_time(folder, monkeypatch, tmp_path):
    first = prepared_of(folder, corpus__test=[{"held_out": 7}])
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "other"))
    second = prepared_of(folder, corpus__test=[{"held_out": 7}])
    assert first.folder != second.folder
    assert (first.folder / "manifest.json").read_bytes() == (second.folder / "manifest.json").read_bytes()


def test_text_that_changes_while_it_is_read_is_not_kept(folder, monkeypatch):
    def changed(*given):
        write(folder, "train", [("a new line.", "eine neue Zeile."), *TRAIN])
        return learn(*given)

    learn = Vocabulary.learn
    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, "learn", changed)
        with pytest.raises(ZooError, match="have changed while they were read"):
            prepared_of(folder, corpus__test=[{"held_out": 7}])
    assert tree() == []
    assert len(prepared_of(folder).store("train")) == 401


@pytest.mark.parametrize("error", [PermissionError(), OSError(errno.ESTALE, "Stale file handle")])
def test_what_cannot_be_read_now_stays(folder, monkeypatch, report, error):
    prepared_of(folder)
    before = tree()

    def fails(path, *given):
        if path == manifest:
            raise error
        return opened(path, *given)

    (manifest,), opened = storage.prepared().glob("*/manifest.json"), os.open
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", fails)
        with pytest.raises(ZooError, match=r"may not be read|Stale file handle"):
            prepared_of(folder, report)
    assert (tree(), report.warnings) == (before, [])


@pytest.mark.parametrize("place", ["learn", "save"])
def test_an_interruption_leaves_nothing(folder, monkeypatch, place):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Vocabulary, place, interrupted)
        with pytest.raises(KeyboardInterrupt):
            prepared_of(folder)
    assert tree() == []
    assert len(prepared_of(folder).store("train")) == 400


def test_of_two_at_once_both_have_it(folder, monkeypatch):
    meeting = threading.Barrier(3)
    learn = Vocabulary.learn

    def learn_together(*given):
        meeting.wait(20)
        return learn(*given)

    monkeypatch.setattr(Vocabulary, "learn", learn_together)
    found = []
    threads = [threading.Thread(target=lambda: found.append(prepared_of(folder))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({prepared.folder for prepared in found}) == 1
    assert [text(prepared, "dev") for prepared in found] == [DEV] * 3
    assert os.listdir(storage.prepared()) == [found[0].fingerprint]


KILLED = """
import sys, specs, zoo.data.prepare as room
from zoo.report import Report
spec = specs.parse(open(sys.argv[1]).read(), "spec")
def stuck(*_):
    print("here", flush=True)
    sys.stdin.read()
room.manifest.write = stuck
room.prepare(spec, Report())
"""


def test_killed_at_the_last_moment_nothing_is_half_there(folder, tmp_path, request):
    (tmp_path / "spec.yaml").write_text(spec_of(folder).yaml())
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "spec.yaml")],
        cwd=request.config.rootpath,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    assert [path.name.startswith(".") for path in storage.prepared().iterdir()] == [True]
    prepared = prepared_of(folder)
    assert list(storage.prepared().iterdir()) == [prepared.folder]


def test_a_full_disk_is_told_before_the_work(folder, monkeypatch):
    monkeypatch.setattr("zoo.files.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 100}))
    with pytest.raises(ZooError, match="the prepared corpus needs"):
        prepared_of(folder)
    assert tree() == []


def test_an_archive_is_a_corpus(folder, tmp_path, monkeypatch):
    (tmp_path / "mirror").mkdir()
    with tarfile.open(tmp_path / "mirror" / "all.tgz", "w:gz") as archive:
        archive.add(folder, "all")
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    parts = [
        {
            "archive": "http://host.invalid/all.tgz",
            "sha256": None,
            "source": f"all/{name}.en",
            "target": f"all/{name}.de",
        }
        for name in ("train", "dev")
    ]
    prepared = prepared_of(tmp_path, corpus__train=parts[:1], corpus__dev=parts[1:])
    assert text(prepared, "train") == TRAIN
    # With its hash in corpus.lock it is not needed any more, nor are its members.
    monkeypatch.delenv("ZOO_MIRROR")
    for path in (storage.archives() / "members").rglob("*.en"):
        path.unlink()
    assert prepared_of(tmp_path, corpus__train=parts[:1], corpus__dev=parts[1:]).folder == prepared.folder
    with pytest.raises(ZooError, match="ZOO_OFFLINE"):
        prepared_of(tmp_path, corpus__train=parts[:1], corpus__dev=parts[1:], vocabulary__size=110)


def test_what_is_prepared_says_from_what(folder):
    prepared = prepared_of(folder)
    sections = (prepared.folder / "sections.yaml").read_text()
    assert f"folder: {folder}" in sections
    assert "size: 120" in sections
    assert json.loads((prepared.folder / "counts.json").read_text())["kept"] == 400


def test_the_built_in_corpus_is_a_corpus():
    parts = [f"corpus.{split}=[{{grammar: {count}}}]" for split, count in (("train", 500), ("dev", 20), ("test", 30))]
    prepared = prepare(specs.load("tiny", [*parts, "vocabulary.size=150", "corpus.max_length=200"]), Report())
    assert (prepared.counts.read, prepared.counts.kept) == (500, 500)
    trained = {source for source, _ in text(prepared, "train")}
    for split, count in (("dev", 20), ("test", 30)):
        sources, targets = prepared.texts(split)
        assert len(sources) == len(targets) == len(prepared.store(split)) == count
        assert not trained & set(sources)


def test_a_dev_set_that_fills_the_memory_is_told(folder, monkeypatch):
    monkeypatch.setattr(prepare_module, "_SCORED_TEXT", 2_000)
    with pytest.raises(ZooError, match=r"`corpus\.dev` has more than 2\.0 kB of text"):
        prepare(spec_of(folder), Report())


def test_long_lines_go_in_small_chunks(monkeypatch):
    monkeypatch.setattr(prepare_module, "_CHUNK", 4)
    monkeypatch.setattr(prepare_module, "_CHUNK_TEXT", 100)
    pairs = [("a", "b")] * 6 + [("x" * 60, "y" * 60), ("x" * 30, "y" * 30), ("c", "d")]
    chunks = list(prepare_module._chunks(pairs))
    assert [pair for chunk in chunks for pair in chunk] == pairs
    assert [len(chunk) for chunk in chunks] == [4, 3, 2]
