"""Hostile bundles: damaged or mixed published models, and bundles that were forged to harm their users."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import zoo
from hostile import values
from hostile.judge import check
from hostile.trial import MANIFEST, Trial
from hostile.values import DELETED
from hostile.world import GOOD, LINES, OTHER
from specs import ZooError
from zoo.files import manifest

_WEIGHTS, _PROOF, _SPEC = "weights.safetensors", "proof.safetensors", "spec.yaml"


def run(random: Random, trial: Trial) -> None:
    """Damage a bundle: it must translate exactly as before or be refused, and `zoo verify` must see the damage."""
    weights = {_damaged_files: 10, _mixed: 3, _bad_texts: 2, _bad_cache: 2, _bad_run: 3}
    kind = values.weighted(random, weights)
    trial.log(kind.__name__)
    kind(random, trial)


def _check(random: Random, trial: Trial) -> None:
    trial.check_loads()
    trial.check_verify(random)
    if random.random() < 0.2:
        trial.check_list(random)


def _damaged_files(random: Random, trial: Trial) -> None:
    bundle = trial.install(GOOD)
    for file in random.sample(sorted(bundle.iterdir()), random.choice((1, 1, 2))):
        trial.log(values.damage(random, file))
    if random.random() < 0.1:
        trial.log(values.replace_file(random, bundle))
    trial.guard.forget()
    _check(random, trial)
    trial.check_secret()


def _mixed(random: Random, trial: Trial) -> None:
    """Mix files of two models of one spec."""
    bundle = trial.install(GOOD, OTHER)
    names = (_WEIGHTS, "vocabulary.model", _PROOF, MANIFEST, _SPEC, "scores.json", "README.md")
    for name in random.sample(names, random.choice((1, 1, 2, 2, 3))):
        shutil.copyfile(bundle.with_name(OTHER) / name, bundle / name)
        trial.log(f"{name} of the other model")
    _check(random, trial)


def _bad_cache(random: Random, trial: Trial) -> None:
    """Damage the cache of verified hashes, which must not change anything."""
    trial.store.mkdir(parents=True)
    (trial.store / GOOD).symlink_to(trial.world.store / GOOD)
    trial.check_same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))
    for file in sorted((trial.home / "verified").glob("*")):
        trial.log(values.damage(random, file))
    trial.check_same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))


def _bad_run(random: Random, trial: Trial) -> None:
    """Damage the files and the log of a run below runs/, which must not hide other models."""
    run = trial.folder / "runs" / "bad"
    shutil.copytree(trial.world.run, run)
    keys = ("step", "seconds", "source_tokens_per_second", "target_tokens_per_second", "utilisation")
    wrong = ("1e999", "-1e999", "NaN", "9" * 400, "[" * 100_000, "null", '"x"', "1e308", "true", "-1")
    line = json.dumps({**dict.fromkeys(keys, 1.0), random.choice(keys): "here"}).replace('"here"', random.choice(wrong))
    other = random.choice(("[" * 100_000, "[]", "5", "null", "\x00", "\ud800", '{"step": 1}', line))
    (run / "log.jsonl").write_bytes(f"{line}\n{other}".encode("utf-8", "surrogatepass"))
    (run / "data.json").write_text(json.dumps({"processes": values.value(random)}))
    trial.log(values.damage(random, random.choice((run / _SPEC, *sorted(run.iterdir())))))
    trial.install(GOOD)
    trial.check_list(random)
    model = random.choice((["--model", "bad"], ["--model", "runs/bad"], ["--spec", "tiny"]))
    trial.zoo(*random.choice((["decode", *model], ["paper"], ["paper", "table2"])))


def _bad_texts(random: Random, trial: Trial) -> None:
    """Write hostile texts with a correct manifest: no control character may reach the terminal."""
    bundle = trial.install(GOOD)
    text = (bundle / _SPEC).read_text(encoding="utf-8")
    described = json.dumps(random.choice((*values.WORDS, "\x1b[2J\x1b]0;title\x07", "\x9b31m")))
    (bundle / _SPEC).write_text(text.replace("description:", f"description: {described} #"), encoding="utf-8")
    scores = {"dev": {"bleu": 12.3, "perplexity": 9.8, "sentences": 4, "signature": "x"}, "test": None}
    (bundle / "scores.json").write_bytes(values.damaged(random, ".json", json.dumps(scores).encode()))
    manifest.write(bundle)
    trial.check_list(random)
    trial.zoo("verify", GOOD)


# Intruders: `zoo verify` must refuse all of them, without any effect outside of the bundle

Forge = Callable[[Random, Path, Trial], bool | None]
"""Changes a bundle. Returns True if its manifest is to be written again, so that its hashes are correct."""


def run_intruder(random: Random, trial: Trial) -> None:
    """Forge a bundle. `zoo verify` must refuse it, and must not open or write other files."""
    bundle = trial.install(GOOD)
    forge = values.weighted(random, {_spec: 4, _entries: 4, _links: 3, _tensors: 5})
    trial.log(forge.__name__)
    if forge(random, bundle, trial):
        manifest.write(bundle)
    before = _names(trial)
    trial.guard.forget()
    done = trial.zoo("verify", GOOD)
    check(done.status in (1, 2), f"it is accepted: {done.out}")
    loaded = trial.call(lambda: zoo.load(GOOD, device="cpu"))  # which reads only some of the files
    check(isinstance(loaded, ZooError) or forge is not _spec, "it is loaded")
    trial.check_secret()
    check(_names(trial) == before, f"it left files behind: {_names(trial) ^ before}")


def _names(trial: Trial) -> set[str]:
    return {path.name for path in (*trial.folder.iterdir(), *trial.store.iterdir())}


def _spec(random: Random, bundle: Path, trial: Trial) -> bool:
    """Write a spec that is not valid, or of another model."""
    file = bundle / _SPEC
    text = file.read_text(encoding="utf-8")
    depth = random.choice((200, 5_000, 100_000))
    tag = random.choice(("!!binary AAAA", "!x y", "*unknown", "!!set {a}", values.CALL))
    replacements = {
        "description:": (f"description: {nested} #" for nested in (*values.nests(depth), tag)),
        "training:\n": [f"training:\n  steps: 1{'0' * zeros}\n" for zeros in (10, 5_000)],
        "name: good": [f"name: {name}" for name in ("../x", "/etc/x", "..", "a/b", "a..b", ".x", "~", "[]", "&x [*x]")],
        "d_model: 16": [f"d_model: {size}" for size in (10**9, -16, 32, 0)],
        "size: 101": [f"size: {size}" for size in (10**8, 102, -1)],
        "\n": ["\x00\n"],
    }
    replaced = [text.replace(old, random.choice([*new]), 1) for old, new in replacements.items()]
    extended = (f"extends: {other}" for other in ("/etc/passwd", "../../../secret", "base"))
    before = (f"{line}\n{text}" for line in (*extended, f"# {'x' * 2_000_000}", values.LAUGHS))
    after = (f"{text}{line}" for line in (f"---\n{text}", f"name: {GOOD}\n", "<<: {name: x}\n", "unheard: of\n"))
    changed = random.choice((*replaced * 2, *before, *after))
    check(changed != text, "nothing was changed")
    file.write_bytes(changed.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-16"))))
    return True


def _entries(random: Random, bundle: Path, trial: Trial) -> None:
    """Write a manifest with names outside of the bundle, or with invalid entries."""
    entries = json.loads((bundle / MANIFEST).read_text())
    outside = ("../../../secret", str(trial.secret), "a/../../../../secret", "/dev/zero", "/etc/passwd", "a//b")
    inside = ("./spec.yaml", "spec.yaml/", "", "..", "a\nb", "a\x00b", "\u202ex", "\x1b[2J", "x" * 5_000, "nowhere")
    secret = {"bytes": trial.secret.stat().st_size, "sha256": manifest.sha256(trial.secret)}
    file = random.choice(sorted(entries.keys() - {"facts.json"}))
    wrong: dict[tuple[str, ...], Any] = {
        (random.choice((*outside, *inside)),): [secret],
        (random.choice(outside),): [secret],
        (file, "bytes"): (-1, 0, 10**30, 2**63, 1.5, "18", None, True, [18], entries[file]["bytes"] + 1),
        (file, "sha256"): ("", "0" * 64, "g" * 64, "A" * 64, 5, None, "0" * 10**6, f"{entries[file]['sha256']}\n"),
        (file,): (DELETED, DELETED, DELETED, [], None, {}, 3, {"bytes": 1}, "x", [1] * 1000),
    }
    trial.log(values.edit_json(random, bundle / MANIFEST, wrong))


def _links(random: Random, bundle: Path, trial: Trial) -> None:
    """Replace files with links out of the bundle, even to the right content, or with devices, pipes and folders."""
    file = random.choice([path for path in sorted(bundle.iterdir()) if path.name != MANIFEST])
    if random.random() < 0.4:
        trial.log(values.replace_file(random, file))
        return
    outside = trial.folder / "outside" / file.name
    outside.parent.mkdir()
    shutil.copyfile(file, outside)
    if random.random() < 0.3:  # a linked folder with a file that the manifest lists
        (bundle / "more").symlink_to(outside.parent)
        entries = json.loads((bundle / MANIFEST).read_text())
        entries[f"more/{file.name}"] = entries[file.name]
        (bundle / MANIFEST).write_text(json.dumps(entries))
    else:
        file.unlink()
        trial.log(file.name)
        file.symlink_to(random.choice((outside, os.path.relpath(outside, bundle), trial.secret)))


def _tensors(random: Random, bundle: Path, trial: Trial) -> bool:
    """Write an invalid header into a file of tensors."""
    file = bundle / random.choice((_WEIGHTS, _WEIGHTS, _PROOF))
    before = file.read_bytes()
    while (changed := values.safetensors(random, before, with_metadata=False)) == before:
        pass
    trial.log(f"{file.name}: {changed[:200]!r}")
    file.write_bytes(changed)
    return True
