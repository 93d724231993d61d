"""Intruders: bundles that somebody made to be opened elsewhere. Their hashes are right where they may be, and none is
accepted: headers that promise too much, YAML and JSON without bounds, names and links that lead out of their folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import zoo
from hostile import headers, hearing, nodes
from hostile.judge import right
from hostile.shelf import MANIFEST
from hostile.trial import Trial
from hostile.world import GOOD
from specs import ZooError
from zoo.files import manifest

Way = Callable[[Random, Path, Trial], bool]
"""Damages a bundle; says whether its manifest is to be made anew, so that only what is in the files can tell."""
_SECRET = "secret"


def run(draw: Random, trial: Trial) -> None:
    """Makes one; `zoo verify` must refuse it, and touch nothing outside of its folder."""
    bundle = trial.shelve(GOOD)
    secret = trial.folder / _SECRET
    secret.write_text("nobody's business\n")
    right(trial.zoo("list").status == 0, "the good one is not listed")
    way = draw.choices(list(WAYS), list(WAYS.values()))[0]
    trial.tell(way.__name__)
    if way(draw, bundle, trial):
        manifest.write(bundle)
    before = _entries(trial.folder)
    hearing.begin()
    done = trial.zoo("verify", GOOD)
    right(done.status in (1, 2), f"it is accepted: {done.out}")
    # Opening looks at the files that it reads, and at no other.
    found = trial.answer(lambda: zoo.load(GOOD, device="cpu"))
    right(isinstance(found, ZooError) or way is not _yaml, "it is loaded")
    right(not hearing.was_opened(secret), "it was led to what is not its own")
    right(_entries(trial.folder) == before, f"it left something behind: {_entries(trial.folder) ^ before}")


def _entries(folder: Path) -> set[str]:
    """What stands in the case's folder and in the shelf; the rest of the home is ours."""
    return {path.name for path in (*folder.iterdir(), *(folder / "home" / "models").iterdir())}


def _yaml(draw: Random, bundle: Path, trial: Trial) -> bool:
    """Without bounds, with tags, in two documents, of another name."""
    file = bundle / "spec.yaml"
    text = file.read_text(encoding="utf-8")
    deep = draw.choice((200, 5_000, 100_000))
    laughs = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(30))
    steps = "0" * draw.choice((10, 5_000))
    made = draw.choice(
        (
            f"{laughs}{text}",
            text.replace("description:", f"description: {'[' * deep}{']' * deep} #"),
            text.replace("description:", f"description: {'{a: ' * deep}{'}' * deep} #"),
            text.replace("training:\n", f"training:\n  steps: 1{steps}\n", 1),
            text.replace("name:", "name: &x [*x] #"),
            text.replace(
                "name: good", f"name: {draw.choice(('../x', '/etc/x', '..', 'a/b', 'a..b', '.x', '~', '[]'))}"
            ),
            text.replace("description:", "description: !!python/object/apply:os.mkdir [pwned] #"),
            text.replace(
                "description:", f"description: {draw.choice(('!!binary AAAA', '!x y', '*nobody', '!!set {a}'))} #"
            ),
            f"extends: {draw.choice(('/etc/passwd', '../../../secret', 'base'))}\n{text}",
            f"{text}---\n{text}",
            f"{text}name: {GOOD}\n",
            f"{text}<<: {{name: x}}\n",
            f"{text}unheard: of\n",
            f"# {'x' * 2_000_000}\n{text}",
            text.replace("d_model: 16", f"d_model: {draw.choice((10**9, -16, 32, 0))}"),
            text.replace("size: 101", f"size: {draw.choice((10**8, 102, -1))}"),
            text.replace("\n", "\x00\n", 1),
        )
    )
    right(made != text, "nothing was changed")
    at = next((at for at, (one, other) in enumerate(zip(made, text, strict=False)) if one != other), len(text))
    trial.tell(f"{len(made)} characters, {made[max(0, at - 40) : at + 200]!r}")
    file.write_bytes(made.encode(draw.choice(("utf-8", "utf-8", "utf-8", "utf-16"))))
    return True


