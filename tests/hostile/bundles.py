"""Bundles: published models that were cut, flipped, mixed, emptied, or whose manifest was made anew by somebody."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import safetensors.torch
import torch
import yaml

import zoo
from hostile import judge, nodes, values
from hostile.judge import right
from hostile.trial import Trial
from hostile.world import GOOD, LINES, OTHER
from specs import ZooError
from zoo.storage import manifest

PROOF, WEIGHTS, MANIFEST = "proof.safetensors", "weights.safetensors", "manifest.json"


def run(draw: Random, trial: Trial) -> None:
    """Damages one; then it must translate exactly as before or be refused, and `zoo verify` must see it."""
    kinds = (_bytes, _mixed, _stood_in, _of_manifest, _remade_proof, _remade_words, _verified, _of_run)
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
    _opened(trial)
    _checked(draw, trial)


def _mixed(draw: Random, trial: Trial) -> None:
    """Files of another model of the same spec; weights that no longer say whose they are."""
    bundle = trial.shelve(GOOD, OTHER)
    names = (WEIGHTS, "vocabulary.model", PROOF, MANIFEST, "spec.yaml", "scores.json", "README.md")
    for name in draw.sample(names, draw.choice((0, 1, 1, 2, 2, 3))):
        shutil.copyfile(bundle.with_name(OTHER) / name, bundle / name)
        trial.tell(f"{name} of another")
    if draw.random() < 0.6:
        header = _rewritten(bundle / WEIGHTS, lambda header: _reheaded(draw, header))
        trial.tell(f"header {header!r:.300}")
    _opened(trial)
    _checked(draw, trial)


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
    _opened(trial)
    _checked(draw, trial, listed=0.5)


def _of_manifest(draw: Random, trial: Trial) -> None:
    """Entries that lead elsewhere, or are of no sense."""
    bundle = trial.shelve(GOOD)
    secret = trial.folder / "secret"
    secret.write_text("nobody's business\n")
    listed = json.loads((bundle / MANIFEST).read_text())
    entry = {"bytes": 18, "sha256": manifest.sha256(secret)}
    entry = draw.choice((entry, entry, values.value(draw), {**entry, "bytes": values.value(draw)}))
    name = draw.choice(
        (str(secret), "../../../secret", "/dev/zero", "/etc/passwd", ".", "..", "", "a/../../../../secret")
    )
    name = draw.choice((name, name, values.word(draw)))
    what = draw.randrange(6)
    if what < 3:
        listed[name] = entry
    elif what == 3:
        trial.tell(values.bitten(draw, listed))
    elif what == 4:
        listed = values.nested(draw, draw.choice((10, 900, 5_000)))
    else:
        listed = values.value(draw)
    text = _json(listed)
    if draw.random() < 0.2:
        text = draw.choice(("[" * 200_000, '{"a":' * 50_000, "{}", "", "null", text.replace("{", '{"x": Infinity, ')))
    (bundle / MANIFEST).write_text(text, encoding="utf-8", errors="surrogatepass")
    trial.tell(f"{name!r}: {entry!r:.200}; {text[:100]!r}")
    _opened(trial)
    _checked(draw, trial, listed=0.2)


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


def _remade_proof(draw: Random, trial: Trial) -> None:
    """A proof that proves nothing, or what cannot be, in a bundle whose hashes are right."""
    bundle = trial.shelve(GOOD)
    good = safetensors.torch.load_file(bundle / PROOF)
    proof = {name: tensor.clone() for name, tensor in good.items()}
    source, target, found = proof["source"], proof["target"], proof["log_probabilities"]
    what = draw.randrange(10)
    name = draw.choice(("source", "target"))
    piece = draw.choice((-1, 101, 104, 2**31, 2**62, -(2**63), 1000))
    if what == 0:
        proof = {name: tensor[:0] for name, tensor in proof.items()}
    elif what == 1:
        proof = {"source": source * 0, "target": target * 0, "log_probabilities": found * 0}
    elif what == 2:
        proof[name].flatten()[draw.randrange(proof[name].numel())] = piece
    elif what == 3:
        number = draw.choice((float("nan"), float("inf"), 0.5, -1e30))
        proof["log_probabilities"].flatten()[draw.randrange(found.numel())] = number
    elif what == 4:
        name = draw.choice(sorted(proof))
        proof[name] = proof[name].to(draw.choice((torch.float16, torch.uint8, torch.float64, torch.bool, torch.int32)))
    elif what == 5:
        name = draw.choice(sorted(proof))
        proof[name] = draw.choice((proof[name][:1], proof[name][:, :1], proof[name][None], proof[name].flatten()))
    elif what == 6:
        del proof[draw.choice(sorted(proof))]
    elif what == 7:
        proof[values.word(draw).encode("ascii", "replace").decode()] = torch.zeros(1)
    elif what == 8:
        proof = {"source": torch.ones(1, 60_000).long(), "target": target[:1], "log_probabilities": found[:1]}
    else:
        proof = {name: tensor[:, :1] for name, tensor in proof.items()}
    trial.tell(f"way {what}: { ({name: (tuple(t.shape), t.dtype) for name, t in proof.items()}) }, {piece}")
    same = proof.keys() == good.keys() and all(
        proof[name].shape == good[name].shape and torch.equal(proof[name].to(good[name].dtype), good[name])
        for name in good
    )
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in proof.items()}, bundle / PROOF)
    manifest.write(bundle)
    done = trial.zoo("verify", GOOD)
    right(done.status != 0 or same or what in (4, 7), f"verified: {done.out}")


def _remade_words(draw: Random, trial: Trial) -> None:
    """What a bundle says of itself, in a bundle whose hashes are right: a terminal must not obey it."""
    bundle = trial.shelve(GOOD)
    scores = {"dev": {"bleu": 12.3, "perplexity": 9.8, "sentences": 4, "signature": "x"}, "test": None}
    told = values.bitten(draw, scores)
    text = draw.choice(
        (json.dumps(scores), json.dumps(scores), "[" * 100_000, "", "[]", "{}{}", '{"dev": {"bleu": NaN}}')
    )
    (bundle / "scores.json").write_text(text)
    file = bundle / "spec.yaml"
    tree = yaml.safe_load(file.read_text())
    tree["description"] = values.word(draw)
    if draw.random() < 0.3:
        told += values.bitten(draw, tree)
    trial.tell(f"{text[:200]!r}, {tree.get('description')!r}, {told}")
    file.write_text(yaml.dump(values.writable(tree)), encoding="utf-8", errors="surrogatepass")
    manifest.write(bundle)
    _listed(draw, trial)
    if draw.random() < 0.3:
        trial.zoo("verify", GOOD)


def _verified(draw: Random, trial: Trial) -> None:
    """A cache of hashes that is wrong: the model is as good as before."""
    shelf = trial.home / "shelf"
    shelf.mkdir(parents=True)
    (shelf / GOOD).symlink_to(trial.world.shelf / GOOD)
    _same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2), trial)
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
    _same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2), trial)


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
    _listed(draw, trial)
    if draw.random() < 0.5:
        trial.zoo("decode", "--model", draw.choice(("bad", "runs/bad")), stdin=b"the old dog\n")
    else:
        trial.zoo("decode", "--spec", "tiny", stdin=b"the old dog\n")


def _opened(trial: Trial) -> None:
    found = trial.answer(lambda: zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))
    if not isinstance(found, ZooError):
        _same(found, trial)


def _same(found: Any, trial: Trial) -> None:
    right(found == trial.world.found, f"it translates otherwise: {found[0]!r:.200}, not {trial.world.found[0]!r:.200}")


def _checked(draw: Random, trial: Trial, listed: float = 0.05) -> None:
    """`zoo verify` must see what is not as it was published; `zoo list` goes on in any case."""
    if draw.random() < 0.6:
        bundle = trial.home / "shelf" / GOOD
        done = trial.zoo("verify", GOOD)
        if done.status == 0:
            right(_contents(bundle) == _contents(trial.world.shelf / GOOD), f"it is verified: {done.out}")
        elif _contents(bundle) == _contents(trial.world.shelf / GOOD):
            right(False, f"as it was published, and not verified: {done.err}")
    if draw.random() < listed:
        _listed(draw, trial)


def _contents(bundle: Path) -> dict[str, Any]:
    """Of each file; how the manifest is laid out means nothing."""
    found: dict[str, Any] = {}
    for file in sorted(bundle.iterdir()) if bundle.is_dir() else ():
        regular = stat.S_ISREG(os.stat(file).st_mode) if file.exists() and not file.is_symlink() else False
        found[file.name] = file.read_bytes() if regular and file.stat().st_size < 1 << 24 else None
    try:
        found[MANIFEST] = json.loads(found.get(MANIFEST) or b"")
    except (ValueError, RecursionError):
        found[MANIFEST] = "damaged"
    return found


def _listed(draw: Random, trial: Trial) -> None:
    json_ = draw.random() < 0.3
    done = trial.zoo("list", *(["--json"] if json_ else []))
    right(done.status == 0, f"what is damaged hides the rest: {done.err}")
    if json_:
        json.loads(done.out)
    judge.printable(done.out)
