"""Lines: what a person pastes, a page holds, and a program sends by mistake; translated, scored, begun, decoded."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable
from functools import partial
from random import Random

from hostile import values
from hostile.judge import right
from hostile.trial import Trial
from hostile.world import GOOD, LINES, PAIRS
from specs import ZooError

_SCRIPTS = "abcäöüßАБΩλ漢字かな한글עבריתعربيहिन्दीไทย🏳️‍🌈👨‍👩‍👧‍👦🇩🇪ﬁ²½Ⅳ①ǆ"
_BREAKS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"


def run(draw: Random, trial: Trial) -> None:
    """Draws some, and asks for one thing of them."""
    texts = [line(draw) for _ in range(draw.randrange(1, 5))]
    kind = draw.choices((_translated, _begun, _scored, _sampled, _decoded, _piped), (6, 4, 4, 2, 2, 4))[0]
    trial.tell(f"{kind.__name__}: {[each[:80] for each in texts]!a}")
    kind(draw, trial, texts)


def line(draw: Random) -> str:
    """One, perhaps empty, perhaps long."""
    ways: tuple[Callable[[], str], ...] = (
        lambda: "",
        lambda: " " * draw.choice((1, 1000)),
        lambda: draw.choice(LINES),
        lambda: draw.choice(LINES).replace(" ", draw.choice(_BREAKS + "\x00\x07\x1b\t\u00a0\u3000")),
        lambda: values.text(draw, 60).replace("\n", ""),
        lambda: values.text(draw, 60, letters=_SCRIPTS),
        lambda: "".join(chr(draw.randrange(0x20, 0xD800)) for _ in range(draw.randrange(40))),
        lambda: "".join(chr(draw.randrange(0xE000, 0x110000)) for _ in range(draw.randrange(40))),
        lambda: "a" + "\u0301" * draw.choice((1, 50, 3000)),
        lambda: "\u202e" + draw.choice(LINES) + "\u2066\u2069",
        lambda: draw.choice(("<unk>", "<s>", "</s>", "<pad>", "▁", "▁▁ ▁", "⁇", "<0x0A>")) * draw.choice((1, 5)),
        lambda: draw.choice(("word ", "a", "日", "1", ".", "🏳️‍🌈")) * draw.choice((50, 500)),
        lambda: "a\nb" if draw.random() < 0.5 else "\n",
        lambda: draw.choice(("\ud800", "x\udcff", "\udfff\ud800")),
    )
    if draw.random() < 0.01:
        return draw.choice(("the old dog ", "x", "Ω")) * draw.choice((10_000, 100_000, 1_000_000))
    return draw.choice(ways)()


def _translated(draw: Random, trial: Trial, texts: list[str]) -> None:
    found = trial.answer(lambda: trial.world.translator.translate(texts))
    if isinstance(found, ZooError):
        return
    right(len(found) == len(texts), f"{len(found)} translations")
    for text, translation in zip(texts, found, strict=True):
        right("\n" not in translation, f"a line break in a translation: {translation!r}")
        right(text.strip() or not translation, f"nothing becomes {translation!r}")
    at = draw.randrange(len(texts))
    alone = trial.answer(lambda: trial.world.translator.translate(texts[at]))
    right(alone == found[at], f"alone it is {alone!r}, among others {found[at]!r}")


def _begun(draw: Random, trial: Trial, texts: list[str]) -> None:
    prefixes = [draw.choice((line(draw)[:60], draw.choice(PAIRS)[1][: draw.randrange(20)])) for _ in texts]
    trial.tell(f"prefixes {prefixes!a}")
    found = trial.answer(lambda: trial.world.translator.translate(texts, prefixes=prefixes))
    if isinstance(found, ZooError):
        return
    for text, prefix, translation in zip(texts, prefixes, found, strict=True):
        same = _folded(translation).startswith(_folded(prefix))
        right(not text.strip() or same, f"it starts with {translation[:80]!r}, not with {prefix!r}")


def _folded(text: str) -> str:
    """As far as a vocabulary may write it otherwise: NFKC, and white space and control characters as one space."""
    signs = (" " if unicodedata.category(sign) in ("Cc", "Zl", "Zp", "Zs") else sign for sign in text)
    return " ".join(unicodedata.normalize("NFKC", "".join(signs)).split())


def _scored(draw: Random, trial: Trial, texts: list[str]) -> None:
    targets = [line(draw) for _ in texts]
    trial.tell(f"targets {[each[:80] for each in targets]!a}")
    found = trial.answer(lambda: trial.world.translator.score(texts, targets))
    if not isinstance(found, ZooError):
        right(len(found) == len(texts), f"{len(found)} scores")
        right(all(math.isfinite(score) and score <= 0 for score in found), f"no log-probabilities: {found}")


def _sampled(draw: Random, trial: Trial, texts: list[str]) -> None:
    choice = {"temperature": draw.choice((1e-30, 0.5, 1.0, 1e30)), "top_p": draw.choice((1e-30, 0.5, 1.0))}
    choice |= {"top_k": draw.choice((0, 1, 5, 101, 10**9)), "seed": draw.choice((0, 2**31, 2**63 - 1, 2**64))}
    count = draw.choice((1, 3))
    trial.tell(choice)
    translator = trial.world.translator
    found = trial.answer(lambda: translator.translate(texts, n_best=count, search="sample", **choice))
    if not isinstance(found, ZooError):
        again = trial.answer(lambda: translator.translate(texts, n_best=count, search="sample", **choice))
        right(found == again, f"the same seed draws {again!r:.200} after {found!r:.200}")
        right(all(len(each) == count or each == [""] for each in found), f"not {count}: {found!r:.200}")


def _decoded(draw: Random, trial: Trial, texts: list[str]) -> None:
    """By the vocabulary: any tokens are some text, and a text's tokens are tokens."""
    vocabulary = trial.world.translator.vocabulary
    for text in (text.encode("utf-8", "replace").decode() for text in texts):  # half a character is no text
        found = trial.answer(partial(vocabulary.encode, text))
        right(
            isinstance(found, ZooError) or all(0 <= token < vocabulary.sizes[0] for token in found),
            f"no such tokens: {found}",
        )
    tokens = draw.choices(range(vocabulary.sizes[0]), k=draw.choice((0, 1, 20, 2000)))
    right(isinstance(vocabulary.decode(tokens), str), "no text")


def _piped(draw: Random, trial: Trial, texts: list[str]) -> None:
    """Through the command line, as bytes."""
    content = "\n".join(texts).encode("utf-8", "surrogatepass") + draw.choice((b"", b"\n", b"\r\n", b"\xff\n", b"\x00"))
    trial.shelve(GOOD)
    if draw.random() < 0.3:
        pairs = b"".join(
            each + draw.choice((b"\t", b"\t", b"\t", b"", b"\t\t")) + b"der\n" for each in content.split(b"\n")
        )
        done = trial.zoo("score", "--model", GOOD, stdin=pairs)
        right(done.status or len(done.out.split("\n")) - 1 == pairs.count(b"\n"), f"lines: {done.out!r}")
        return
    ways = ((), (), ("--n-best", "2"), ("--json",), ("--search", "sample", "--seed", "1"), ("--beam", "1"))
    way = draw.choice(ways)
    done = trial.zoo("decode", "--model", GOOD, *way, stdin=content)
    wanted = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    said = done.out.split("\n")[:-1]
    right(done.status or len(said) == wanted * (2 if "--n-best" in way else 1) or "--n-best" in way, f"lines: {said}")
