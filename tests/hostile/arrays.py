"""Archives of numpy's arrays, as Marian has them, whose members lie, execute, or unpack to more than there is."""

from __future__ import annotations

import io
import os
import pickle
import struct
import zipfile
import zlib
from pathlib import Path
from random import Random
from typing import Any

import yaml

from hostile import archives, values
from hostile.foreign import OPTIONS
from hostile.pickles import Bomb
from hostile.trial import Trial

_FILE = "model.npz"
_SPECIAL = "special:model.yml.npy"
_HUGE = 3 << 30
"""Bytes of a member that packs to next to nothing."""


def _npy(header: Any, content: bytes, version: int = 1) -> bytes:
    """A file of numpy's with this header, which may be text as it is to stand there."""
    text = (header if isinstance(header, str) else repr(header)).encode("latin-1", "replace")
    length = struct.pack("<H" if version == 1 else "<I", len(text) % (1 << (16 if version == 1 else 32)))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def _members(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _written(file: Path, members: dict[str, bytes], packed: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(file, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _truncated(draw: Random, place: Path, trial: Trial) -> bool:
    """The end, where the list of members is, is not there."""
    file = place / _FILE
    os.truncate(file, draw.randrange(file.stat().st_size - 22))
    return True


def _header(draw: Random, place: Path, trial: Trial) -> bool:
    """Shapes and types that cannot be, or that ask for everything."""
    members = _members(place / _FILE)
    name = draw.choice(sorted(members))
    good = {"descr": "<f4", "fortran_order": False, "shape": (8, 8)}
    shape = draw.choice(
        ((2**62, 2**62), (10**9, 10**3), (2**31, 8), (-1, 8), (-(2**40),), (8, -8), (2**64,), (0, 8), (1,) * 70, ())
    )
    kind = draw.choice(("|O", "<f8,<f8", "|V999999999", "<U1000000", "<c16", "|S8", "<i4", "<M8[ns]", "", "x" * 5000))
    text = draw.choice(
        ("{" * 5000, "[" * 60_000, "__import__('os').mkdir('pwned')", "{'descr': (", "9" * 6000, "\0" * 40, "()")
    )
    text = draw.choice((text, "{'descr': '<f4', 'fortran_order': __import__('os').mkdir('pwned'), 'shape': (8, 8)}"))
    header: Any = draw.choice(({**good, "shape": shape}, {**good, "shape": shape}, {**good, "descr": kind}, text))
    members[name] = _npy(header, bytes(256), draw.choice((1, 2, 3, 9)))
    trial.tell(f"{name}: {header!r:.200}")
    _written(place / _FILE, members)
    return True


def _executed(draw: Random, place: Path, trial: Trial) -> bool:
    """Arrays of objects, which numpy would unpickle."""
    members = _members(place / _FILE)
    name = draw.choice(sorted(members))
    content = pickle.dumps(Bomb())
    members[name] = draw.choice((content, _npy({"descr": "|O", "fortran_order": False, "shape": (1,)}, content)))
    _written(place / _FILE, members)
    return True


def _bomb(draw: Random, place: Path, trial: Trial) -> bool:
    """Gigabytes of nothing as one matrix, or as the options."""
    name = draw.choice(("Wemb.npy", _SPECIAL, "encoder_l1_self_Wq.npy", "unheard.npy"))
    members = _members(place / _FILE)
    members.pop(name, None)
    columns, kind = (8, "<f4") if name != _SPECIAL else (1, "|i1")
    shape = (_HUGE // columns // 4, columns) if name != _SPECIAL else (_HUGE,)
    start = _npy({"descr": kind, "fortran_order": False, "shape": shape}, b"")
    if draw.random() < 0.5:  # all of it is there
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        packed = (
            packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH) + archives.nothing() * (_HUGE // archives.CHUNK)
        )
        members[name] = packed + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    else:
        members[name] = start + bytes(1000)
    _written(place / _FILE, members)
    content = bytearray((place / _FILE).read_bytes())
    _lie(content, name, len(start) + _HUGE, deflated=len(members[name]) > 100_000)
    (place / _FILE).write_bytes(content)
    return True


def _lie(content: bytearray, name: str, size: int, *, deflated: bool) -> None:
    """In an archive's directory, that a member has another size once it is unpacked, and that it is packed."""
    at = content.index(b"PK\x01\x02")
    while content[at : at + 4] == b"PK\x01\x02":
        called, extra, comment = struct.unpack_from("<HHH", content, at + 28)
        if content[at + 46 : at + 46 + called] == name.encode():
            struct.pack_into("<I", content, at + 24, size)
            (there,) = struct.unpack_from("<I", content, at + 42)
            if deflated:
                struct.pack_into("<H", content, at + 10, zipfile.ZIP_DEFLATED)
                struct.pack_into("<H", content, there + 8, zipfile.ZIP_DEFLATED)
        at += 46 + called + extra + comment


def _zip(draw: Random, place: Path, trial: Trial) -> bool:
    """Members twice, packed as nobody can unpack, with a password, by names that lead out."""
    members = _members(place / _FILE)
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        what = draw.randrange(4)
        if what == 0:
            archive.writestr(draw.choice(("../../pwned", "/pwned", "a/b.npy", "\x1b[2J.npy", "x" * 5000)), b"x")
        elif what == 1:
            archive.writestr("Wemb", members["Wemb.npy"])
        elif what == 2:
            for number in range(3000):
                archive.writestr(f"m{number}.npy", b"")
    content = bytearray(into.getvalue())
    if what == 3:  # a password, or a way of packing that nobody has
        at, number = draw.choice(((6, 1), (8, 99)))
        content[at] = number
        content[content.index(b"PK\x01\x02") + at + 2] = number
    (place / _FILE).write_bytes(content)
    return True


def _options(draw: Random, place: Path, trial: Trial) -> bool:
    """`special:model.yml` that is deep, huge, no text, or says what nobody knows."""
    deep = draw.choice((30, 5_000, 90_000))
    text = yaml.safe_dump(OPTIONS)
    laughs = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(30))
    made = draw.choice(
        (
            f"x: {'[' * deep}{']' * deep}\n{text}",
            f"x: {'{a: ' * deep}{'}' * deep}\n{text}",
            f"{laughs}{text}",
            f"{text}\nunheard-of: 1\n",
            f"{text}# {'x' * 2_000_000}\n",
            f"{text}x: !!python/object/apply:os.mkdir [pwned]\n",
            *("", "[]", "1", "a: [", "\xff\xfe", "x: &x [*x]", f"{text}---\n{text}", "&a [*a, *a]"),
            text.replace("dim-emb: 8", f"dim-emb: {draw.choice((10**12, 10**400, -8, 0, 7, '[8]', '8.0', 'x', '~'))}"),
            text.replace("dec-depth: 1", f"dec-depth: {draw.choice((10**12, 0, -1, 2, '1e3', '{}', 10**6))}"),
            text.replace("heads: 2", f"heads: {draw.choice((3, 10**30, 0, 'true', '[]'))}"),
            text.replace("dim-ffn: 12", f"dim-ffn: {draw.choice((13, 10**15, 0, 'a'))}"),
            f"{text}transformer-tied-layers: {draw.choice(('[2]', '[0]', '[1, 1]', '[[1]]', '{1: 1}', 'x'))}\n",
        )
    )
    trial.tell(f"{len(made)} characters: {made[:200]!r}")
    content = made.encode("latin-1") + draw.choice((b"\0", b"", b"\0\0\xff"))
    members = _members(place / _FILE)
    header = {"descr": "|i1", "fortran_order": False, "shape": (len(content),)}
    members[_SPECIAL] = _npy(header, content)
    _written(place / _FILE, members)
    return True


def _tensors(draw: Random, place: Path, trial: Trial) -> bool:
    """Matrices that are missing, called otherwise, of other shapes."""
    members = _members(place / _FILE)
    name = draw.choice([each for each in sorted(members) if each != _SPECIAL])
    content = members.pop(name)
    what = draw.randrange(4)
    if what == 1:
        members[draw.choice(("x", "Wemb2.npy", f"{values.word(draw)[:50]}.npy".replace("\0", "")))] = content
    elif what == 2:
        shape = draw.choice(((4, 4), (8,), (1, 1), (2, 2, 2), (0, 0)))
        count = 1
        for size in shape:
            count *= size
        members[name] = _npy({"descr": "<f4", "fortran_order": False, "shape": shape}, bytes(4 * count))
    elif what == 3:
        members[name] = content[: draw.randrange(len(content))]
    trial.tell(f"{name}: {what}")
    with zipfile.ZipFile(place / _FILE, "w") as archive:
        for each, of in members.items():
            archive.writestr(each.encode("utf-8", "replace").decode(), of)
    return True


WAYS = (_truncated, _header, _header, _executed, _bomb, _zip, _options, _options, _tensors)
