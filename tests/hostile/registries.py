"""Registries, in a folder and behind a web server, whose files lie, lead elsewhere, or have no end."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

from hostile import hearing, judge, nodes, tricks, values
from hostile.judge import right
from hostile.server import Trick, served
from hostile.trial import Trial
from hostile.world import GOOD, OTHER
from zoo.files import transfer

_NESTED = ("[" * 100_000, '{"a":' * 100_000, '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}")
_PATIENCE = 300
"""Seconds that may be waited for a server, over all."""
Way = Callable[[Random, Path, Trial], bool]
"""Damages a registry; says whether a pull of GOOD must be refused."""


def run(draw: Random, trial: Trial) -> None:
    """Makes one: what is pulled is what was published, or nothing is; what stood on the shelf stays."""
    place = trial.folder / "registry"
    shutil.copytree(trial.world.registry, place)
    secret = trial.folder / "secret"
    secret.write_text("nobody's business\n")
    on_web, trick, refused = draw.random() < 0.5, tricks.plain, False
    if on_web and draw.random() < 0.6:
        trick, refused = tricks.drawn(draw, trial)
    else:
        way = draw.choice(_WAYS)
        trial.tell(way.__name__)
        refused = way(draw, place, trial)
    standing = trial.shelve(OTHER) if draw.random() < 0.3 else None
    before = _files(place)
    hearing.begin()
    with _asked(trial, place, trick, on_web):
        _pulled(draw, trial, refused)
        if draw.random() < 0.3:
            trial.zoo("list", "--published", *(["--json"] if draw.random() < 0.3 else []))
    right(not hearing.was_opened(secret), "it was led to what is not its own")
    right(_files(place) == before, "who reads a registry has changed it")
    if standing is not None:
        right(_files(standing) == _files(trial.world.shelf / OTHER), "what stood on the shelf is another")
    if not on_web and draw.random() < 0.3:
        _published(trial, place)


@contextmanager
def _asked(trial: Trial, place: Path, trick: Trick, on_web: bool) -> Iterator[None]:
    """The registry among those of ZOO_REGISTRIES; nobody sleeps, and for how long they would is counted."""
    waits: list[float] = []
    clock, transfer.time = transfer.time, SimpleNamespace(sleep=waits.append)  # type: ignore[assignment]
    os.environ |= {"ZOO_REGISTRIES": str(place), "no_proxy": "*"}
    try:
        if not on_web:
            yield
            return
        os.environ.pop("ZOO_OFFLINE")
        with served(place, trick) as address:
            os.environ["ZOO_REGISTRIES"] = address
            yield
    finally:
        transfer.time = clock
        os.environ |= {"ZOO_OFFLINE": "1"}
    right(sum(waits) < _PATIENCE, f"it waits {sum(waits):.0f} s")


def _pulled(draw: Random, trial: Trial, refused: bool) -> None:
    pin = draw.choice(("", "", "", "@1", "@2", "@3", f"@sha256:{_digest(trial)}"))
    done = trial.zoo("pull", f"{GOOD}{pin}")
    judge.printable(done.out)
    right(done.status != 0 or pin or not refused, f"it is pulled: {done.out}")
    shelf = trial.home / "models"
    found = {path.name for path in shelf.iterdir()} if shelf.exists() else set()
    of_good = {name for name in found if name != OTHER}
    right(len(of_good) <= (done.status == 0), f"status {done.status}, and on the shelf is {found}")
    for name in of_good:
        right(trial.zoo("verify", str(shelf / name)).status == 0, "it is pulled, and is no model")


def _digest(trial: Trial) -> str:
    return hashlib.sha256((trial.world.shelf / GOOD / "manifest.json").read_bytes()).hexdigest()


def _files(place: Path) -> dict[str, bytes | None]:
    """What each file holds; None for what is none."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 24
        else None
        for path in sorted(place.rglob("*"))
        if path.name != "origin.json"
    }


def _published(trial: Trial, place: Path) -> None:
    """One more revision: those that are there stay as they are."""
    before = {name: content for name, content in _files(place).items() if name.startswith(("models/", "blobs/"))}
    shutil.copytree(trial.world.shelf / GOOD, trial.folder / "mine")
    os.environ["ZOO_REGISTRIES"] = ""
    trial.zoo("publish", "./mine", "--to", str(place))
    after = _files(place)
    changed = {name for name, content in before.items() if content is not None and after.get(name) != content}
    lost = {name for name in changed if name.startswith("models/")}
    right(not lost, f"revisions are changed: {lost}")


