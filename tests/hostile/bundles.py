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

import zoo
from hostile import values
from hostile.judge import check
from hostile.trial import MANIFEST, Trial
from hostile.world import GOOD, LINES, OTHER
from specs import ZooError
from zoo.files import manifest

_WEIGHTS, _PROOF = "weights.safetensors", "proof.safetensors"


def run(random: Random, trial: Trial) -> None:
    """Damage a bundle: it must translate exactly as before or be refused, and `zoo verify` must see the damage."""
    kinds = (_damaged_files, _mixed, _not_a_file, _damaged_manifest, _forged_proof, _forged_texts, _bad_cache, _bad_run)
    kind = random.choices(kinds, (5, 4, 3, 5, 4, 3, 2, 2))[0]
    trial.log(kind.__name__)
    kind(random, trial)


def _check(random: Random, trial: Trial, list_probability: float = 0.05) -> None:
    trial.check_loads()
    trial.check_verify(random)
    if random.random() < list_probability:
        trial.check_list(random)


def _damaged_files(random: Random, trial: Trial) -> None:
    bundle = trial.install(GOOD)
    for file in random.sample(sorted(bundle.iterdir()), random.choice((1, 1, 2))):
        trial.log(values.corrupt_file(random, file))
    _check(random, trial)


def _mixed(random: Random, trial: Trial) -> None:
    """Mix files of two models of one spec, and change the weights' metadata."""
    bundle = trial.install(GOOD, OTHER)
    names = (_WEIGHTS, "vocabulary.model", _PROOF, MANIFEST, "spec.yaml", "scores.json", "README.md")
    for name in random.sample(names, random.choice((0, 1, 1, 2, 2, 3))):
        shutil.copyfile(bundle.with_name(OTHER) / name, bundle / name)
        trial.log(f"{name} of the other model")
    if random.random() < 0.6:
        header, data = read_header(bundle / _WEIGHTS)
        metadata = header.pop("__metadata__")
        if random.random() < 0.5:
            facts = json.loads(metadata["zoo"])
            values.mutate(random, facts)
            text = json.dumps(facts)
            other = ("{}", "[]", "[" * 100_000, "1", '{"sha256": null}', '{"a": NaN}')
            header["__metadata__"] = {"zoo": random.choice((text, text, *other))}
        if random.random() < 0.3:
            values.mutate(random, header)
        write_header(bundle / _WEIGHTS, json.dumps(header).encode(), data)
        trial.log(f"header {header!r:.300}")
    _check(random, trial)


def _not_a_file(random: Random, trial: Trial) -> None:
    bundle = trial.install(GOOD)
    trial.log(values.replace_file(random, random.choice((*sorted(bundle.iterdir()), bundle))))
    _check(random, trial, list_probability=0.5)


def _damaged_manifest(random: Random, trial: Trial) -> None:
    """Write a manifest with entries outside of the bundle, invalid entries or invalid JSON."""
    bundle = trial.install(GOOD)
    trial.write_secret()
    entries: Any = json.loads((bundle / MANIFEST).read_text())
    entry: Any = {"bytes": trial.secret.stat().st_size, "sha256": manifest.sha256(trial.secret)}
    entry = random.choice((entry, entry, values.value(random), {**entry, "bytes": values.value(random)}))
    outside = (str(trial.secret), "../../../secret", "/dev/zero", "/etc/passwd", ".", "..", "", "a/../../../../secret")
    name = random.choice((*outside, values.word(random)))
    what = random.randrange(5)
    if what < 3:
        entries[name] = entry
    elif what == 3:
        trial.log(values.mutate(random, entries))
    else:
        entries = random.choice((values.nested(random, random.choice((10, 400))), values.value(random)))
    text = json.dumps(values.writable(entries))
    if random.random() < 0.2:
        text = random.choice((*values.TOO_DEEP, "{}", "", "null", text.replace("{", '{"x": Infinity, ')))
    (bundle / MANIFEST).write_text(text, encoding="utf-8", errors="surrogatepass")
    trial.log(f"{name!r}: {entry!r:.200}; {text[:100]!r}")
    _check(random, trial, list_probability=0.2)


