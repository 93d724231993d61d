"""Values that nobody means well: numbers, texts, bytes, trees."""

from __future__ import annotations

from random import Random
from typing import Any

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


def number(draw: Random) -> Any:
    """Of any size, or none at all."""
    return draw.choice(NUMBERS)


def word(draw: Random) -> str:
    """Short, or what is not meant to be one."""
    return draw.choice(WORDS)


def text(draw: Random, longest: int = 40, *, letters: str = LETTERS) -> str:
    """Any characters."""
    return "".join(draw.choices(letters, k=draw.randrange(longest + 1)))


def nested(draw: Random, deep: int) -> Any:
    """A value inside so many lists or mappings."""
    value: Any = 1
    for _ in range(deep):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


def value(draw: Random) -> Any:
    """Of any type."""
    kinds = (number, number, number, word, word, text, _list, _mapping, lambda draw: draw.choice((None, True, False)))
    return draw.choice(kinds)(draw)


def _list(draw: Random) -> list[Any]:
    return [value(draw) for _ in range(draw.randrange(3))]


def _mapping(draw: Random) -> dict[str, Any]:
    return {word(draw): value(draw) for _ in range(draw.randrange(3))}


def places(tree: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values of a tree, its own one not counted."""
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found: list[tuple[Any, ...]] = []
    for key, each in inner:
        found += [(*above, key), *places(each, (*above, key))]
    return found


def at(tree: Any, way: tuple[Any, ...]) -> Any:
    """What stands there."""
    for step in way:
        tree = tree[step]
    return tree


def bitten(draw: Random, tree: Any) -> str:
    """Changes a value or a key somewhere in a tree, and says what."""
    way = draw.choice(places(tree))
    holder = at(tree, way[:-1])
    what = draw.randrange(8)
    if what == 0:
        del holder[way[-1]]
        return f"{way} deleted"
    if what == 1 and isinstance(holder, dict):
        new = misspelt(draw, str(way[-1]))
        holder[new] = holder.pop(way[-1])
        return f"{way} called {new[:50]!r}"
    if what == 2 and isinstance(holder, list):
        holder += [holder[way[-1]]] * draw.choice((1, 2, 100))
        return f"{way} repeated"
    old = holder[way[-1]]
    holder[way[-1]] = new = _moved(draw, old) if what < 5 else value(draw)
    return f"{way} from {old!r:.80} to {new!r:.80}"


def _moved(draw: Random, old: Any) -> Any:
    """A value of the same type, and out of all bounds now and then."""
    if isinstance(old, bool) or old is None:
        return value(draw)
    if isinstance(old, int | float):
        near = (old + 1, 2 * old, 3 * old, type(old)(old / 2), float(old), old * 10)
        far = (-old, old * 1000, old * 10**7, str(old), number(draw), number(draw))
        return draw.choice((*near, *far))
    if isinstance(old, str):
        return draw.choice((word(draw), f"{old}{word(draw)}", f"{word(draw)}{old}", old * 50, old.upper()))
    return value(draw)


def misspelt(draw: Random, key: str) -> str:
    """A key that is not the one it was."""
    at = draw.randrange(len(key) + 1)
    ways = (key[:at] + key[at + 1 :], key[:at] + word(draw) + key[at:], key.upper(), key * 100, word(draw), text(draw))
    return draw.choice(ways)


def damaged(draw: Random, content: bytes) -> bytes:
    """Bytes with some of them changed, gone, or of somewhere else."""
    if not content:
        return draw.randbytes(draw.randrange(100))
    at, end = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    kind = draw.randrange(8)
    if kind == 0:
        return content[:at]
    if kind == 1:
        return content[:at] + draw.randbytes(min(end - at, 64)) + content[end:]
    if kind == 2:
        return content[:at] + content[end:]
    if kind == 3:
        return content[:end] + content[at:]
    if kind == 4:
        return content + draw.randbytes(draw.choice((1, 8, 1000)))
    if kind == 5:
        return content[:at] + bytes(min(end - at, 64)) + content[at + min(end - at, 64) :]
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 4, 50))):
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def writable(tree: Any) -> Any:
    """A tree without numbers of more digits than Python writes down."""
    if isinstance(tree, dict):
        return {key: writable(each) for key, each in tree.items()}
    if isinstance(tree, list):
        return [writable(each) for each in tree]
    return 10**300 if isinstance(tree, int) and abs(tree) >= 10**4000 else tree
