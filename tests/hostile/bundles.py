"""Bundles: published models that were cut, flipped, mixed, emptied, or whose manifest was made anew by somebody."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

import zoo
from hostile import forgeries, nodes, values
from hostile.shelf import MANIFEST, checked, listed, opened, same
from hostile.trial import Trial
from hostile.world import GOOD, LINES, OTHER
from zoo.files import manifest

WEIGHTS = "weights.safetensors"


def run(draw: Random, trial: Trial) -> None:
    """Damages one; then it must translate exactly as before or be refused, and `zoo verify` must see it."""
    kinds = (_bytes, _mixed, _stood_in, _of_manifest, forgeries.proof, forgeries.words, _verified, _of_run)
    kind = draw.choices(kinds, (5, 4, 3, 5, 4, 3, 2, 2))[0]
    trial.tell(kind.__name__)
    kind(draw, trial)


def _bytes(draw: Random, trial: Trial) -> None:
    """A file or two cut, flipped, gone."""
    bundle = trial.shelve(GOOD)
    for file in draw.sample(sorted(bundle.iterdir()), draw.choice((1, 1, 2))):
        content = values.damaged(draw, file.read_bytes())
        file.unlink()
        if draw.random() < 0.9:
            file.write_bytes(content)
        trial.tell(f"{file.name}: {len(content)} bytes")
    opened(trial)
    checked(draw, trial)


def _mixed(draw: Random, trial: Trial) -> None:
    """Files of another model of the same spec; weights that no longer say whose they are."""
    bundle = trial.shelve(GOOD, OTHER)
    names = (WEIGHTS, "vocabulary.model", "proof.safetensors", MANIFEST, "spec.yaml", "scores.json", "README.md")
    for name in draw.sample(names, draw.choice((0, 1, 1, 2, 2, 3))):
        shutil.copyfile(bundle.with_name(OTHER) / name, bundle / name)
        trial.tell(f"{name} of another")
    if draw.random() < 0.6:
        header = _rewritten(bundle / WEIGHTS, lambda header: _reheaded(draw, header))
        trial.tell(f"header {header!r:.300}")
    opened(trial)
    checked(draw, trial)


def _reheaded(draw: Random, header: dict[str, Any]) -> None:
    metadata = header.pop("__metadata__")
    what = draw.randrange(4)
    if what == 1:
        facts = json.loads(metadata["zoo"])
        values.bitten(draw, facts)
        header["__metadata__"] = {"zoo": json.dumps(facts)}
    elif what == 2:
        header["__metadata__"] = {
            "zoo": draw.choice(("{}", "[]", "[" * 100_000, "1", '{"sha256": null}', '{"a": NaN}'))
        }
    elif what == 3:
        values.bitten(draw, header)


def _rewritten(file: Path, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """A safetensors file with another header."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:end])
    change(header)
    written = json.dumps(header).encode()
    file.write_bytes(len(written).to_bytes(8, "little") + written + content[end:])
    return header


def _stood_in(draw: Random, trial: Trial) -> None:
    """Something that is no file in place of one."""
    bundle = trial.shelve(GOOD)
    trial.tell(nodes.put(draw, draw.choice((*sorted(bundle.iterdir()), bundle))))
    opened(trial)
    checked(draw, trial, often=0.5)


def _of_manifest(draw: Random, trial: Trial) -> None:
    """Entries that lead elsewhere, or are of no sense."""
    bundle = trial.shelve(GOOD)
    secret = trial.folder / "secret"
    secret.write_text("nobody's business\n")
    entries = json.loads((bundle / MANIFEST).read_text())
    entry = {"bytes": 18, "sha256": manifest.sha256(secret)}
    entry = draw.choice((entry, entry, values.value(draw), {**entry, "bytes": values.value(draw)}))
    name = draw.choice(
        (str(secret), "../../../secret", "/dev/zero", "/etc/passwd", ".", "..", "", "a/../../../../secret")
    )
    name = draw.choice((name, name, values.word(draw)))
    what = draw.randrange(6)
    if what < 3:
        entries[name] = entry
    elif what == 3:
        trial.tell(values.bitten(draw, entries))
    elif what == 4:
        entries = values.nested(draw, draw.choice((10, 900, 5_000)))
    else:
        entries = values.value(draw)
    text = _json(entries)
    if draw.random() < 0.2:
        text = draw.choice(("[" * 200_000, '{"a":' * 50_000, "{}", "", "null", text.replace("{", '{"x": Infinity, ')))
    (bundle / MANIFEST).write_text(text, encoding="utf-8", errors="surrogatepass")
    trial.tell(f"{name!r}: {entry!r:.200}; {text[:100]!r}")
    opened(trial)
    checked(draw, trial, often=0.2)


def _json(tree: Any) -> str:
    """As deep as it may be."""
    if _deep(tree) < 500:
        return json.dumps(tree)
    return "[" * 100_000 + "]" * 100_000


def _deep(tree: Any) -> int:
    deep = 0
    while isinstance(tree, dict | list) and tree:
        tree, deep = next(iter(tree.values() if isinstance(tree, dict) else tree)), deep + 1
    return deep


def _verified(draw: Random, trial: Trial) -> None:
    """A cache of hashes that is wrong: the model is as good as before."""
    shelf = trial.home / "models"
    shelf.mkdir(parents=True)
    (shelf / GOOD).symlink_to(trial.world.shelf / GOOD)
    same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2), trial)
    for file in sorted((trial.home / "verified").glob("*")):
        text = file.read_text()
        what = draw.randrange(5)
        if what == 0:
            file.write_text("".join(draw.choice("0123456789abcdef") if sign in "abcdef" else sign for sign in text))
        elif what == 1:
            file.write_bytes(values.damaged(draw, file.read_bytes()))
        elif what == 2:
            tree = json.loads(text)
            values.bitten(draw, tree)
            file.write_text(_json(tree))
        elif what == 3:
            trial.tell(nodes.put(draw, file))
        else:
            file.write_text(draw.choice(("[" * 100_000, "", "[]", "null", '{"file": 1}', '{"digest": Infinity}')))
        trial.tell(f"{what}: {text!r}")
    same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2), trial)


def _of_run(draw: Random, trial: Trial) -> None:
    """A run under runs/ that must not hide the others."""
    run = trial.folder / "runs" / "bad"
    shutil.copytree(trial.world.run, run)
    tree = yaml.safe_load((run / "spec.yaml").read_text())
    trial.tell(values.bitten(draw, tree))
    content = yaml.dump(values.writable(tree)).encode("utf-8", "surrogatepass")
    (run / "spec.yaml").write_bytes(values.damaged(draw, content) if draw.random() < 0.2 else content)
    if draw.random() < 0.2:
        trial.tell(nodes.put(draw, draw.choice(sorted(run.iterdir()))))
    trial.shelve(GOOD)
    listed(draw, trial)
    if draw.random() < 0.5:
        trial.zoo("decode", "--model", draw.choice(("bad", "runs/bad")), stdin=b"the old dog\n")
    else:
        trial.zoo("decode", "--spec", "tiny", stdin=b"the old dog\n")