def _bad_cache(random: Random, trial: Trial) -> None:
    """Damage the cache of verified hashes, which must not change anything."""
    trial.store.mkdir(parents=True)
    (trial.store / GOOD).symlink_to(trial.world.store / GOOD)
    trial.check_same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))
    for file in sorted((trial.home / "verified").glob("*")):
        what = random.randrange(4)
        if what == 0:
            trial.log(values.corrupt_file(random, file))
        elif what == 1:
            trial.log(values.mutate_json(random, file))
        elif what == 2:
            trial.log(values.replace_file(random, file))
        else:
            file.write_text(random.choice(("[" * 100_000, "", "[]", "null", '{"file": 1}', '{"digest": Infinity}')))
    trial.check_same(zoo.load(GOOD, device="cpu").hypotheses(LINES, n_best=2))


def _bad_run(random: Random, trial: Trial) -> None:
    """Damage a run below runs/, which must not hide other models."""
    run = trial.folder / "runs" / "bad"
    shutil.copytree(trial.world.run, run)
    tree = yaml.safe_load((run / "spec.yaml").read_text())
    trial.log(values.mutate(random, tree))
    content = yaml.dump(values.writable(tree)).encode("utf-8", "surrogatepass")
    (run / "spec.yaml").write_bytes(values.corrupt(random, content) if random.random() < 0.2 else content)
    if random.random() < 0.2:
        trial.log(values.replace_file(random, random.choice(sorted(run.iterdir()))))
    trial.install(GOOD)
    trial.check_list(random)
    model = random.choice((("--model", "bad"), ("--model", "runs/bad"), ("--spec", "tiny")))
    trial.zoo("decode", *model, stdin=b"the old dog\n")


def _forged_proof(random: Random, trial: Trial) -> None:
    """Replace the reference log-probabilities, with a correct manifest: `zoo verify` must refuse them."""
    bundle = trial.install(GOOD)
    good = safetensors.torch.load_file(bundle / _PROOF)
    proof = {name: tensor.clone() for name, tensor in good.items()}
    target, log_p = proof["target"], proof["log_probabilities"]
    what, name = random.randrange(9), random.choice(sorted(proof))
    tensor = proof[name]
    if what == 0:
        proof = {name: tensor[:0] for name, tensor in proof.items()}
    elif what == 1:
        proof = {name: tensor * 0 for name, tensor in proof.items()}
    elif what == 2:
        tokens = proof[random.choice(("source", "target"))].flatten()
        tokens[random.randrange(len(tokens))] = random.choice((-1, 101, 104, 2**31, 2**62, -(2**63), 1000))
    elif what == 3:
        log_p.flatten()[random.randrange(log_p.numel())] = random.choice((float("nan"), float("inf"), 0.5, -1e30))
    elif what == 4:
        proof[name] = tensor.to(random.choice((torch.float16, torch.uint8, torch.float64, torch.bool, torch.int32)))
    elif what == 5:
        proof[name] = random.choice((tensor[:1], tensor[:, :1], tensor[None], tensor.flatten()))
    elif what == 6:
        del proof[name]
    elif what == 7:
        proof[values.word(random).encode("ascii", "replace").decode()] = torch.zeros(1)
    else:
        proof = {"source": torch.ones(1, 60_000).long(), "target": target[:1], "log_probabilities": log_p[:1]}
    trial.log(f"{what}: { ({name: (tuple(t.shape), t.dtype) for name, t in proof.items()}) }")
    same = proof.keys() == good.keys() and all(
        proof[name].shape == good[name].shape and torch.equal(proof[name].to(good[name].dtype), good[name])
        for name in good
    )
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in proof.items()}, bundle / _PROOF)
    manifest.write(bundle)
    done = trial.zoo("verify", GOOD)
    check(done.status != 0 or same or what in (4, 7), f"verified: {done.out}")


