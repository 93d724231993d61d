"""Hostile training data: archives and vocabularies."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
import zipfile
import zlib
from functools import lru_cache
from random import Random

from hostile import values
from hostile.documents import zipped
from hostile.judge import check
from hostile.trial import Trial
from hostile.values import lock_first_member
from hostile.world import FIELDS
from specs import BOS, EOS, PAD, ZooError
from tests.examples import PAIRS, write_pairs
from zoo.data.prepared_corpus import PreparedCorpus
from zoo.text.vocabulary import Vocabulary

_PLAIN = tuple("".join(f"{pair[side]}\n" for pair in PAIRS * 3).encode() for side in (0, 1))

# Archives


def run_archive(random: Random, trial: Trial) -> None:
    """Prepare a corpus from an odd archive; a prepared corpus must be valid."""
    write_pairs(PAIRS, trial.folder)
    part = _odd_archive(random, trial)
    split = random.choice(("train", "train", "dev", "test"))
    spec = {**FIELDS, "corpus": {**FIELDS["corpus"], split: [part]}, "vocabulary": {"size": 101}}
    (trial.folder / "own.yaml").write_text(json.dumps({"extends": "tiny", **spec}))
    trial.log(f"{split}: {part}")
    if trial.zoo("prepare", "own.yaml").status == 0:
        (file,) = (trial.home / "prepared").glob("*/manifest.json")
        PreparedCorpus(file.parent).verify()


def _odd_archive(random: Random, trial: Trial) -> dict[str, object]:
    """Write an archive with invalid members, and name its members oddly."""
    make = values.weighted(random, {_tar: 5, _zip: 5, _archive_bomb: 1})
    file = trial.folder / f"odd.{random.choice(('tgz', 'zip', 'tar'))}"
    content = make(random, *_PLAIN)
    if random.random() < 0.4 and make is not _archive_bomb:
        content = values.corrupt(random, content)
    file.write_bytes(content)
    trial.log(f"{make.__name__}: {len(content):,} bytes")
    names = ["a/x.en", "a/x.de"]
    if random.random() < 0.3:
        odd = ("a/x.en", "../x.en", "/x.en", "a", "a/link", "a/hard", "./a/x.en", "a//x.en", "a/./x.en", "A/X.EN")
        names[random.randrange(2)] = random.choice((*odd, random.choice(values.WORDS) or "x"))
    uri = file.as_uri()
    address = random.choice((uri,) * 8 + (f"{uri}%00", "http://[::1", "file://", *random.sample(values.WORDS, 1)))
    digest = random.choice((None, None, None, "0" * 64))
    return {"archive": address, "sha256": digest, "source": names[0], "target": names[1]}


CHUNK = 64 << 20
_CHUNKS = 48
_BOMB = _CHUNKS * CHUNK


@lru_cache(maxsize=1)
def deflated_zeros() -> bytes:
    """Return 64 MB of zeros as deflate blocks, which can be concatenated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(CHUNK)) + packer.flush(zlib.Z_FULL_FLUSH)


def deflate_end() -> bytes:
    """Return the end of a deflate stream."""
    return zlib.compressobj(9, zlib.DEFLATED, -15).flush()


def _tar(random: Random, source: bytes, target: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode=random.choice(("w", "w:gz")), format=random.choice((0, 1, 2))) as archive:
        for name, content in (("a/x.en", source), ("a/x.de", target), ("../../../outside/x", b"x"), ("/x", b"x")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.startswith("a/x") or random.random() < 0.3:
                archive.addfile(member, io.BytesIO(content))
        for name, kind, link in (("a/link", tarfile.SYMTYPE, "/etc/passwd"), ("a/hard", tarfile.LNKTYPE, "a/x.en")):
            member = tarfile.TarInfo(random.choice((name, "a/x.en")))
            member.type, member.linkname = random.choice((kind, tarfile.CHRTYPE, tarfile.FIFOTYPE)), link
            if random.random() < 0.3:
                archive.addfile(member)
    return buffer.getvalue()


def _zip(random: Random, source: bytes, target: bytes) -> bytes:
    members = [("a/x.en", source), ("a/x.de", target)]
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    if random.random() < 0.3:
        members.append((random.choice(("../../outside/x", "/x", "a/y", "C:\\x", "a/x.en/")), b"x"))
    content = zipped(members, method)
    return lock_first_member(random, content) if random.random() < 0.2 else content


def _archive_bomb(random: Random, source: bytes, target: bytes) -> bytes:
    """Return a .tgz or .zip with a member of gigabytes of zeros."""
    if random.random() < 0.5:
        small, large = tarfile.TarInfo("a/x.de"), tarfile.TarInfo("a/x.en")
        small.size, large.size = len(target), _BOMB
        end = small.tobuf() + target + bytes(-len(target) % 512) + bytes(1024)
        return gzip.compress(large.tobuf()) + gzip.compress(bytes(CHUNK)) * _CHUNKS + gzip.compress(end)
    zeros = deflated_zeros() * _CHUNKS + deflate_end()
    content = bytearray(zipped([("a/x.en", zeros), ("a/x.de", target)]))
    for head, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = content.index(head) + offset
        content[start] = zipfile.ZIP_DEFLATED
        content[start + 14 : start + 18] = _BOMB.to_bytes(4, "little")
    return bytes(content)


# Vocabularies

_TEXTS = ("the old dog sees a small house", "", "   ", "\x07Ω 日本 🏳️‍🌈", "a" * 300, "siehst du die Katze?")


def run_vocabulary(random: Random, trial: Trial) -> None:
    """Load a damaged SentencePiece model, and let it encode, decode and sample."""
    good = trial.world.run / "vocabulary.model"
    names = ("vocabulary.model",) if random.random() < 0.8 else ("vocabulary.source.model", "vocabulary.target.model")
    for name in names:
        shutil.copyfile(good, trial.folder / name)
        trial.log(values.damage(random, trial.folder / name))
    loaded = trial.call(lambda: Vocabulary.load(trial.folder))
    if not isinstance(loaded, ZooError):
        _use(random, trial, loaded)


def _use(random: Random, trial: Trial, vocabulary: Vocabulary) -> None:
    rows = trial.call(lambda: vocabulary.source.encode_all(_TEXTS))
    if isinstance(rows, ZooError):
        return
    for row, line in zip(rows, _TEXTS, strict=True):
        check(all(0 <= token < vocabulary.sizes[0] for token in row), f"invalid token IDs: {row}")
        check(trial.call(lambda line=line: vocabulary.encode(line, "target")) is not None, "no token IDs")
        text = trial.call(lambda row=row: vocabulary.decode(row))
        check(isinstance(text, str | ZooError), f"no text: {text!r}")
        if row:
            trial.call(lambda row=row: vocabulary.source.sample(row, 0.1))
    ids = [token for token in range(vocabulary.sizes[1]) if token not in (PAD, BOS, EOS)]
    for tokens in (*([token] for token in ids), random.sample(ids, len(ids))):
        text = trial.call(lambda tokens=tokens: vocabulary.decode(tokens))
        if isinstance(text, str):
            check(not any("\ud800" <= sign <= "\udfff" for sign in text), f"half a character: {text!r}")
