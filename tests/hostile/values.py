"""Hostile values: numbers, texts, bytes, nested structures, and things that are not regular files."""

from __future__ import annotations

import json
import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar

NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 7, 255, 256, 65_536, 65_537, 133_145, 10**6, 10**8, 10**9, 2**31 - 1, 2**31, 2**32, 2**53 + 1),
    *(2**62, 2**63 - 1, 2**63, 2**64, 10**18, 10**30, 10**300, -(10**300), 10**4000, -(2**63)),
    *(0.0, -0.0, 0.5, 1.0, 0.999999999, 1e-4, 1e-30, 1e-308, 5e-324, 1e30, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf")),
)
WORDS = (
    *("", " ", "\t", "auto", "null", "true", "yes", "1e3", "1_000", "0x10", "1:30", "٣", "½", "NaN", "-", "--", "~"),
    *("~nosuchuser", "~nosuchuser/x", "..", "../..", "../outside", "/", "/dev/null", ".", "a/../b", "x" * 300),
    *(
        "http://[::1",
        "http://",
        "https://:0/x",
        "file:///",
        "file://host/etc/passwd",
        "file:///%00",
        "file:///dev/null",
    ),
    *("file:///proc/self/mem", "con", "big", "tiny", "base", "en", "de", "$HOME", "%s%n", "{0}", "[bold]x[/]", "\\x00"),
    *("\x1b[31mred\x1b[0m", "\x07", "\x00", "a\x00b", "\x7f", "\x9b2J", "\u202eevil", "\ufeff", "\u2028", "a\nb"),
    *("\ud800", "\udcff", "a\udc80b", "é", "e\u0301", "ﬁ", "Ω", "日本語", "🏳️‍🌈", "\u200d", "ß" * 200, "." * 3000),
)
LETTERS = "ab .\t\n\r\x00\x07\x1b\x7f\x85\x9b\u00a0\u0301\u200b\u200d\u2028\u202e\ufeffΩß日🏳\U0001f308\U0010ffff"
TOO_DEEP = ("[" * 100_000, '{"a":' * 100_000, '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}")
"""JSON that is nested too deeply, or never ends."""
DELETED = object()
"""Wrong value of a path that is deleted."""
UNPRINTABLE = 10**4000
"""Numbers of this size are not converted to text by Python."""
LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(30))
"""YAML whose aliases expand exponentially."""


T = TypeVar("T")


def weighted(random: Random, choices: Mapping[T, int]) -> T:
    """Return one of the choices, each of which has a weight."""
    return random.choices(list(choices), list(choices.values()))[0]


def number(random: Random) -> Any:
    return random.choice(NUMBERS)


def digits(number: Any) -> str:
    """Return a number as text, even if Python refuses to convert it."""
    return "1" * 5000 if isinstance(number, int) and abs(number) >= UNPRINTABLE else str(number)


def word(random: Random) -> str:
    return random.choice(WORDS)


def text(random: Random, max_length: int = 40, *, letters: str = LETTERS) -> str:
    return "".join(random.choices(letters, k=random.randrange(max_length + 1)))