def _forged_texts(random: Random, trial: Trial) -> None:
    """Write hostile texts with a correct manifest: no control character may reach the terminal."""
    bundle = trial.install(GOOD)
    scores = {"dev": {"bleu": 12.3, "perplexity": 9.8, "sentences": 4, "signature": "x"}, "test": None}
    trial.log(values.mutate(random, scores))
    text = json.dumps(values.writable(scores))
    text = random.choice((text, text, "[" * 100_000, "", "[]", "{}{}", '{"dev": {"bleu": NaN}}'))
    (bundle / "scores.json").write_text(text)
    file = bundle / "spec.yaml"
    tree = yaml.safe_load(file.read_text())
    described = (values.word(random), values.text(random), "\x1b[2J\x1b]0;title\x07", "\x9b31m")
    tree["description"] = random.choice(described)
    if random.random() < 0.3:
        trial.log(values.mutate(random, tree))
    trial.log(f"{text[:200]!r}, {tree.get('description')!r}")
    file.write_text(yaml.dump(values.writable(tree)), encoding="utf-8", errors="surrogatepass")
    manifest.write(bundle)
    trial.check_list(random)
    if random.random() < 0.3:
        trial.zoo("verify", GOOD)


# Intruders: `zoo verify` must refuse all of them, without any effect outside of the bundle

Forge = Callable[[Random, Path, Trial], bool]
"""Changes a bundle. Returns whether its manifest is written again, so that its hashes are correct."""


def run_intruder(random: Random, trial: Trial) -> None:
    """Forge a bundle. `zoo verify` must refuse it, and must not open or write other files."""
    bundle = trial.install(GOOD)
    trial.write_secret()
    listing = trial.zoo("list")
    check(listing.status == 0, f"the good model is not listed: {listing.err}")
    forge = random.choices(list(_FORGERIES), list(_FORGERIES.values()))[0]
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
    file = bundle / "spec.yaml"
    text = file.read_text(encoding="utf-8")
    depth = random.choice((200, 5_000, 100_000))
    tag = random.choice(("!!binary AAAA", "!x y", "*unknown", "!!set {a}", "!!python/object/apply:os.mkdir [pwned]"))
    name = random.choice(("../x", "/etc/x", "..", "a/b", "a..b", ".x", "~", "[]"))
    changed = random.choice(
        (
            f"{values.LAUGHS}{text}",
            text.replace("description:", f"description: {'[' * depth}{']' * depth} #"),
            text.replace("description:", f"description: {'{a: ' * depth}{'}' * depth} #"),
            text.replace("training:\n", f"training:\n  steps: 1{'0' * random.choice((10, 5_000))}\n", 1),
            text.replace("name:", "name: &x [*x] #"),
            text.replace("name: good", f"name: {name}"),
            text.replace("description:", f"description: {tag} #"),
            f"extends: {random.choice(('/etc/passwd', '../../../secret', 'base'))}\n{text}",
            f"{text}---\n{text}",
            f"{text}name: {GOOD}\n",
            f"{text}<<: {{name: x}}\n",
            f"{text}unheard: of\n",
            f"# {'x' * 2_000_000}\n{text}",
            text.replace("d_model: 16", f"d_model: {random.choice((10**9, -16, 32, 0))}"),
            text.replace("size: 101", f"size: {random.choice((10**8, 102, -1))}"),
            text.replace("\n", "\x00\n", 1),
        )
    )
    check(changed != text, "nothing was changed")
    start = next((i for i, (a, b) in enumerate(zip(changed, text, strict=False)) if a != b), len(text))
    trial.log(f"{len(changed)} characters, {changed[max(0, start - 40) : start + 200]!r}")
    file.write_bytes(changed.encode(random.choice(("utf-8", "utf-8", "utf-8", "utf-16"))))
    return True