def _json(draw: Random, file: Path, trial: Trial) -> None:
    tree: Any = json.loads(file.read_text())
    if draw.random() < 0.7:
        for _ in range(draw.choice((1, 1, 2))):
            trial.tell(values.bitten(draw, tree) if values.places(tree) else "nothing is left")
        text = json.dumps(values.writable(tree))
    else:
        whole = file.read_text()
        some = (*_NESTED, "", "null", "[]", "1", "NaN", f"{whole}{whole}", whole + " " * 1_500_000, f"\ufeff{whole}")
        text = draw.choice((*some, whole.replace('"bytes": ', '"bytes": 1e999, "x": '), whole[: len(whole) // 2]))
    file.write_bytes(text.encode(draw.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "surrogatepass"))


def _index(draw: Random, place: Path, trial: Trial) -> bool:
    """`index.json`, which is never the truth."""
    _json(draw, place / "index.json", trial)
    return False


def _revision(draw: Random, place: Path, trial: Trial) -> bool:
    file = place / "models" / GOOD / draw.choice(("1.json", "2.json", "2.json"))
    before = file.read_bytes()
    if draw.random() < 0.3:
        file.write_bytes(values.damaged(draw, before))
    else:
        _json(draw, file, trial)
    return False


def _numbers(draw: Random, place: Path, trial: Trial) -> bool:
    """Numbers and names of revisions that are another's, or nobody's."""
    file = place / "models" / GOOD / "2.json"
    made = json.loads(file.read_text())
    what = draw.randrange(5)
    key = draw.choice(("revision", "name", "digest", "format"))
    if what == 0:
        made[key] = values.value(draw)
    elif what == 1:
        made["name"] = draw.choice(("../x", OTHER, "/etc/x", "..", "", "a/b", "x" * 1000, "\x1b[2J", "good\n"))
    elif what == 2:
        made["revision"] = draw.choice((1, 3, 0, -1, 10**9, 10**30, 1e300, "2", True, 2.5))
    elif what == 3:
        made["digest"] = draw.choice(("0" * 64, "", "g" * 64, "A" * 64, "../../x", made["digest"][:-1], 5))
    else:
        shutil.copyfile(file, file.with_name(draw.choice(("3.json", "999999999.json", "01.json", "-1.json", "٣.json"))))
        return False
    trial.tell(f"{made['name']!r}, {made['revision']!r}, {made['digest']!r}")
    changed = made != json.loads(file.read_text())
    file.write_text(json.dumps(made))
    return changed


def _names(draw: Random, place: Path, trial: Trial) -> bool:
    """Files of a revision whose names lead out of the folder, or that are said to be other than they are."""
    file = place / "models" / GOOD / "2.json"
    made = json.loads(file.read_text())
    files = made["files"]
    name = draw.choice([each for each in sorted(files) if each != "manifest.json"])
    what = draw.randrange(5)
    if what == 0:
        out = (
            "../x",
            "../../../../pwned.txt",
            "/etc/x.y",
            "a/b.c",
            "..",
            ".x",
            "x",
            "",
            "a\0.b",
            "\x1b[2J.x",
            "x.y" * 10_000,
        )
        files[draw.choice((*out, "weights.safetensors.partial", "new.txt", "origin.json"))] = files[name]
    elif what == 1:
        files[name]["bytes"] = draw.choice(
            (-1, 0, files[name]["bytes"] + 1, 10**14, 10**15, 10**30, 1.5, None, "5", True)
        )
    elif what == 2:
        files[name]["sha256"] = draw.choice(("0" * 64, "", "../../x", files[name]["sha256"].upper() + "\n", 5))
    elif what == 3:
        del files[name]
    else:
        other = draw.choice([each for each in sorted(files) if each != name])
        files[name], files[other] = files[other], files[name]
    trial.tell(f"{what}: {name}, {sorted(files)!r:.300}")
    file.write_text(json.dumps(made))
    return True


def _forwards(draw: Random, place: Path, trial: Trial) -> bool:
    """Old names in circles and in chains, that lead out, that lead to nobody."""
    to = draw.choice((GOOD, "one", "../x", "/etc", "", "x" * 5000, 5, None, ["good"], "\x1b[2J", "nobody", "a\nb"))
    chain = [GOOD, *(f"n{number}" for number in range(draw.choice((1, 5, 30))))]
    for old, new in [*itertools.pairwise(chain), (chain[-1], to)]:
        folder = place / "models" / old
        folder.mkdir(exist_ok=True)
        (folder / "forward.json").write_text(json.dumps({"to": new}))
    if draw.random() < 0.3:
        (place / "models" / GOOD / "forward.json").write_text(
            draw.choice((*_NESTED, "", "{}", '{"to": NaN}', "x" * 10**6))
        )
    return True


def _blob(draw: Random, place: Path, trial: Trial) -> bool:
    """A blob that is cut short, longer, of other bytes, or no file."""
    files = json.loads((place / "models" / GOOD / "2.json").read_text())["files"]
    name = draw.choice(sorted(files))
    blob = place / "blobs" / "sha256" / files[name]["sha256"]
    content = blob.read_bytes()
    what = draw.randrange(6)
    if what == 0:
        blob.unlink()
    elif what == 1:
        blob.write_bytes(content[: draw.randrange(len(content))])
    elif what == 2:
        blob.write_bytes(content + draw.choice((b"x", content, bytes(1 << 22))))
    elif what == 3:
        at = draw.randrange(len(content))
        blob.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif what == 4:
        trial.tell(nodes.put(draw, blob))
        os.truncate(blob, len(content) + 1) if blob.is_file() and not blob.is_symlink() else None
    else:
        blob.write_bytes(draw.randbytes(len(content)))
    trial.tell(f"{name}: {what}")
    # Of what is longer the beginning is enough, and its hash is right.
    return what in (0, 1, 3, 5)


def _stood_in(draw: Random, place: Path, trial: Trial) -> bool:
    """Something else in place of a file or a folder."""
    path = draw.choice(
        (
            *(place / "models" / GOOD / "1.json", place / "models" / GOOD / "2.json", place / "models" / GOOD),
            *(
                place / "index.json",
                place / "registry.json",
                place / "models" / GOOD / "forward.json",
                place / "models",
            ),
        )
    )
    trial.tell(nodes.put(draw, path))
    return False


def _linked(draw: Random, place: Path, trial: Trial) -> bool:
    """Links to what is not the registry's."""
    path = draw.choice((place / "models" / GOOD / "2.json", *sorted((place / "blobs" / "sha256").iterdir())))
    path.unlink()
    path.symlink_to(draw.choice(("/etc/passwd", "/dev/zero", "/proc/self/environ", "/proc/self/mem")))
    return False


_WAYS: tuple[Way, ...] = (
    *(_index, _revision, _revision, _numbers, _numbers, _names, _names, _forwards, _blob, _blob, _stood_in, _linked),
)
