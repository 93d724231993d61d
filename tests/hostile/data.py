"""Hostile training data: corpora, archives, treebanks and vocabularies."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import get_args

from hostile import values
from hostile.judge import check
from hostile.trial import Trial
from hostile.world import FIELDS, PAIRS
from specs import BOS, EOS, PAD, ZooError
from zoo.data.prepare import PreparedCorpus
from zoo.text import protobuf
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tokenizer import Linearisation
from zoo.text.vocabulary import Vocabulary

_PLAIN = tuple("".join(f"{pair[side]}\n" for pair in PAIRS * 3).encode() for side in (0, 1))

# Corpora


def run_corpus(random: Random, trial: Trial) -> None:
    """Prepare a corpus with odd files; a prepared corpus must be valid, and have all lines."""
    trial.world.write_corpus(trial.folder)
    kinds = {_odd_lines: 6, _odd_gzip: 3, _odd_sgml: 3, _not_a_file: 2, _odd_archive: 5}
    part = values.weighted(random, kinds)(random, trial)
    split = random.choice(("train", "train", "dev", "test"))
    lines = part.pop("lines", None)
    size = random.choice((101, 40, 300))
    spec = {**FIELDS, "corpus": {**FIELDS["corpus"], split: [part]}, "vocabulary": {"size": size}}
    (trial.folder / "own.yaml").write_text(json.dumps({"extends": "tiny", **spec}))
    trial.log(f"{split}: {part}")
    if trial.zoo("prepare", "own.yaml").status == 0:
        prepared = PreparedCorpus(_prepared_folder(trial))
        prepared.verify()
        if split != "test":
            count = prepared.counts.read if split == "train" else len(prepared.texts(split)["source"])
            check(lines in (None, count), f"{count} lines are read of {lines}")


def _prepared_folder(trial: Trial) -> Path:
    (file,) = (trial.home / "prepared").glob("*/manifest.json")
    return file.parent


def _odd_lines(random: Random, trial: Trial) -> dict[str, object]:
    contents = [_odd_text(random, side) for side in (0, 1)]
    if random.random() < 0.6:
        contents[random.randrange(2)] = _PLAIN[random.randrange(2)]
    return _write_pair(trial, contents, ("odd.en", "odd.de"))


def _odd_text(random: Random, side: int) -> bytes:
    good = _PLAIN[side]
    at = random.randrange(len(good))
    invalid = random.choice((b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"))
    if random.random() < 0.02:
        return good[:at] + b"x" * (50 << 20) + good[at:]
    return random.choice(
        (
            b"",
            b"\n" * random.choice((1, 12, 100_000)),
            b" \t\n" * 12,
            good.replace(b"\n", random.choice((b"\r\n", b"\r"))),
            b"\xef\xbb\xbf" + good,
            good.decode().encode(random.choice(("utf-16", "latin-1", "utf-8-sig", "utf-32"))),
            good[:at] + invalid + good[at:],
            good[:at] + values.text(random, 30).encode("utf-8", "surrogatepass") + good[at:],
            good.rstrip(b"\n"),
            good[:at],
            good + b"x" * random.choice((10_000, 1 << 20)) + b"\n",
            good + b"word " * random.choice((10_000, 200_000)),
            values.corrupt(random, good),
            "".join(chr(number) + "\n" for number in range(0x4E00, 0x4E00 + 12)).encode(),
            b"a\n" * 12,
            b"\xe2\x80\xa8\x0b\x0c\x1c\xc2\x85\n" * 12,
        )
    )


def _write_pair(trial: Trial, contents: list[bytes], names: tuple[str, str]) -> dict[str, object]:
    for name, content in zip(names, contents, strict=True):
        (trial.folder / name).write_bytes(content)
        trial.log(f"{name}: {len(content):,} bytes, {content[:60]!r}")
    lines = {content.count(b"\n") + (not content.endswith(b"\n")) for content in contents}
    return {"source": names[0], "target": names[1], "lines": lines.pop() if len(lines) == 1 else None}


def _odd_gzip(random: Random, trial: Trial) -> dict[str, object]:
    good = gzip.compress(_PLAIN[0])
    broken = (b"", _PLAIN[0], good + b"rubbish", good + bytes(1000), gzip.compress(good), good[:-8] + bytes(8))
    content = random.choice((good, good + good, *broken, *(values.corrupt(random, good) for _ in range(2))))
    if random.random() < 0.05:
        content = _gzipped_zeros() * _CHUNKS
    part = _write_pair(trial, [content, _PLAIN[1]], ("odd.en.gz", "odd.de"))
    return {**part, "lines": len(PAIRS) * 3 if content == good else None}


def _odd_sgml(random: Random, trial: Trial) -> dict[str, object]:
    """Write the SGML files of WMT, and broken ones."""
    count = random.choice((12, 12, 12, 30_000, 150_000))
    good = "".join(f'<seg id="{n}">{PAIRS[n % len(PAIRS)][0]}</seg>\n' for n in range(12))
    entity = random.choice(("&#0;", "&#xD800;", "&#99999999999;", "&lt;/seg&gt;", "&#10;"))
    repeated = random.choice(("<seg>", "<seg ", "<seg id=1>a</seg", "</seg>", "<seg>a"))
    text = random.choice(
        (
            good,
            repeated * count,
            repeated * count + "</seg>",
            good.replace("</seg>", ""),
            good.replace("the", entity),
            f"<!DOCTYPE x [<!ENTITY a '{'x' * 100}'>]>" + good.replace("the", "&a;" * 100),
            values.corrupt(random, good.encode()).decode("utf-8", "replace"),
            good.replace("\n", "\r").upper(),
            "<seg>" + "\n" * count + "</seg>",
        )
    )
    part = _write_pair(trial, [text.encode(), _PLAIN[1]], (random.choice(("odd.sgm", "odd.SGML")), "odd.de"))
    return {**part, "lines": 12 if text == good else None}


def _not_a_file(random: Random, trial: Trial) -> dict[str, object]:
    (trial.folder / "odd.en").write_bytes(_PLAIN[0])
    (trial.folder / "odd.de").write_bytes(_PLAIN[1])
    trial.log(values.replace_file(random, trial.folder / random.choice(("odd.en", "odd.de"))))
    return {"source": random.choice(("odd.en",) * 3 + (values.word(random) or "x",)), "target": "odd.de"}


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
        names[random.randrange(2)] = random.choice((*odd, values.word(random) or "x"))
    uri = file.as_uri()
    address = random.choice((uri,) * 8 + (f"{uri}%00", "http://[::1", "file://", values.word(random)))
    digest = random.choice((None, None, None, "0" * 64))
    return {"archive": address, "sha256": digest, "source": names[0], "target": names[1]}


# Archives

CHUNK = 64 << 20
_CHUNKS = 48
_BOMB = _CHUNKS * CHUNK


@lru_cache(maxsize=1)
def _gzipped_zeros() -> bytes:
    """Return a gzip member of 64 MB of zeros; members can be concatenated."""
    return gzip.compress(bytes(CHUNK))


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
    buffer = io.BytesIO()
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("a/x.en", source)
        archive.writestr("a/x.de", target)
        if random.random() < 0.3:
            archive.writestr(random.choice(("../../outside/x", "/x", "a/y", "C:\\x", "a/x.en/")), b"x")
    content = buffer.getvalue()
    return lock_first_member(random, content) if random.random() < 0.2 else content


def lock_first_member(random: Random, content: bytes) -> bytes:
    """Mark the first member of a zip as encrypted, or as compressed by an unknown method."""
    changed = bytearray(content)
    offset, number = random.choice(((6, 1), (8, 99)))
    changed[offset] = changed[changed.index(b"PK\x01\x02") + offset + 2] = number
    return bytes(changed)


def _archive_bomb(random: Random, source: bytes, target: bytes) -> bytes:
    """Return a .tgz or .zip with a member of gigabytes of zeros."""
    if random.random() < 0.5:
        small, large = tarfile.TarInfo("a/x.de"), tarfile.TarInfo("a/x.en")
        small.size, large.size = len(target), _BOMB
        end = small.tobuf() + target + bytes(-len(target) % 512) + bytes(1024)
        return gzip.compress(large.tobuf()) + _gzipped_zeros() * _CHUNKS + gzip.compress(end)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a/x.en", deflated_zeros() * _CHUNKS + deflate_end())
        archive.writestr("a/x.de", target)
    content = bytearray(buffer.getvalue())
    for head, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = content.index(head) + offset
        content[start] = zipfile.ZIP_DEFLATED
        content[start + 14 : start + 18] = _BOMB.to_bytes(4, "little")
    return bytes(content)


# Treebanks

_TREES = (
    "(TOP (S (NP (DT the) (JJ old) (NN dog)) (VP (VBZ sees) (NP (DT a) (JJ small) (NN house)))))",
    "( (S (NP-SBJ-1 (PRP we)) (VP (VBP read) (NP (CD two) (NNS books)) (NP-TMP (NN today)))) )",
    "(ROOT (SQ (VBP do) (NP (PRP you)) (VP (VB see) (NP (DT the) (NN cat)) (-NONE- *T*-1)) (. ?)))",
    "(TOP (NP (NP (NN pressure)) (-LRB- -LRB-) (NN IOP) (-RRB- -RRB-) (CD 1\\/2)))",
)
_ODD = ("(", ")", "()", "(())", "( ", "(NP)", "(NP (NN", "\x00", "\ufeff", "-NONE-", "(-NONE- *)", "⁇", "(((", "\r\n")


def run_treebank(random: Random, trial: Trial) -> None:
    """Prepare a treebank; prepared trees must have the words of their sentences."""
    content = _odd_trees(random)
    name = random.choice(("odd.trees", "odd.mrg", "odd.trees.gz"))
    (trial.folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (trial.folder / "good.trees").write_text("\n".join(_TREES) + "\n")
    corpus = {"train": [{"trees": "good.trees"}], "dev": [{"trees": "good.trees"}], "test": []}
    corpus[random.choice(("train", "train", "dev"))] = [{"trees": random.choice((name, name, name, "."))}]
    vocabulary = {"size": random.choice((60, 45)), "target_size": random.choice((64, 20))}
    task = {"linearisation": random.choice(get_args(Linearisation))}
    small = {key: FIELDS[key] for key in ("architecture", "compilation")}
    spec = {"extends": "parsing/tiny", "name": "own", "task": task, "corpus": corpus, "vocabulary": vocabulary, **small}
    (trial.folder / "own.yaml").write_text(json.dumps(spec))
    trial.log(f"{len(content)} bytes, {spec}")
    if trial.zoo("prepare", "own.yaml").status == 0:
        for source, tree in zip(*PreparedCorpus(_prepared_folder(trial)).texts("dev").values(), strict=True):
            check(
                len(source.split()) == len(list(read_tree(tree).leaves())), f"{source!r} has not the words of {tree!r}"
            )


def _odd_trees(random: Random) -> bytes:
    good = "\n".join(random.choices(_TREES, k=random.choice((1, 4, 30)))) + "\n"
    at, depth = random.randrange(len(good)), random.choice((200, 260, 5_000, 200_000))
    texts = (
        good,
        good[:at],
        good[:at] + random.choice(_ODD) + good[at:],
        good[:at] + good[at + 1 :],
        "(S " * depth + "(NN deep)" + ")" * random.choice((depth, depth - 1)) + "\n",
        "(S" + " (NN wide)" * random.choice((2_000, 60_000)) + ")\n",
        good.replace(" ", random.choice(("\n", "\t\n  ", "\u3000", "\u2028"))),
        good.replace("NP", values.word(random).replace("(", "")[:200] or "NP"),
        "".join(random.sample(good, len(good))),
    )
    if random.random() < 0.1:
        return values.corrupt(random, good.encode())
    return random.choice(texts).encode("utf-8", "surrogatepass")


# Vocabularies

_TEXTS = ("the old dog sees a small house", "", "   ", "\x07Ω 日本 🏳️‍🌈", "a" * 300, "siehst du die Katze?")


def run_vocabulary(random: Random, trial: Trial) -> None:
    """Load a damaged SentencePiece model, and let it encode, decode and sample."""
    file = trial.folder / "vocabulary.model"
    good = (trial.world.run / file.name).read_bytes()
    if random.random() < 0.1:
        file.write_bytes(good)
        trial.log(values.replace_file(random, file))
    else:
        content = edit_sentencepiece(random, good) if random.random() < 0.6 else values.corrupt(random, good)
        trial.log(f"{len(content)} bytes of {len(good)}")
        names = (file.name,) if random.random() < 0.8 else ("vocabulary.source.model", "vocabulary.target.model")
        for name in names[: random.choice((1, 2, 2))]:
            (trial.folder / name).write_bytes(content)
    loaded = trial.call(lambda: Vocabulary.load(trial.folder))
    if not isinstance(loaded, ZooError):
        _use(random, trial, loaded)


def _use(random: Random, trial: Trial, vocabulary: Vocabulary) -> None:
    rows = trial.call(lambda: vocabulary.encode_all(_TEXTS))
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


def edit_sentencepiece(random: Random, model: bytes) -> bytes:
    """Reorder, repeat, remove or change fields of a SentencePiece model, which is a protobuf message."""
    fields = [(field.number, bytes(field.value)) for field in protobuf.parse_fields(model)]
    for _ in range(random.choice((1, 1, 2, 5))):
        at, other = random.randrange(len(fields)), random.randrange(len(fields))
        settings = random.randrange(max(0, len(fields) - 4), len(fields))  # the last fields, after the tokens
        number, content = fields[at]
        token = values.word(random).encode("utf-8", "surrogatepass")[:100]
        entry = protobuf.encode_bytes(1, token) + protobuf.encode_integer(3, random.randrange(9))
        place = random.randrange(2, max(3, len(content)))  # a byte that is no character, in a token
        edits: tuple[tuple[int, int, list[tuple[int, bytes]]], ...] = (
            (at, at + 1, []),
            (at, at, [fields[other]]),
            (min(at, other), max(at, other) + 1, fields[min(at, other) : max(at, other) + 1][::-1]),
            (at, at + 1, [(random.randrange(1, 20), content)]),
            (settings, settings + 1, [(fields[settings][0], values.corrupt(random, fields[settings][1]))]),
            (at, at + 1, [(1, entry)]),
            (at, at + 1, [(number, content[:place] + random.randbytes(1) + content[place + 1 :])]),
            (at, at + 1, [(number, values.corrupt(random, content))]),
        )
        start, end, changed = random.choice(edits)
        fields[start:end] = changed
    return b"".join(protobuf.encode_bytes(number, content) for number, content in fields)
