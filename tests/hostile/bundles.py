"""Hostile bundles: damaged or mixed published models, and bundles that were forged to harm their users."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import safetensors.torch
import torch
import yaml
from torch import Tensor

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
    kind = values.weighted(random, _DAMAGES)
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
        trial.log(values.corrupt_file(random, file))
    _check(random, trial)


def _mixed(random: Random, trial: Trial) -> None:
    """Mix files of two models of one spec, and change the weights' metadata."""
    bundle = trial.install(GOOD, OTHER)
    names = (_WEIGHTS, "vocabulary.model", _PROOF, MANIFEST, _SPEC, "scores.json", "README.md")
    for name in random.sample(names, random.choice((0, 1, 1, 2, 2, 3))):
        shutil.copyfile(bundle.with_name(OTHER) / name, bundle / name)
        trial.log(f"{name} of the other model")
    if random.random() < 0.6:
        header, data = _read_header(bundle / _WEIGHTS)
        facts = json.loads(header["__metadata__"]["zoo"])
        values.mutate(random, facts)
        text = json.dumps(facts)
        other = ("{}", "[]", "[" * 100_000, "1", '{"sha256": null}', '{"a": NaN}')
        wrong = ({}, {"zoo": random.choice((text, text, *other))}, DELETED)
        trial.log(values.edit(random, header, {("__metadata__",): wrong}))
        if random.random() < 0.3:
            trial.log(values.mutate(random, header))
        _write_header(bundle / _WEIGHTS, json.dumps(values.writable(header)).encode(), data)
    _check(random, trial)


def _not_a_file(random: Random, trial: Trial) -> None:
    bundle = trial.install(GOOD)
    trial.log(values.replace_file(random, random.choice((*sorted(bundle.iterdir()), bundle))))
    _check(random, trial)


def _damaged_manifest(random: Random, trial: Trial) -> None:
    bundle = trial.install(GOOD)
    trial.write_secret()
    if random.random() < 0.5:
        _forged_manifest(random, bundle, trial)
    else:
        trial.log(values.mutate_json(random, bundle / MANIFEST))
    _check(random, trial)


def _bad_cache(random: Random, trial: Trial) -> None:
    """Damage the cache of verified hashes, which must not change anything."""
    trial.store.mkdir(parents=True)
    (trial.store / GOOD).symlink_to(trial.world.store / GOOD)
    trial.check_same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))
    for file in sorted((trial.home / "verified").glob("*")):
        damage = random.choice((values.corrupt_file, values.mutate_json, values.replace_file))
        trial.log(damage(random, file))
    trial.check_same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))


def _bad_run(random: Random, trial: Trial) -> None:
    """Damage a run below runs/, which must not hide other models."""
    run = trial.folder / "runs" / "bad"
    shutil.copytree(trial.world.run, run)
    trial.log(_mutate_spec(random, run / _SPEC))
    if random.random() < 0.2:
        (run / _SPEC).write_bytes(values.corrupt(random, (run / _SPEC).read_bytes()))
    if random.random() < 0.2:
        trial.log(values.replace_file(random, random.choice(sorted(run.iterdir()))))
    trial.install(GOOD)
    trial.check_list(random)
    model = random.choice((("--model", "bad"), ("--model", "runs/bad"), ("--spec", "tiny")))
    trial.zoo("decode", *model, stdin=b"the old dog\n")


def _bad_log(random: Random, trial: Trial) -> None:
    """Damage the log of a run, which `zoo paper` and `zoo list` read."""
    run = trial.folder / "runs" / "bad"
    shutil.copytree(trial.world.run, run)
    keys = ("step", "seconds", "source_tokens_per_second", "target_tokens_per_second", "utilisation")
    good = dict.fromkeys(keys, 1.0)
    wrong = ("1e999", "-1e999", "NaN", "9" * 400, "[" * 100_000, "null", '"x"', "1e308", "true", "-1")
    text = json.dumps({**good, random.choice(keys): "here"}).replace('"here"', random.choice(wrong))
    whole = random.choice(("[" * 100_000, "[]", "5", "null", "{" * 100_000, "\x00", "\ud800", '{"step": 1}'))
    lines = [json.dumps(good), text, whole]
    random.shuffle(lines)
    (run / "log.jsonl").write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    if random.random() < 0.3:
        (run / "data.json").write_text(json.dumps({"processes": values.writable(values.value(random))}))
    trial.log(f"{text[:200]!r}")
    for command in (["paper"], ["paper", "table2"], ["list"]):
        trial.zoo(*command)


