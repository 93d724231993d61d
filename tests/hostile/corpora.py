"""Corpora: files and archives that are empty, uneven, damaged, endless, or far larger than they look."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from random import Random

from hostile import archives, nodes, values
from hostile.judge import right
from hostile.trial import Trial
from hostile.world import FIELDS, PAIRS
from zoo.data.prepare import PreparedCorpus

_MEGABYTE = 1 << 20
_PLAIN = tuple("".join(f"{pair[side]}\n" for pair in PAIRS * 3).encode() for side in (0, 1))


def run(draw: Random, trial: Trial) -> None:
    """Makes one and prepares it; what is prepared must open, and count what was there."""
    trial.world.write_corpus(trial.folder)
    kind = draw.choices((_lines, _packed, _marked, _stood_in, _archive), (6, 3, 3, 2, 5))[0]
    trial.tell(kind.__name__)
    part = kind(draw, trial)
    split = draw.choice(("train", "train", "dev", "test"))
    counted = part.pop("lines", None)
    own = {**FIELDS, "corpus": {**FIELDS["corpus"], split: [part]}, "vocabulary": {"size": draw.choice((101, 40, 300))}}
    (trial.folder / "own.yaml").write_text(json.dumps({"extends": "tiny", **own}))
    trial.tell(f"{split}: {part}")
    done = trial.zoo("prepare", "own.yaml")
    if done.status == 0:
        (folder,) = (each for each in (trial.home / "prepared").iterdir() if (each / "manifest.json").is_file())
        prepared = PreparedCorpus(folder)
        prepared.verify()
        read = prepared.counts.read if split == "train" else len(prepared.texts(split)[0]) if split != "test" else None
        right(None in (read, counted) or read == counted, f"{read} lines are read of {counted}")


def _lines(draw: Random, trial: Trial) -> dict[str, object]:
    """Two files of lines."""
    contents = [_content(draw, side) for side in (0, 1)]
    if draw.random() < 0.6:
        contents[draw.randrange(2)] = _PLAIN[draw.randrange(2)]
    return _written(trial, contents, ("odd.en", "odd.de"))


def _content(draw: Random, side: int) -> bytes:
    """A file's, of lines that are odd in one way."""
    good = _PLAIN[side]
    at = draw.randrange(len(good))
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: b"",
        lambda: b"\n" * draw.choice((1, 12, 100_000)),
        lambda: b" \t\n" * 12,
        lambda: good.replace(b"\n", b"\r\n"),
        lambda: good.replace(b"\n", b"\r"),
        lambda: b"\xef\xbb\xbf" + good,
        lambda: good.decode().encode(draw.choice(("utf-16", "latin-1", "utf-8-sig", "utf-32"))),
        lambda: (
            good[:at] + draw.choice((b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80")) + good[at:]
        ),
        lambda: good[:at] + values.text(draw, 30).encode("utf-8", "surrogatepass") + good[at:],
        lambda: good.rstrip(b"\n"),
        lambda: good[:at],
        lambda: good + b"x" * draw.choice((10_000, _MEGABYTE)) + b"\n",
        lambda: good + b"word " * draw.choice((10_000, 200_000)),
        lambda: values.damaged(draw, good),
        lambda: "".join(chr(number) + "\n" for number in range(0x4E00, 0x4E00 + 12)).encode(),
        lambda: b"a\n" * 12,
        lambda: b"\xe2\x80\xa8\x0b\x0c\x1c\xc2\x85\n" * 12,
    )
    if draw.random() < 0.02:
        return good[:at] + b"x" * (50 * _MEGABYTE) + good[at:]
    return draw.choice(ways)()


def _written(trial: Trial, contents: list[bytes], names: tuple[str, str]) -> dict[str, object]:
    for name, content in zip(names, contents, strict=True):
        (trial.folder / name).write_bytes(content)
        trial.tell(f"{name}: {len(content):,} bytes, {content[:60]!r}")
    lines = {content.count(b"\n") + (not content.endswith(b"\n")) for content in contents}
    return {"source": names[0], "target": names[1], "lines": lines.pop() if len(lines) == 1 else None}


def _packed(draw: Random, trial: Trial) -> dict[str, object]:
    """One of the files in gzip, more or less."""
    good = gzip.compress(_PLAIN[0])
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: good,
        lambda: good + good,
        lambda: b"",
        lambda: _PLAIN[0],
        lambda: good + b"rubbish",
        lambda: good + bytes(1000),
        lambda: values.damaged(draw, good),
        lambda: values.damaged(draw, good),
        lambda: gzip.compress(good),
        lambda: good[:-8] + bytes(8),
        lambda: archives.zeros() * archives.COUNT,
    )
    at = draw.choice((*range(len(ways)), len(ways) - 1)) if draw.random() < 0.2 else draw.randrange(len(ways) - 1)
    trial.tell(f"way {at}")
    part = _written(trial, [ways[at](), _PLAIN[1]], ("odd.en.gz", "odd.de"))
    return {**part, "lines": len(PAIRS) * 3 if at == 0 else None}