def _forged_json(random: Random, bundle: Path, trial: Trial) -> bool:
    """Write facts or reference outputs that are impossible or too large."""
    depth = random.choice((2_000, 200_000))
    nested = "[" * depth + "]" * depth
    line = ["a"] * random.choice((1, 3))
    sample = {"set": "test", "sentences": 3, "sources": line, "references": line, "outputs": line, "metric": "bleu"}
    sample |= {"score": 100.0, "signature": "x"}
    wrong: dict[str, tuple[Any, ...]] = {
        "facts.json": (
            {"spec": 1},
            {"training": {"seed": 10**30}},
            {"notes": ["x" * 10**6]},
            {"corpus": []},
            [1],
            None,
        ),
        "reference_outputs.json": (
            *({**sample, "outputs": [*line, "b"]}, {**sample, "sources": []}, {**sample, "sentences": -1}, {}, [1]),
            *({**sample, "score": 10**400}, {**sample, "metric": "../x"}, {**sample, "sources": ["a" * 10**6] * 3}),
            *({**sample, "score": -50.0}, {**sample, "sources": ["a"] * 5_000}),
        ),
    }
    name = random.choice(sorted(wrong))
    infinite = '{"training": {"seed": 1, "flops": 1e999}, "score": 1e999}'
    broken = (nested, "", "\xff", f'{{"a": {nested}}}', infinite)
    text = json.dumps(random.choice(wrong[name])) if random.random() < 0.6 else random.choice(broken)
    (bundle / name).write_bytes(text.encode("latin-1"))
    return True


def _forged_names(random: Random, bundle: Path, trial: Trial) -> bool:
    """Write a manifest with names outside of the bundle, or with invalid entries."""
    entries = json.loads((bundle / MANIFEST).read_text())
    outside = ("../../../secret", str(trial.secret), "a/../../../../secret", "./spec.yaml", "a//b", "", ".", "..")
    name = random.choice((*outside, "spec.yaml/", "a\nb", "a\x00b", "\u202ex", "\x1b[2J", "x" * 5_000, "nowhere"))
    file = random.choice(sorted(entries))
    sizes = (-1, 0, 10**30, 2**63, 1.5, "18", None, True, [18], entries[file]["bytes"] + 1)
    hashes = ("", "0" * 64, "g" * 64, "A" * 64, 5, None, "0" * 10**6, f"{entries[file]['sha256']}\n")
    what = random.randrange(6)
    if what < 2:
        entries[name] = {"bytes": trial.secret.stat().st_size, "sha256": manifest.sha256(trial.secret)}
    elif what == 2:
        entries[file] = {**entries[file], "bytes": random.choice(sizes)}
    elif what == 3:
        entries[file] = {**entries[file], "sha256": random.choice(hashes)}
    elif what == 4:
        del entries[
            random.choice([each for each in sorted(entries) if each not in ("facts.json", "reference_outputs.json")])
        ]
    else:
        entries[file] = random.choice(([], None, {}, 3, {"bytes": 1}, "x", [1] * 1000))
    text = json.dumps(entries)
    if random.random() < 0.2:
        huge = f'{{"x": {" " * 20_000_000}1}}'
        text = random.choice((*values.TOO_DEEP, "{}", "[]", "", "NaN", f"{text}{text}", f"\ufeff{text}", huge))
    (bundle / MANIFEST).write_text(text, encoding="utf-8")
    return False


def _forged_links(random: Random, bundle: Path, trial: Trial) -> bool:
    """Replace files by links out of the bundle, even to the right content, or by devices, pipes and folders."""
    file = random.choice([path for path in sorted(bundle.iterdir()) if path.name != MANIFEST])
    if random.random() < 0.4:
        trial.log(values.replace_file(random, file))
        return False
    outside = trial.folder / "outside" / file.name
    outside.parent.mkdir()
    what = random.randrange(3)
    if what == 0:
        file.rename(outside)
        file.symlink_to(random.choice((outside, Path(os.path.relpath(outside, bundle)))))
    elif what == 1:
        file.unlink()
        file.symlink_to(trial.secret)
    else:  # a linked folder with a file that the manifest lists
        shutil.copyfile(file, outside)
        (bundle / "more").symlink_to(outside.parent)
        entries = json.loads((bundle / MANIFEST).read_text())
        entries[f"more/{file.name}"] = entries[file.name]
        (bundle / MANIFEST).write_text(json.dumps(entries))
    return False


