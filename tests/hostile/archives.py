"""Archives: .tar, .tgz and .zip with members that lie, and such as hold gigabytes of nothing."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from functools import lru_cache
from random import Random

CHUNK = 64 << 20
COUNT = 48
"""Chunks of zeros in a bomb."""
_BOMB = COUNT * CHUNK


@lru_cache(maxsize=1)
def zeros() -> bytes:
    """64 MB of them as a member of gzip: members stand one after another."""
    return gzip.compress(bytes(CHUNK))


def tar(draw: Random, source: bytes, target: bytes) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode=draw.choice(("w", "w:gz")), format=draw.choice((0, 1, 2))) as archive:
        for name, content in (("a/x.en", source), ("a/x.de", target), ("../../../outside/x", b"x"), ("/x", b"x")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.startswith("a/x") or draw.random() < 0.3:
                archive.addfile(member, io.BytesIO(content))
        for name, kind, link in (("a/link", tarfile.SYMTYPE, "/etc/passwd"), ("a/hard", tarfile.LNKTYPE, "a/x.en")):
            member = tarfile.TarInfo(draw.choice((name, "a/x.en")))
            member.type, member.linkname = draw.choice((kind, tarfile.CHRTYPE, tarfile.FIFOTYPE)), link
            if draw.random() < 0.3:
                archive.addfile(member)
    return into.getvalue()


def zipped(draw: Random, source: bytes, target: bytes) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(
        into, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    ) as archive:
        archive.writestr("a/x.en", source)
        archive.writestr("a/x.de", target)
        if draw.random() < 0.3:
            archive.writestr(draw.choice(("../../outside/x", "/x", "a/y", "C:\\x", "a/x.en/")), b"x")
    content = bytearray(into.getvalue())
    if draw.random() < 0.2:  # a password, or a way of packing that nobody has
        at, number = draw.choice(((6, 1), (8, 99)))
        content[at] = number
        content[content.index(b"PK\x01\x02") + at + 2] = number
    return bytes(content)


def bomb(draw: Random, source: bytes, target: bytes) -> bytes:
    """A member of gigabytes of nothing, as .tgz or .zip."""
    small = tarfile.TarInfo("a/x.de")
    small.size = len(target)
    large = tarfile.TarInfo("a/x.en")
    large.size = _BOMB
    if draw.random() < 0.5:
        end = small.tobuf() + target + bytes(-len(target) % 512) + bytes(1024)
        return gzip.compress(large.tobuf()) + zeros() * COUNT + gzip.compress(end)
    packed = nothing() * COUNT + zlib.compressobj(9, zlib.DEFLATED, -15).flush()
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("a/x.en", packed)
        archive.writestr("a/x.de", target)
    content = bytearray(into.getvalue())
    for head, at in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        start = content.index(head)
        content[start + at] = zipfile.ZIP_DEFLATED
        content[start + at + 14 : start + at + 18] = _BOMB.to_bytes(4, "little")
    return bytes(content)


@lru_cache(maxsize=1)
def nothing() -> bytes:
    """64 MB of nothing in deflate, which may stand many times one after another."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(bytes(CHUNK)) + packer.flush(zlib.Z_FULL_FLUSH)