def _mutate_spec(random: Random, file: Path, **changes: str) -> str:
    tree = {**yaml.safe_load(file.read_text()), **changes}
    note = values.mutate(random, tree)
    file.write_text(yaml.dump(values.writable(tree)), encoding="utf-8", errors="surrogatepass")
    return note


def _forged_proof(random: Random, trial: Trial) -> None:
    """Replace the reference log-probabilities, with a correct manifest: `zoo verify` must refuse them."""
    bundle = trial.install(GOOD)
    good = safetensors.torch.load_file(bundle / _PROOF)
    name = random.choice(sorted(good))
    tensor, side, log_p = good[name], random.choice(("source", "target")), "log_probabilities"
    tokens, numbers = (-1, 101, 104, 2**31, 2**62, -(2**63), 1000), (float("nan"), float("inf"), 0.5, -1e30)
    types = (torch.float16, torch.uint8, torch.float64, torch.bool, torch.int32)
    proofs: dict[str, dict[str, Tensor]] = {
        "empty": {name: tensor[:0] for name, tensor in good.items()},
        "zeros": {name: tensor * 0 for name, tensor in good.items()},
        "token": {**good, side: _with_value(random, good[side], tokens)},
        "number": {**good, log_p: _with_value(random, good[log_p], numbers)},
        "type": {**good, name: tensor.to(random.choice(types))},
        "shape": {**good, name: random.choice((tensor[:1], tensor[:, :1], tensor[None], tensor.flatten()))},
        "missing": {key: tensor for key, tensor in good.items() if key != name},
        "unknown": {**good, values.word(random).encode("ascii", "replace").decode(): torch.zeros(1)},
        "long": {**{key: tensor[:1] for key, tensor in good.items()}, "source": torch.ones(1, 60_000).long()},
    }
    kind = random.choice(sorted(proofs))
    proof = {name: tensor.contiguous() for name, tensor in proofs[kind].items()}
    trial.log(f"{kind}: { ({name: (tuple(t.shape), t.dtype) for name, t in proof.items()}) }")
    same = proof.keys() == good.keys() and all(torch.equal(proof[name], good[name]) for name in good)
    safetensors.torch.save_file(proof, bundle / _PROOF)
    manifest.write(bundle)
    done = trial.zoo("verify", GOOD)
    check(done.status != 0 or same or kind in ("type", "unknown"), f"verified: {done.out}")


def _with_value(random: Random, tensor: Tensor, wrong: tuple[float, ...]) -> Tensor:
    changed = tensor.clone()
    changed.view(-1)[random.randrange(tensor.numel())] = random.choice(wrong)
    return changed


def _forged_texts(random: Random, trial: Trial) -> None:
    """Write hostile texts with a correct manifest: no control character may reach the terminal."""
    bundle = trial.install(GOOD)
    scores = {"dev": {"bleu": 12.3, "perplexity": 9.8, "sentences": 4, "signature": "x"}, "test": None}
    (bundle / "scores.json").write_text(json.dumps(scores))
    trial.log(values.mutate_json(random, bundle / "scores.json"))
    described = (values.word(random), values.text(random), "\x1b[2J\x1b]0;title\x07", "\x9b31m")
    trial.log(_mutate_spec(random, bundle / _SPEC, description=random.choice(described)))
    manifest.write(bundle)
    trial.check_list(random)
    if random.random() < 0.3:
        trial.zoo("verify", GOOD)


_DAMAGES: dict[Callable[[Random, Trial], None], int] = {
    _damaged_files: 5,
    _mixed: 4,
    _not_a_file: 3,
    _damaged_manifest: 5,
    _forged_proof: 4,
    _forged_texts: 3,
    _bad_cache: 2,
    _bad_run: 2,
    _bad_log: 2,
}

# Intruders: `zoo verify` must refuse all of them, without any effect outside of the bundle

Forge = Callable[[Random, Path, Trial], bool | None]
"""Changes a bundle. Returns True if its manifest is to be written again, so that its hashes are correct."""


def run_intruder(random: Random, trial: Trial) -> None:
    """Forge a bundle. `zoo verify` must refuse it, and must not open or write other files."""
    bundle = trial.install(GOOD)
    trial.write_secret()
    listing = trial.zoo("list")
    check(listing.status == 0, f"the good model is not listed: {listing.err}")
    forge = values.weighted(random, _FORGERIES)
    trial.log(forge.__name__)
    if forge(random, bundle, trial):
        manifest.write(bundle)
    before = _entries(trial)
    trial.guard.forget()
    done = trial.zoo("verify", GOOD)
    check(done.status in (1, 2), f"it is accepted: {done.out}")
    loaded = trial.call(lambda: zoo.load(GOOD, device="cpu"))  # which reads only some of the files
    check(isinstance(loaded, ZooError) or forge is not _forged_yaml, "it is loaded")
    trial.check_secret()
    check(_entries(trial) == before, f"it left files behind: {_entries(trial) ^ before}")