def nested(random: Random, depth: int) -> Any:
    """Return a value inside lists or mappings of this depth."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if random.random() < 0.5 else {"a": value}
    return value


def nests(depth: int) -> tuple[str, str]:
    """Return lists and mappings of this depth, as text."""
    return "[" * depth + "]" * depth, "{a: " * depth + "}" * depth


def value(random: Random) -> Any:
    """Return a value of any type."""
    kind = random.randrange(9)
    if kind < 6:
        return (number, number, number, word, word, text)[kind](random)
    if kind == 6:
        return [value(random) for _ in range(random.randrange(3))]
    if kind == 7:
        return {word(random): value(random) for _ in range(random.randrange(3))}
    return random.choice((None, True, False))


def paths(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to all values in a tree."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path for key, each in inner for path in ((*above, key), *paths(each, (*above, key)))]


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """Return the value at a path."""
    for step in path:
        tree = tree[step]
    return tree


def edit(random: Random, tree: Any, wrong: Mapping[tuple[Any, ...], Sequence[Any]]) -> str:
    """Give one of some paths one of its wrong values, or delete it if that is `DELETED`; describe the change."""
    path = random.choice(list(wrong))
    new = random.choice(wrong[path])
    parent = at(tree, path[:-1])
    if new is DELETED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = new
    return f"{path}: {new!r:.200}"


def edit_json(random: Random, file: Path, wrong: Mapping[tuple[Any, ...], Sequence[Any]]) -> str:
    """Edit a JSON file, and describe the change."""
    tree = json.loads(file.read_text())
    note = edit(random, tree, wrong)
    file.write_text(json.dumps(writable(tree)))
    return f"{file.name}: {note}"


def mutate(random: Random, tree: Any) -> str:
    """Change a value or a key somewhere in a tree, and describe the change."""
    if not paths(tree):
        return "an empty tree"
    path = random.choice(paths(tree))
    parent, key = at(tree, path[:-1]), path[-1]
    what = random.randrange(8)
    if what == 0:
        del parent[key]
        return f"{path} deleted"
    if what == 1 and isinstance(parent, dict):
        new = misspelt(random, str(key))
        parent[new] = parent.pop(key)
        return f"{path} called {new[:50]!r}"
    if what == 2 and isinstance(parent, list):
        parent += [parent[key]] * random.choice((1, 2, 100))
        return f"{path} repeated"
    old = parent[key]
    parent[key] = new = _similar(random, old) if what < 5 else value(random)
    return f"{path} from {old!r:.80} to {new!r:.80}"


def _similar(random: Random, old: Any) -> Any:
    """Return another value of the same type, sometimes out of range."""
    if isinstance(old, int | float) and not isinstance(old, bool):
        near = (old + 1, 2 * old, 3 * old, type(old)(old / 2), float(old), old * 10)
        return random.choice((*near, -old, old * 1000, old * 10**7, str(old), number(random), number(random)))
    if isinstance(old, str):
        return random.choice((word(random), f"{old}{word(random)}", f"{word(random)}{old}", old * 50, old.upper()))
    return value(random)


def misspelt(random: Random, key: str) -> str:
    index = random.randrange(len(key) + 1)
    changed = (key[:index] + key[index + 1 :], key[:index] + word(random) + key[index:])
    return random.choice((*changed, key.upper(), key * 100, word(random), text(random)))


def corrupt(random: Random, content: bytes) -> bytes:
    """Return bytes with some of them changed, removed or moved."""
    if not content:
        return random.randbytes(random.randrange(100))
    start, end = sorted(random.randrange(len(content) + 1) for _ in range(2))
    few = min(end - start, 64)
    flipped = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 4, 50))):
        flipped[random.randrange(len(flipped))] ^= 1 << random.randrange(8)
    results = (
        content[:start],
        content[:start] + random.randbytes(few) + content[end:],
        content[:start] + content[end:],
        content[:end] + content[start:],
        content + random.randbytes(random.choice((1, 8, 1000))),
        content[:start] + bytes(few) + content[start + few :],
        *(bytes(flipped),) * 2,
    )
    return random.choice(results)


def corrupt_file(random: Random, file: Path) -> str:
    """Corrupt or remove a file, and describe the change."""
    content = corrupt(random, file.read_bytes())
    file.unlink()
    if random.random() < 0.9:
        file.write_bytes(content)
    return f"{file.name}: {len(content)} bytes"


def mutate_json(random: Random, file: Path) -> str:
    """Mutate a JSON file, or replace its text; describe the change."""
    whole = file.read_text()
    note = "other text"
    if random.random() < 0.75:
        tree: Any = json.loads(whole)
        note = "; ".join(mutate(random, tree) for _ in range(random.choice((1, 1, 2))))
        content = json.dumps(writable(tree))
    else:
        others = (*TOO_DEEP, "", "null", "[]", "1", '"x"', "NaN", f"{whole}{whole}", whole + " " * 1_500_000)
        infinite = (whole.replace("{", '{"dropout": NaN, ', 1), whole.replace(": ", ": 1e999, ", 1))
        content = random.choice((*others, *infinite, f"\ufeff{whole}", whole[: len(whole) // 2]))
    file.write_bytes(content.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "surrogatepass"))
    return f"{file.name}: {note}"


def writable(tree: Any, replacement: Any = 10**300) -> Any:
    """Replace numbers of more digits than Python converts to text."""
    if isinstance(tree, dict):
        return {key: writable(each, replacement) for key, each in tree.items()}
    if isinstance(tree, list):
        return [writable(each, replacement) for each in tree]
    return replacement if isinstance(tree, int) and abs(tree) >= UNPRINTABLE else tree


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