def _marked(draw: Random, trial: Trial) -> dict[str, object]:
    """SGML as WMT has it, and as it has not."""
    count = draw.choice((12, 12, 12, 30_000, 150_000))
    segments = [f'<seg id="{n}">{PAIRS[n % len(PAIRS)][0]}</seg>\n' for n in range(12)]
    ways: tuple[Callable[[], str], ...] = (
        lambda: "".join(segments),
        lambda: "<seg>" * count,
        lambda: "<seg " * count,
        lambda: "<seg id=1>a</seg" * count,
        lambda: "<seg>a" * count + "</seg>",
        lambda: "</seg>" * count,
        lambda: "".join(segments).replace("</seg>", ""),
        lambda: "".join(segments).replace(
            "the", draw.choice(("&#0;", "&#xD800;", "&#99999999999;", "&lt;/seg&gt;", "&#10;"))
        ),
        lambda: f"<!DOCTYPE x [<!ENTITY a '{'x' * 100}'>]>" + "".join(segments).replace("the", "&a;" * 100),
        lambda: values.damaged(draw, "".join(segments).encode()).decode("utf-8", "replace"),
        lambda: "".join(segments).replace("\n", "\r").upper(),
        lambda: "<seg>" + "\n" * count + "</seg>",
    )
    at = draw.randrange(len(ways))
    trial.tell(f"way {at}, {count:,} times")
    part = _written(trial, [ways[at]().encode(), _PLAIN[1]], (draw.choice(("odd.sgm", "odd.SGML")), "odd.de"))
    return {**part, "lines": 12 if at == 0 else None}


def _stood_in(draw: Random, trial: Trial) -> dict[str, object]:
    """No file at all, or one that leads elsewhere."""
    (trial.folder / "odd.en").write_bytes(_PLAIN[0])
    (trial.folder / "odd.de").write_bytes(_PLAIN[1])
    trial.tell(nodes.put(draw, trial.folder / draw.choice(("odd.en", "odd.de"))))
    name = draw.choice(("odd.en", "odd.en", "odd.en", values.word(draw) or "x"))
    return {"source": name, "target": "odd.de"}


def _archive(draw: Random, trial: Trial) -> dict[str, object]:
    """An archive with members that lie, and part of a corpus that names them oddly."""
    make = draw.choices((archives.tar, archives.zipped, archives.bomb), (5, 5, 1))[0]
    file = trial.folder / f"odd.{draw.choice(('tgz', 'zip', 'tar'))}"
    content = make(draw, *_PLAIN)
    file.write_bytes(values.damaged(draw, content) if draw.random() < 0.4 and make is not archives.bomb else content)
    trial.tell(f"{make.__name__}: {file.stat().st_size:,} bytes")
    names = ["a/x.en", "a/x.de"]
    if draw.random() < 0.3:
        odd = ("a/x.en", "../x.en", "/x.en", "a", "a/link", "a/hard", "./a/x.en", "a//x.en", "a/./x.en", "A/X.EN")
        names[draw.randrange(2)] = draw.choice((*odd, values.word(draw) or "x"))
    address = draw.choice((file.as_uri(),) * 8 + (f"{file.as_uri()}%00", "http://[::1", "file://", values.word(draw)))
    return {
        "archive": address,
        "sha256": draw.choice((None, None, None, "0" * 64)),
        "source": names[0],
        "target": names[1],
    }
