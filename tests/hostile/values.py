"""Hostile values, and damage to files of every kind: JSON, YAML, archives, tensors, vocabularies, pickles and bytes."""

from __future__ import annotations

import io
import json
import os
import shutil
import socket
import struct
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any, TypeVar

import numpy as np
import yaml

from hostile.documents import zipped
from zoo.text import protobuf

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 255, 256, 65_536, 65_537, 133_145, 10**6, 10**8, 10**9, 2**31 - 1, 2**31, 2**32, 2**53 + 1),
    *(2**62, 2**63 - 1, 2**63, 2**64, 10**18, 10**30, 10**300, -(10**300), -(2**63)),
    *(0.0, -0.0, 0.5, 1.0, 0.999999999, 1e-4, 1e-30, 1e-308, 5e-324, 1e30, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
)
WORDS = (
    *("", " ", "\t", "auto", "null", "true", "yes", "1e3", "1_000", "0x10", "1:30", "٣", "½", "NaN", "-", "--", "~"),
    *("~nosuchuser/x", "..", "../outside", "../../secret", "/", "/dev/null", "/etc/passwd", "a/../b", "x" * 300),
    *("http://[::1", "https://:0/x", "file:///", "file:///%00", "file:///proc/self/mem", "$HOME", "%s%n", "[bold]x[/]"),
    *("\x1b[31mred\x1b[0m", "\x07", "\x00", "a\x00b", "\x7f", "\x9b2J", "\u202eevil", "\ufeff", "\u2028", "a\nb"),
    *("\ud800", "\udcff", "a\udc80b", "e\u0301", "ﬁ", "Ω", "日本語", "🏳️‍🌈", "\u200d", "ß" * 200, "." * 3000, "en"),
)
DELETED = object()
"""Wrong value of a path that is deleted."""
LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(30))
"""YAML whose aliases expand exponentially."""
CALL = "!!python/object/apply:os.mkdir [pwned]"
_TOO_DEEP = ("[" * 100_000, '{"a":' * 100_000, '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}")
_INTEGERS = (0, 1, 255, 65_535, 10**6, 2**31 - 1, 2**31, 2**32 - 1)
_CALL_IN_HEADER = "__import__('os').mkdir('pwned')"
T = TypeVar("T")


def weighted(random: Random, choices: Mapping[T, int]) -> T:
    """Return one of the choices, each of which has a weight."""
    return random.choices(list(choices), list(choices.values()))[0]


def nests(depth: int) -> tuple[str, str]:
    """Return lists and mappings of this depth, as text."""
    return "[" * depth + "]" * depth, "{a: " * depth + "}" * depth


def value(random: Random) -> Any:
    """Return a value of any type."""
    kind = random.randrange(9)
    if kind < 6:
        return random.choice(NUMBERS if kind < 3 else WORDS)
    if kind == 6:
        return [value(random) for _ in range(random.randrange(3))]
    if kind == 7:
        return {random.choice(WORDS): value(random) for _ in range(random.randrange(3))}
    return random.choice((None, True, False))


# Trees of JSON and YAML


def _paths(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path for key, each in inner for path in ((*above, key), *_paths(each, (*above, key)))]


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        tree = tree[step]
    return tree


def edit_json(random: Random, file: Path, wrong: Mapping[tuple[Any, ...], Sequence[Any]]) -> str:
    """Give one of some paths in a JSON file one of its wrong values, or delete it if that is `DELETED`.

    Return a description of the change.
    """
    path = random.choice(list(wrong))
    new = random.choice(wrong[path])
    tree = json.loads(file.read_text())
    parent = _at(tree, path[:-1])
    if new is DELETED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = new
    file.write_text(json.dumps(tree))
    return f"{file.name}: {path}: {new!r:.200}"


def mutate(random: Random, tree: Any) -> Any:
    """Delete, rename, repeat or replace a value somewhere in a tree, and return the tree."""
    if not (paths := _paths(tree)):
        return tree
    path = random.choice(paths)
    parent, key = _at(tree, path[:-1]), path[-1]
    what, word = random.randrange(8), random.choice(WORDS)
    if what == 0:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        name = str(key)
        parent[random.choice((name[:-1], name + word, word + name, name.upper(), name * 100, word))] = parent.pop(key)
    elif what == 2 and isinstance(parent, list):
        parent += [parent[key]] * random.choice((1, 2, 100))
    else:
        parent[key] = _similar(random, parent[key]) if what < 5 else value(random)
    return tree


def _similar(random: Random, old: Any) -> Any:
    """Return another value of the same type, sometimes out of range."""
    if isinstance(old, int | float) and not isinstance(old, bool):
        near = (old + 1, 2 * old, type(old)(old / 2), float(old), old * 10, -old, old * 1000, old * 10**7, str(old))
        return random.choice((*near, *random.sample(NUMBERS, 3)))
    if isinstance(old, str):
        word = random.choice(WORDS)
        return random.choice((word, f"{old}{word}", f"{word}{old}", old * 50, old.upper()))
    return value(random)


# Files


def corrupt(random: Random, content: bytes) -> bytes:
    """Return bytes with some of them changed, removed, moved, or replaced by a large integer."""
    if not content:
        return random.randbytes(random.randrange(100))
    start, end = sorted(random.randrange(len(content) + 1) for _ in range(2))
    few = min(end - start, 64)
    flipped, at = bytearray(content), random.randrange(len(content)) if random.random() < 0.5 else start % 200
    for _ in range(random.choice((1, 1, 1, 4, 50))):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    results = (
        content[:start],
        content[:start] + random.randbytes(few) + content[end:],
        content[:start] + content[end:],
        content[:end] + content[start:],
        content + random.randbytes(random.choice((1, 8, 1000))),
        content[:start] + bytes(few) + content[start + few :],
        *(content[:at] + struct.pack("<I", random.choice(_INTEGERS)) + content[at + 4 :],) * 2,
        *(bytes(flipped),) * 2,
    )
    return random.choice(results)


def damage(random: Random, file: Path) -> str:
    """Damage a file as its kind suggests, or its bytes, or remove or replace it. Describe the change."""
    chance = random.random()
    if chance < 0.15 or not file.is_file():
        return replace_file(random, file)
    before = file.read_bytes()
    after = corrupt(random, before) if chance < 0.35 else damaged(random, file.suffix, before)
    file.unlink()
    if chance < 0.95:
        file.write_bytes(after)
    first = next((index for index, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
    return f"{file.name}: {len(after)} instead of {len(before)} bytes, {after[max(0, first - 20) : first + 80]!r}"


def damaged(random: Random, suffix: str, content: bytes) -> bytes:
    """Return the content of a file with damage that its suffix suggests. The content may be damaged already."""
    kinds = {".json": _json, ".yaml": _yaml, ".yml": _yaml, ".safetensors": safetensors, ".npy": _npy, ".txt": _lines}
    kinds |= dict.fromkeys((".npz", ".pt", ".zip"), _zip) | dict.fromkeys((".spm", ".model"), sentencepiece)
    try:
        return kinds.get(suffix, corrupt)(random, content)
    except (ValueError, LookupError, zipfile.BadZipFile, yaml.YAMLError):
        return corrupt(random, content)


def _json(random: Random, content: bytes) -> bytes:
    text = content.decode()
    if random.random() < 0.75:
        tree = mutate(random, json.loads(text))
        text = json.dumps(tree if random.random() < 0.7 else mutate(random, tree))
    else:
        infinite = (text.replace("{", '{"dropout": NaN, ', 1), text.replace(": ", ": 1e999, ", 1))
        others = ("", "null", "[]", "1", '"x"', "NaN", text * 2, text + " " * 1_500_000, text[: len(text) // 2])
        text = random.choice((*_TOO_DEEP, *others, *infinite, f"\ufeff{text}"))
    return text.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "surrogatepass")


def _yaml(random: Random, content: bytes) -> bytes:
    text = content.decode().rstrip("\0")
    if random.random() < 0.6:
        text = yaml.dump(mutate(random, yaml.safe_load(text)))
    else:
        before = [f"x: {nested}" for nested in nests(random.choice((30, 5_000, 90_000)))]
        after = ("unheard-of: 1", f"x: {CALL}", f"# {'x' * 2_000_000}", f"---\n{text}", f"max-length-factor: {10**400}")
        added = [*(f"{line}\n{text}" for line in (*before, LAUGHS)), *(f"{text}{line}\n" for line in after)]
        others = ("", "[]", "1", "a: [", "\x00", "\xff\xfe", "x: &x [*x]", text.replace("2", "1" * 12))
        text = random.choice((*added, *others))
    return text.encode(random.choice(("utf-8", "utf-8", "latin-1", "utf-16")), "replace")


def safetensors(random: Random, content: bytes, *, with_metadata: bool = True) -> bytes:
    """Return a safetensors file with another header, or another length of its header."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    kept = {} if with_metadata else {"__metadata__": header.pop("__metadata__", {})}
    text, length = json.dumps({**mutate(random, header), **kept}).encode(), None
    if random.random() < 0.3:
        deep = random.choice((200, 10_000, 1_000_000))
        broken = (b"{}", b"[]", b"null", b"\xff\xfe", b"{", b" " * 5_000_000, b"\x80\x04K\x01.", b"<" + text)
        text = random.choice((*broken, b"[" * deep, b'{"a":' * deep, text + b" " * 10_000_000))
    elif random.random() < 0.3:
        length = random.choice((0, 1, -1, 2**63, 2**40, 2**32, 10**8 + 1, len(text) - 1, len(text) + 1, 10**6))
    return ((len(text) if length is None else length) % 2**64).to_bytes(8, "little") + text + content[end:]


def _zip(random: Random, content: bytes) -> bytes:
    """Return a zip file with a damaged, renamed, repeated, encrypted or oddly named member, or too many members."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    odd = random.choice(("../../pwned", "/pwned", "a/b.npy", "\x1b[2J.npy", "x" * 5000, "Wemb2.npy"))
    at = random.randrange(len(members))
    name, inner = members[at]
    what = random.randrange(7)
    if what < 3:
        members[at] = name, damaged(random, PurePosixPath(name).suffix, inner)
    elif what == 3:
        members[at] = odd, inner
    elif what == 4:
        members += random.choice(([(odd, b"x")], [members[at]], [(f"m{n}.npy", b"") for n in range(3000)]))
    elif what == 5:
        del members[at]
    written = zipped(members, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return lock_first_member(random, written) if what == 6 else written


def lock_first_member(random: Random, content: bytes) -> bytes:
    """Mark the first member of a zip as encrypted, or as compressed by an unknown method."""
    changed = bytearray(content)
    offset, number = random.choice(((6, 1), (8, 99)))
    changed[offset] = changed[changed.index(b"PK\x01\x02") + offset + 2] = number
    return bytes(changed)


def npy(header: str, content: bytes, version: int = 1) -> bytes:
    """Return a numpy file with this text as its header."""
    text = header.encode("latin-1", "replace")
    length = struct.pack("<H" if version == 1 else "<I", len(text) % (1 << (16 if version == 1 else 32)))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def _npy(random: Random, content: bytes) -> bytes:
    """Return a numpy file with an impossible or huge shape or type, or a header that is code, or with other options."""
    array = np.load(io.BytesIO(content))
    if array.dtype.itemsize == 1:
        text, written = damaged(random, ".yaml", array.tobytes()) + random.choice((b"\0", b"", b"\0\xff")), io.BytesIO()
        np.save(written, np.frombuffer(text, np.int8))
        return written.getvalue()
    shapes = ((2**62, 2**62), (10**9, 10**3), (-1, 8), (-(2**40),), (8, -8), (2**64,), (0, 8), (1,) * 70, (), (4, 4))
    kinds = ("|O", "<f8,<f8", "|V999999999", "<U1000000", "<c16", "|S8", "<i4", "<M8[ns]", "", "x" * 5000)
    texts = (
        *("{" * 5000, "[" * 60_000, _CALL_IN_HEADER, "{'descr': (", "9" * 6000, "()"),
        f"{{'descr': {_CALL_IN_HEADER}}}",
    )
    shape, kind = random.choice(((random.choice(shapes), "<f4"), (array.shape, random.choice(kinds))))
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}}}"
    return npy(random.choice((header, header, random.choice(texts))), bytes(256), random.choice((1, 2, 3, 9)))


def sentencepiece(random: Random, content: bytes) -> bytes:
    """Return a SentencePiece model with reordered, repeated, removed or changed fields, or with endless ones."""
    endless = b"\x0a" + b"\xff" * 9 + b"\x01"
    if random.random() < 0.25:
        added = (endless, b"\x12\x04\x18\xff\xff\x7f", b"\x12\x02\x18\x03", b"\x1a\x06\x12\x04\xff\xff\xff\xff")
        alone = (endless, b"\x0b" * 1000, b"\x0c", b"", b"\x0a\x02\x0a\x7f", b"\x0a\x00" * 100_000, bytes(100))
        return random.choice((*alone, content * 2, *(content + field for field in added)))
    fields = [(field.number, bytes(field.value)) for field in protobuf.parse_fields(content)]  # type: ignore[arg-type]
    for _ in range(random.choice((1, 1, 2, 5))):
        at, other = sorted(random.randrange(len(fields)) for _ in range(2))
        settings = random.randrange(max(0, len(fields) - 4), len(fields))  # the last fields, after the tokens
        token = random.choice(WORDS).encode("utf-8", "surrogatepass")[:100]
        entry = protobuf.encode_bytes(1, token) + protobuf.encode_integer(3, random.randrange(9))
        edits: tuple[tuple[int, int, list[tuple[int, bytes]]], ...] = (
            (at, at + 1, []),
            (at, at, [fields[other]]),
            (at, other + 1, fields[at : other + 1][::-1]),
            (at, at + 1, [(random.randrange(1, 20), fields[at][1])]),
            (settings, settings + 1, [(fields[settings][0], corrupt(random, fields[settings][1]))]),
            (at, at + 1, [(1, entry)]),
            (at, at + 1, [(fields[at][0], corrupt(random, fields[at][1]))]),
        )
        start, end, changed = random.choice(edits)
        fields[start:end] = changed
    return b"".join(protobuf.encode_bytes(number, each) for number, each in fields)


def _lines(random: Random, content: bytes) -> bytes:
    """Return a list of tokens with an odd line."""
    lines = content.splitlines()
    odd = (b"the 9", b"x", b"x 1.5", b" 5", b"\xff 5", b"x -1", b"x \xd9\xa3", b"<pad> 5", b"\0 5", b"\x1b[2J 5")
    large = (b"x" * 1_000_000 + b" 1", b"x " + b"9" * 100_000)
    lines.insert(random.randrange(len(lines) + 1), random.choice((*odd, b"a\rb 5", *large)))
    return b"\n".join(lines) + random.choice((b"\n", b"", b"\n" * 100_000))


def replace_file(random: Random, path: Path) -> str:
    """Put something else where a file may be, such as a device, pipe or link, and describe it."""
    links = ("/dev/zero", "/dev/urandom", "/dev/full", "/dev/null", "/proc/self/mem", "nowhere", path.name)
    kind = random.choice(("fifo", "folder", "empty", "hole", "socket", *links))
    good = path.read_bytes() if path.is_file() else b""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "empty":
            path.touch()
        case "hole":
            path.write_bytes(good)
            os.truncate(path, 1 << 43)  # larger than any disk
        case "socket":
            with socket.socket(socket.AF_UNIX) as opened:
                opened.bind(os.path.relpath(path))  # its path has 108 characters at most
        case _:
            path.symlink_to(kind)  # a link to its own name is a loop
    return f"{path.name} is {kind}"