def _entries(trial: Trial) -> set[str]:
    return {path.name for path in (*trial.folder.iterdir(), *trial.store.iterdir())}


def _forged_yaml(random: Random, bundle: Path, trial: Trial) -> bool:
    file = bundle / _SPEC
    text = file.read_text(encoding="utf-8")
    depth = random.choice((200, 5_000, 100_000))
    tag = random.choice(("!!binary AAAA", "!x y", "*unknown", "!!set {a}", "!!python/object/apply:os.mkdir [pwned]"))
    replacements = {
        "description:": (f"description: {nested} #" for nested in (*values.nests(depth), tag)),
        "training:\n": [f"training:\n  steps: 1{'0' * zeros}\n" for zeros in (10, 5_000)],
        "name:": ["name: &x [*x] #"],
        "name: good": [f"name: {name}" for name in ("../x", "/etc/x", "..", "a/b", "a..b", ".x", "~", "[]")],
        "d_model: 16": [f"d_model: {size}" for size in (10**9, -16, 32, 0)],
        "size: 101": [f"size: {size}" for size in (10**8, 102, -1)],
        "\n": ["\x00\n"],
    }
    replaced = [text.replace(old, random.choice([*new]), 1) for old, new in replacements.items()]
    before = (
        "extends: /etc/passwd",
        "extends: ../../../secret",
        "extends: base",
        f"# {'x' * 2_000_000}",
        values.LAUGHS,
    )
    after = (f"---\n{text}", f"name: {GOOD}\n", "<<: {name: x}\n", "unheard: of\n")
    added = [*(f"{line}\n{text}" for line in before), *(f"{text}{line}" for line in after)]
    changed = random.choice((*replaced, *replaced, *added))
    check(changed != text, "nothing was changed")
    start = next((i for i, (a, b) in enumerate(zip(changed, text, strict=False)) if a != b), len(text))
    trial.log(f"{len(changed)} characters, {changed[max(0, start - 40) : start + 200]!r}")
    file.write_bytes(changed.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-16"))))
    return True


def _forged_manifest(random: Random, bundle: Path, trial: Trial) -> None:
    """Write a manifest with names outside of the bundle, or with invalid entries."""
    entries = json.loads((bundle / MANIFEST).read_text())
    outside = ("../../../secret", str(trial.secret), "a/../../../../secret", "/dev/zero", "/etc/passwd", "a//b")
    inside = (
        "./spec.yaml",
        "spec.yaml/",
        "",
        ".",
        "..",
        "a\nb",
        "a\x00b",
        "\u202ex",
        "\x1b[2J",
        "x" * 5_000,
        "nowhere",
    )
    secret = {"bytes": trial.secret.stat().st_size, "sha256": manifest.sha256(trial.secret)}
    needed = sorted(entries.keys() - {"facts.json"})
    file = random.choice(needed)
    sizes = (-1, 0, 10**30, 2**63, 1.5, "18", None, True, [18], entries[file]["bytes"] + 1)
    hashes = ("", "0" * 64, "g" * 64, "A" * 64, 5, None, "0" * 10**6, f"{entries[file]['sha256']}\n")
    wrong: dict[tuple[str, ...], Any] = {
        (random.choice((*outside, *inside)),): [secret],
        (random.choice(outside),): [secret],
        (file, "bytes"): sizes,
        (file, "sha256"): hashes,
        (file,): (DELETED, DELETED, DELETED, [], None, {}, 3, {"bytes": 1}, "x", [1] * 1000),
    }
    trial.log(values.edit(random, entries, wrong))
    text = json.dumps(entries)
    if random.random() < 0.2:
        huge = f'{{"x": {" " * 20_000_000}1}}'
        text = random.choice((*values.TOO_DEEP, "{}", "[]", "", "NaN", f"{text}{text}", f"\ufeff{text}", huge))
    (bundle / MANIFEST).write_text(text, encoding="utf-8")


def _forged_links(random: Random, bundle: Path, trial: Trial) -> None:
    """Replace files by links out of the bundle, even to the right content, or by devices, pipes and folders."""
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
        file.symlink_to(random.choice((outside, os.path.relpath(outside, bundle), trial.secret)))


def _swapped_bytes(random: Random, bundle: Path, trial: Trial) -> None:
    file = random.choice([path for path in sorted(bundle.iterdir()) if path.name != MANIFEST])
    content = bytearray(file.read_bytes())
    first = random.randrange(len(content))
    second = random.choice([index for index in range(len(content)) if content[index] != content[first]])
    content[first], content[second] = content[second], content[first]
    file.write_bytes(content)
    trial.log(f"{file.name}: {first} and {second}")


def _forged_tensors(random: Random, bundle: Path, trial: Trial) -> bool:
    trial.log(forge_header(random, bundle / random.choice((_WEIGHTS, _WEIGHTS, _PROOF))))
    return True


_FORGERIES: dict[Forge, int] = {
    _forged_yaml: 4,
    _forged_manifest: 4,
    _forged_links: 3,
    _swapped_bytes: 1,
    _forged_tensors: 5,
}

# Headers of safetensors files


def _read_header(file: Path) -> tuple[dict[str, Any], bytes]:
    """Return header and data of a safetensors file."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def _write_header(file: Path, header: bytes, data: bytes, length: int | None = None) -> None:
    """Write a safetensors file whose header claims to have this length."""
    claimed = len(header) if length is None else length
    file.write_bytes((claimed % 2**64).to_bytes(8, "little") + header + data)


def forge_header(random: Random, file: Path, *, facts: bool = True) -> str:
    """Write an invalid header into a safetensors file, and describe it.

    Args:
        random: The random numbers.
        file: The file.
        facts: Whether the file has metadata of zoo, which may be forged too.
    """
    header, data = _read_header(file)
    text, length, note = json.dumps(header).encode(), None, ""
    names = sorted(header.keys() - {"__metadata__"})
    kind = random.choice(("length", "text", "tensor", "tensor", "tensor", "names", *(["facts"] if facts else [])))
    if kind == "length":
        claims = (0, 1, -1, 2**63, 2**63 - 1, 2**40, 2**32, 10**8 + 1, len(text) - 1, len(text) + 1, 10**6)
        length = random.choice(claims)
    elif kind == "text":
        deep = random.choice((200, 10_000, 1_000_000))
        broken = (b"{}", b"[]", b"null", b"\xff\xfe", b"{", b" " * 5_000_000, b"\x80\x04K\x01.", b"<" + text)
        text = random.choice((*broken, b"[" * deep, b'{"a":' * deep, text + b" " * 10_000_000))
    else:
        note = _forge_fields(random, header, kind, random.choice(names))
        text = json.dumps(header).encode()
    _write_header(file, text, data, length)
    if random.random() < 0.05:
        os.truncate(file, 8 + random.choice((0, 1, len(text) // 2)))
    return f"{file.name}: {kind}, {length}, {note}"


def _forge_fields(random: Random, header: dict[str, Any], kind: str, name: str) -> str:
    """Give a tensor another type, shape or position, add tensors, or forge the metadata."""
    tensor = header[name]
    start, stop = tensor["data_offsets"]
    if kind == "tensor":
        positions = ([start, stop + 4], [start, 2**63], [-4, stop], [stop, start], [start], [2**64, 2**64 + 4], [0, 0])
        shapes = ([2**62, 2**62], [-1], [2**31, 2**31, 4], [0], [1.5], [*tensor["shape"], 2], [2**64], [1] * 200)
        wrong: dict[str, tuple[Any, ...]] = {
            "data_offsets": (*positions, [start + 4, stop], [start, stop, stop], "x", DELETED),
            "shape": (*shapes, "x", DELETED),
            "dtype": ("F128", "I64X", "", None, 5, "U8", "BOOL", "F64", DELETED),
        }
        return values.edit(random, tensor, {(key,): choices for key, choices in wrong.items()})
    if kind == "names":
        odd = ("../../../secret", "/etc/passwd", "", "\x00", "\x1b[2J", "x" * 100_000, "__import__", "encoder.99.x")
        added = [random.choice(odd)] if random.random() < 0.7 else [f"x{number}" for number in range(20_000)]
        last = max(each["data_offsets"][1] for key, each in header.items() if key != "__metadata__")
        header |= {key: {"dtype": "F32", "shape": [0], "data_offsets": [last, last]} for key in added}
        return f"{added[0][:100]!r}"
    texts = (5, values.nests(100_000)[0], "[", "[1]", '{"a": 1e999}x', None)
    del header[name]
    return values.edit(random, header, {("__metadata__",): ("x", [], *({"zoo": text} for text in texts))})
