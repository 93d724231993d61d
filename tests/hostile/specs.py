"""Hostile specs: mutated, huge, in odd YAML and odd encodings; they are loaded, planned, and small ones trained."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import yaml

import compiler
import specs
from hostile import values
from hostile.judge import check
from hostile.trial import Trial
from specs import Spec

FILE = "own.yaml"
_PLANS = ((), (), (), ("--json",), ("--passes",), ("--code",), ("--graph", "own.svg"), ("--length", "1000000000"))
_SMALL = frozenset(range(65))
Content = tuple[bytes, list[str], bool]
"""The content of a spec file, overrides, and whether its numbers are so small that a step of training is fast."""


def run(random: Random, trial: Trial) -> None:
    """Load a spec in Python and on the command line, and train a step if the spec is small."""
    kinds = {_sized: 10, _mutated: 8, _overridden: 5, _broken: 3, _huge: 2, _odd_yaml: 2, _encoded: 2}
    kind = values.weighted(random, kinds)
    trial.log(kind.__name__)
    text, overrides, small = kind(random, _tree(random, trial.world.spec), trial.log)
    (trial.folder / FILE).write_bytes(text)
    trial.world.write_corpus(trial.folder)
    spec = trial.call(lambda: specs.load(FILE, overrides))
    if isinstance(spec, Spec):
        again = trial.call(lambda: specs.parse(spec.yaml(), FILE))
        check(again == spec, f"a spec that is written and read again differs: {again!r:.300}")
    if isinstance(spec, Spec) or random.random() < 0.3:
        done = trial.zoo("plan", FILE, *overrides, *random.choice(_PLANS))
        if not isinstance(spec, Spec):
            check(done.status == spec.exit_code, "the command accepts what Python refuses")
        elif small and done.status == 0 and random.random() < 0.5:
            _train(trial, spec, overrides)


def _train(trial: Trial, spec: Spec, overrides: list[str]) -> None:
    if compiler.parameters(spec) > 10**6 or spec.training.source_tokens > 10_000:
        return
    step = ("training.steps=1", "training.checkpoint_steps=1", "compilation.backend=eager", "training.start_from=null")
    files = "[{source: pairs.en, target: pairs.de}]"
    corpus = [f"corpus.{split}={files}" for split in ("train", "dev", "test")]
    sides = ("corpus.folder=.", "corpus.source=en", "corpus.target=de")
    done = trial.zoo("train", FILE, *overrides, *step, *corpus, *sides)
    weights = list((trial.folder / "runs").rglob("weights.safetensors"))
    check(done.status != 0 or weights, "it is trained, but there are no weights")


def _tree(random: Random, spec: Spec) -> dict[str, Any]:
    """Return a complete spec, or one that extends a shipped one."""
    complete: dict[str, Any] = yaml.safe_load(spec.yaml())
    if random.random() < 0.6:
        return complete
    parts = random.sample(sorted(complete.keys() - {"format", "name", "description"}), random.randrange(1, 4))
    own = {key: complete[key] for key in ("architecture", "vocabulary", *parts)}
    return {"extends": random.choice(("tiny", "tiny", "multi30k-ende")), **own}


def _numbers(tree: Any) -> set[float]:
    if isinstance(tree, dict | list):
        return set().union(*map(_numbers, tree.values() if isinstance(tree, dict) else tree))
    return {tree} if isinstance(tree, int | float) else set()


def _dump(random: Random, tree: Any) -> bytes:
    """Return YAML, including numbers that Python refuses to write."""
    style, unicode = random.choice((False, True, None)), random.random() < 0.5
    text = yaml.dump(values.writable(tree, "LONG"), allow_unicode=unicode, default_flow_style=style)
    return text.replace("LONG", "1" + 4000 * "0").encode("utf-8", "surrogatepass")


def _sized(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    """Change the size of numbers only."""
    usual = _numbers(tree)
    paths = [path for path in values.paths(tree) if type(values.at(tree, path)) in (int, float)]
    for path in random.sample(paths, min(len(paths), random.choice((1, 1, 1, 2, 4)))):
        number = random.choice((1, 2, 3, 64, 9)) * 10 ** random.choice((0, 0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 18, 30))
        old = values.at(tree, path)
        new = random.choice((number, 1 / number, 2 * old, 2 * old, old / 2, old / 2))
        values.at(tree, path[:-1])[path[-1]] = type(old)(new) if random.random() < 0.9 else new
        log(f"{path} from {old} to {values.at(tree, path)}")
    return _dump(random, tree), [], _numbers(tree) <= usual | _SMALL


def _mutated(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    usual = _numbers(tree)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        log(values.mutate(random, tree))
    return _dump(random, tree), [], _numbers(tree) <= usual | _SMALL


def _overridden(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    keys = [".".join(map(str, path)) for path in values.paths(tree)]
    overrides = []
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        key = random.choice(keys)
        key = values.misspelt(random, key) if random.random() < 0.3 else key
        text = values.digits(values.value(random))
        text = random.choice((text, text, values.text(random, letters=":-[]{}&*!#'\"|>%@, ab1\n\x00\ud800")))
        overrides.append(random.choice((f"{key}={text}",) * 8 + (key, f"={text}", f"{key}=[{'[' * 5000}")))
        log(overrides[-1][:200].encode("ascii", "backslashreplace").decode())
    small = not any(sign.isdigit() for each in overrides for sign in each)
    return _dump(random, tree), [each for each in overrides if not each.startswith("-")], small


def _broken(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    content = values.corrupt(random, _dump(random, tree))
    if random.random() < 0.5:
        at = random.randrange(len(content) + 1)
        sign = random.choice(b"\t\x00\x1b:#&*!|>%@`{}[],\"'-?\xff\n")
        content = content[:at] + bytes([sign]) * random.choice((1, 2, 100)) + content[at:]
    log(f"{len(content)} bytes")
    return content, [], False


def _huge(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    """Return a spec of up to 10 MB."""
    size = random.choice((10**4, 10**5, 10**6, 10**7))
    good = _dump(random, tree)
    kinds: tuple[Callable[[], bytes], ...] = (
        lambda: b"#" * size + b"\n" + good,
        lambda: _dump(random, {**tree, "description": "x" * size}),
        lambda: good + b"architecture: " + b"[" * size,
        lambda: good + b"x: " + b"{a: " * (size // 4),
        lambda: good + b"".join(b"key%d: 1\n" % n for n in range(size // 10)),
        lambda: good + b"x:\n" + b"- 1\n" * (size // 4),
        lambda: b"corpus:\n  train:\n" + b"  - {grammar: 1}\n" * (size // 17) + b"extends: tiny\n",
        lambda: b"extends: tiny\n" + b"\n" * size,
        lambda: b"name: &a " + b"- " * size,
        lambda: b"extends: tiny\nname: " + b"9" * size,
        lambda: b"extends: tiny\n" + b"a" * size + b": 1\n",
        lambda: b"extends: " + b"../" * (size // 3) + b"tiny.yaml\n",
    )
    content = random.choice(kinds)()
    log(f"size {size:,}: {content[-100:]!r}")
    return content, [], False


def _odd_yaml(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    """Return YAML with aliases, tags, several documents or loops."""
    good = _dump(random, tree).decode("utf-8", "replace")
    text = random.choice(
        (
            f"{values.LAUGHS}extends: tiny\n",
            "extends: tiny\ncorpus: &c {train: [*c]}\n",
            "extends: tiny\narchitecture: &a {encoder: *a}\n",
            "a: &a {d_model: 8}\nextends: tiny\narchitecture: {<<: *a}\n",
            "extends: tiny\nname: !!python/object/apply:os.system ['touch ../outside/other']\n",
            "extends: tiny\nname: !!python/name:os.system\n",
            "extends: tiny\nname: !<tag:x> y\ntraining: !!set {a}\n",
            "extends: tiny\n---\nextends: base\n",
            *(f"extends: {name}\n" for name in ("own.yaml", "./own.yaml", "../outside", "[tiny]", "!!binary dGlueQ==")),
            "%YAML 9.9\n---\nextends: tiny\n",
            "? {a: b}\n: c\n",
            "? [a]\n: c\nextends: tiny\n",
            "training: {steps: 190:20:30, seed: 0o17, beta1: 1_0.0, epsilon: 2001-01-01}\nextends: tiny\n",
            *(f"format: {version}\n{good}" for version in ("99999999999999999999", "-1", "[1]")),
        )
    )
    log(text[:200])
    return text.encode(), [], False


def _encoded(random: Random, tree: dict[str, Any], log: Callable[[str], None]) -> Content:
    tree["description"] = f"ä{values.text(random)}"
    encoding = random.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "utf-7", "cp037", "shift_jis"))
    log(encoding)
    content = yaml.dump(tree, allow_unicode=True).encode(encoding, "replace")
    return content.replace(b"\n", random.choice((b"\n", b"\r\n", b"\r"))), [], False