def _swapped_bytes(random: Random, bundle: Path, trial: Trial) -> bool:
    file = random.choice([path for path in sorted(bundle.iterdir()) if path.name != MANIFEST])
    content = bytearray(file.read_bytes())
    first = random.randrange(len(content))
    second = random.choice([index for index in range(len(content)) if content[index] != content[first]])
    content[first], content[second] = content[second], content[first]
    file.write_bytes(content)
    trial.log(f"{file.name}: {first} and {second}")
    return False


def _forged_tensors(random: Random, bundle: Path, trial: Trial) -> bool:
    trial.log(forge_header(random, bundle / random.choice((_WEIGHTS, _WEIGHTS, _PROOF))))
    return True


_FORGERIES: dict[Forge, int] = {
    _forged_yaml: 4,
    _forged_json: 3,
    _forged_names: 4,
    _forged_links: 3,
    _swapped_bytes: 1,
    _forged_tensors: 5,
}

# Headers of safetensors files


def read_header(file: Path) -> tuple[dict[str, Any], bytes]:
    """Return header and data of a safetensors file."""
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def write_header(file: Path, header: bytes, data: bytes, length: int | None = None) -> None:
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
    header, data = read_header(file)
    good, length = json.dumps(header).encode(), None
    kind = random.choice(("length", "text", "tensor", "tensor", "tensor", "names", *(["facts"] if facts else [])))
    names = sorted(each for each in header if each != "__metadata__")
    match kind:
        case "length":
            claims = (0, 1, -1, 2**63, 2**63 - 1, 2**40, 2**32, 10**8 + 1, len(good) - 1, len(good) + 1, 10**6)
            length = random.choice(claims)
        case "text":
            deep = random.choice((200, 10_000, 1_000_000))
            broken = (b"{}", b"[]", b"null", b"\xff\xfe", b"{", b" " * 5_000_000, b"\x80\x04K\x01.", b"<" + good)
            good = random.choice((*broken, b"[" * deep, b'{"a":' * deep, good + b" " * 10_000_000))
        case "tensor":
            good = json.dumps(_forge_tensor(random, header, random.choice(names))).encode()
        case "names":
            last = max(header[name]["data_offsets"][1] for name in names)
            odd = ("../../../secret", "/etc/passwd", "", "\x00", "\x1b[2J", "x" * 100_000, "__import__", "encoder.99.x")
            added = [random.choice(odd)] if random.random() < 0.7 else [f"x{number}" for number in range(20_000)]
            empty = {"dtype": "F32", "shape": [0], "data_offsets": [last, last]}
            good = json.dumps({**header, **dict.fromkeys(added, empty)}).encode()
        case _:
            nested = "[" * 100_000 + "]" * 100_000
            texts = (5, nested, "[", "[1]", '{"a": 1e999}x', None)
            header["__metadata__"] = random.choice(("x", [], *({"zoo": text} for text in texts)))
            header.pop(random.choice(names))
            good = json.dumps(header).encode()
    write_header(file, good, data, length)
    if random.random() < 0.05:
        os.truncate(file, 8 + random.choice((0, 1, len(good) // 2)))
    return f"{file.name}: {kind}, {length}, {good[:200]!r}"


def _forge_tensor(random: Random, header: dict[str, Any], name: str) -> dict[str, Any]:
    """Give a tensor another type, shape or position."""
    tensor = header[name]
    start, stop = tensor["data_offsets"]
    wrong: dict[str, tuple[Any, ...]] = {
        "data_offsets": (
            *([start, stop + 4], [start, 2**63], [-4, stop], [stop, start], [start], "x", [2**64, 2**64 + 4], [0, 0]),
            *([start + 4, stop], [start, stop, stop]),
        ),
        "shape": (
            *([2**62, 2**62], [-1], [2**31, 2**31, 2**2], [0], [1.5], "x", [*tensor["shape"], 2], [2**64], [1] * 200),
        ),
        "dtype": ("F128", "I64X", "", None, 5, "U8", "BOOL", "F64"),
    }
    key = random.choice(sorted(wrong))
    tensor[key] = random.choice(wrong[key])
    if random.random() < 0.1:
        del tensor[key]
    return header