def _json(draw: Random, bundle: Path, trial: Trial) -> bool:
    """Facts and a sample that say what cannot be, or too much."""
    deep = draw.choice((2_000, 200_000))
    nested = "[" * deep + "]" * deep
    name = draw.choice(("facts.json", "sample.json"))
    line = ["a"] * draw.choice((1, 3))
    sample = {"set": "test", "sentences": 3, "sources": line, "references": line, "outputs": line, "metric": "bleu"}
    sample |= {"score": 100.0, "signature": "x"}
    wrong: dict[str, tuple[Any, ...]] = {
        "facts.json": ({"spec": 1}, {"training": {"seed": 10**30}}, {"notes": ["x" * 10**6]}, {"text": []}, [1], None),
        "sample.json": (
            *({**sample, "outputs": [*line, "b"]}, {**sample, "sources": []}, {**sample, "sentences": -1}, {}, [1]),
            *({**sample, "score": 10**400}, {**sample, "metric": "../x"}, {**sample, "sources": ["a" * 10**6] * 3}),
            *({**sample, "score": -50.0}, {**sample, "sources": ["a"] * 5_000}),
        ),
    }
    text = draw.choice((json.dumps(draw.choice(wrong[name])), json.dumps(draw.choice(wrong[name])), nested, "", "\xff"))
    text = draw.choice(
        (text, text, text, f'{{"a": {nested}}}', '{"training": {"seed": 1, "flops": 1e999}, "score": 1e999}')
    )
    (bundle / name).write_bytes(text.encode("latin-1"))
    return True


def _names(draw: Random, bundle: Path, trial: Trial) -> bool:
    """A manifest whose names lead out, or whose entries are of no sense."""
    listed = json.loads((bundle / MANIFEST).read_text())
    digest = manifest.sha256(trial.folder / _SECRET)
    out = ("../../../secret", str(trial.folder / _SECRET), "a/../../../../secret", "./spec.yaml", "a//b", "", ".", "..")
    name = draw.choice((*out, "spec.yaml/", "a\nb", "a\x00b", "\u202ex", "\x1b[2J", "x" * 5_000, "nowhere"))
    file = draw.choice(sorted(listed))
    size = draw.choice((-1, 0, 10**30, 2**63, 1.5, "18", None, True, [18], listed[file]["bytes"] + 1))
    hashed = draw.choice(("", "0" * 64, "g" * 64, "A" * 64, 5, None, "0" * 10**6, f"{listed[file]['sha256']}\n"))
    what = draw.randrange(6)
    if what < 2:
        listed[name] = {"bytes": 18, "sha256": digest}
    elif what == 2:
        listed[file] = {**listed[file], "bytes": size}
    elif what == 3:
        listed[file] = {**listed[file], "sha256": hashed}
    elif what == 4:
        del listed[draw.choice([each for each in sorted(listed) if each not in ("facts.json", "sample.json")])]
    else:
        listed[file] = draw.choice(([], None, {}, 3, {"bytes": 1}, "x", [1] * 1000))
    text = json.dumps(listed)
    if draw.random() < 0.2:
        deep = draw.choice((5_000, 500_000))
        text = draw.choice(("[" * deep, '{"a":' * deep, "{}", "[]", "", "NaN", f"{text}{text}", f"\ufeff{text}"))
        text = draw.choice((text, f'{{"x": {" " * 20_000_000}1}}'))
    (bundle / MANIFEST).write_text(text, encoding="utf-8")
    return False


def _links(draw: Random, bundle: Path, trial: Trial) -> bool:
    """Links that lead out of the folder, to what has the right content even; devices, pipes, folders."""
    files = [path for path in sorted(bundle.iterdir()) if path.name != MANIFEST]
    file = draw.choice(files)
    if draw.random() < 0.4:
        trial.tell(nodes.put(draw, file))
        return False
    outside = trial.folder / "outside" / file.name
    outside.parent.mkdir()
    what = draw.randrange(3)
    if what == 0:  # its own content
        file.rename(outside)
        file.symlink_to(draw.choice((outside, os.path.relpath(outside, bundle))))
    elif what == 1:
        file.unlink()
        file.symlink_to(trial.folder / _SECRET)
    else:  # a folder of the bundle that is somewhere else, with files that it lists
        shutil.copyfile(file, outside)
        (bundle / "more").symlink_to(outside.parent)
        listed = json.loads((bundle / MANIFEST).read_text())
        listed[f"more/{file.name}"] = listed[file.name]
        (bundle / MANIFEST).write_text(json.dumps(listed))
    return False


def _swapped(draw: Random, bundle: Path, trial: Trial) -> bool:
    """Two bytes of a file in each other's place."""
    file = draw.choice([path for path in sorted(bundle.iterdir()) if path.name != MANIFEST])
    content = bytearray(file.read_bytes())
    one = draw.randrange(len(content))
    other = draw.choice([at for at in range(len(content)) if content[at] != content[one]])
    content[one], content[other] = content[other], content[one]
    file.write_bytes(content)
    trial.tell(f"{file.name}: {one} and {other}")
    return False


def _weights(draw: Random, bundle: Path, trial: Trial) -> bool:
    file = bundle / draw.choice(("weights.safetensors", "weights.safetensors", "proof.safetensors"))
    trial.tell(headers.forged(draw, file))
    return True


WAYS: dict[Way, int] = {_yaml: 4, _json: 3, _names: 4, _links: 3, _swapped: 1, _weights: 5}
