"""Specs: shipped ones and whole ones, bitten, blown up, in odd encodings; read, planned, and the small ones trained."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import yaml

import compiler
import specs
from hostile import values
from hostile.judge import right
from hostile.trial import Trial
from specs import Spec

FILE = "own.yaml"
_MILLION = 10**6


def run(draw: Random, trial: Trial) -> None:
    """Makes one, asks for it in Python and on the command line, and trains a step where that is small."""
    text, overrides, modest = _made(draw, trial)
    (trial.folder / FILE).write_bytes(text)
    trial.world.write_corpus(trial.folder)
    found = trial.answer(lambda: specs.load(FILE, overrides))
    if isinstance(found, Spec):
        again = trial.answer(lambda: specs.parse(found.yaml(), FILE))
        right(again == found, f"a spec that is written and read again is another one: {again!r:.300}")
    if isinstance(found, Spec) or draw.random() < 0.3:
        done = trial.zoo("plan", FILE, *overrides, *draw.choice(_PLANS))
        right(done.status == 0 or isinstance(found, Spec) or done.status == found.exit_code, "Python says otherwise")
        if isinstance(found, Spec) and modest and done.status == 0 and draw.random() < 0.5:
            _trained(trial, found, overrides)


_PLANS = ((), (), (), ("--json",), ("--passes",), ("--code",), ("--graph", "own.svg"), ("--length", "1000000000"))


def _trained(trial: Trial, spec: Spec, overrides: list[str]) -> None:
    """A step, where the model and its batches are a toy's."""
    if compiler.parameters(spec) > _MILLION or spec.training.source_tokens > 10_000:
        return
    toy = ("training.steps=1", "training.checkpoint_steps=1", "compilation.backend=eager", "training.start_from=null")
    files = "[{source: pairs.en, target: pairs.de}]"
    corpus = [f"corpus.{split}={files}" for split in ("train", "dev", "test")]
    done = trial.zoo(
        "train", FILE, *overrides, *toy, *corpus, "corpus.folder=.", "corpus.source=en", "corpus.target=de"
    )
    weights = list((trial.folder / "runs").rglob("weights.safetensors"))
    right(done.status != 0 or weights, "trained, and there are no weights")


def _made(draw: Random, trial: Trial) -> tuple[bytes, list[str], bool]:
    """The file's content, overrides, and whether a step of it may be tried."""
    tree = _tree(draw, trial.world.spec)
    kind = draw.choices((_sized, _bitten, _overridden, _broken, _blown_up, _woven, _encoded), (10, 8, 5, 3, 2, 2, 2))[0]
    trial.tell(kind.__name__)
    return kind(draw, tree, trial.tell)


def _tree(draw: Random, spec: Spec) -> dict[str, Any]:
    """A whole spec, or a difference from a shipped one."""
    whole: dict[str, Any] = yaml.safe_load(spec.yaml())
    if draw.random() < 0.6:
        return whole
    parts = draw.sample(sorted(whole.keys() - {"format", "name", "description"}), draw.randrange(1, 4))
    small = {key: whole[key] for key in ("architecture", "vocabulary")}
    return {"extends": draw.choice(("tiny", "tiny", "multi30k-ende")), **small, **{part: whole[part] for part in parts}}


def _sized(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    """Figures that are what they should be, but for how large they are."""
    usual = _figures(tree)
    ways = [way for way in values.places(tree) if type(values.at(tree, way)) in (int, float)]
    for way in draw.sample(ways, min(len(ways), draw.choice((1, 1, 1, 2, 4)))):
        figure = draw.choice((1, 2, 3, 64, 9)) * 10 ** draw.choice((0, 0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 18, 30))
        old = values.at(tree, way)
        new = draw.choice((figure, 1 / figure, 2 * old, 2 * old, old / 2, old / 2))
        values.at(tree, way[:-1])[way[-1]] = type(old)(new) if draw.random() < 0.9 else new
        tell(f"{way} from {old} to {values.at(tree, way)}")
    return _dumped(draw, tree), [], _figures(tree) <= usual | _SMALL


def _bitten(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    usual = _figures(tree)
    told = [values.bitten(draw, tree) for _ in range(draw.choice((1, 1, 1, 2, 3)))]
    for each in told:
        tell(each)
    return _dumped(draw, tree), [], _figures(tree) <= usual | _SMALL


_SMALL = frozenset(range(65))
"""A step of what has only these may be tried: what a person asks for may take its time."""


def _figures(tree: Any) -> set[float]:
    """All numbers in a tree."""
    if isinstance(tree, dict | list):
        return set().union(*map(_figures, tree.values() if isinstance(tree, dict) else tree))
    return {tree} if isinstance(tree, int | float) else set()


def _dumped(draw: Random, tree: Any) -> bytes:
    """YAML; numbers of more digits than Python writes down are written for it."""
    long = 10**4000
    text = yaml.dump(
        _swapped(tree, long), allow_unicode=draw.random() < 0.5, default_flow_style=draw.choice((0, 1, None))
    )
    return text.replace("LONG", "1" + 4000 * "0").encode("utf-8", "surrogatepass")


def _swapped(tree: Any, long: int) -> Any:
    if isinstance(tree, dict):
        return {key: _swapped(each, long) for key, each in tree.items()}
    if isinstance(tree, list):
        return [_swapped(each, long) for each in tree]
    return "LONG" if isinstance(tree, int) and abs(tree) >= long else tree


def _overridden(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    ways = [".".join(map(str, way)) for way in values.places(tree)]
    overrides = []
    for _ in range(draw.choice((1, 1, 1, 2, 5))):
        key = draw.choice(ways)
        key = values.misspelt(draw, key) if draw.random() < 0.3 else key
        given = values.value(draw)
        shown = "1" * 5000 if isinstance(given, int) and abs(given) > 10**4000 else str(given)
        shown = draw.choice((shown, shown, values.text(draw, letters=":-[]{}&*!#'\"|>%@, ab1\n\x00\ud800")))
        overrides.append(draw.choice((f"{key}={shown}",) * 8 + (key, f"={shown}", f"{key}=[{'[' * 5000}")))
        tell(overrides[-1][:200].encode("ascii", "backslashreplace").decode())
    modest = not any(sign.isdigit() for each in overrides for sign in each)
    return _dumped(draw, tree), [each for each in overrides if not each.startswith("-")], modest


def _broken(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    content = values.damaged(draw, _dumped(draw, tree))
    if draw.random() < 0.5:
        at = draw.randrange(len(content) + 1)
        sign = draw.choice((*b"\t\x00\x1b:#&*!|>%@`{}[],\"'-?\xff", *b"\n"))
        content = content[:at] + bytes([sign]) * draw.choice((1, 2, 100)) + content[at:]
    tell(f"{len(content)} bytes")
    return content, [], False


def _blown_up(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    """Up to 10 MB."""
    size = draw.choice((10**4, 10**5, 10**6, 10**7))
    ways: tuple[Callable[[], bytes], ...] = (
        lambda: b"#" * size + b"\n" + _dumped(draw, tree),
        lambda: _dumped(draw, {**tree, "description": "x" * size}),
        lambda: _dumped(draw, tree) + b"architecture: " + b"[" * size,
        lambda: _dumped(draw, tree) + b"x: " + b"{a: " * (size // 4),
        lambda: _dumped(draw, tree) + b"".join(b"key%d: 1\n" % n for n in range(size // 10)),
        lambda: _dumped(draw, tree) + b"x:\n" + b"- 1\n" * (size // 4),
        lambda: b"corpus:\n  train:\n" + b"  - {grammar: 1}\n" * (size // 17) + b"extends: tiny\n",
        lambda: b"extends: tiny\n" + b"\n" * size,
        lambda: b"name: &a " + b"- " * size,
        lambda: b"extends: tiny\nname: " + b"9" * size,
        lambda: b"extends: tiny\n" + b"a" * size + b": 1\n",
        lambda: b"extends: " + b"../" * (size // 3) + b"tiny.yaml\n",
    )
    at = draw.randrange(len(ways))
    tell(f"way {at}, size {size:,}")
    return ways[at](), [], False


def _woven(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    """Aliases, tags, documents, circles."""
    layers = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]\n" for n in range(1, draw.choice((2, 6, 30))))
    ways = (
        "x0: &x0 [a]\n" + layers + "extends: tiny\n",
        "extends: tiny\ncorpus: &c {train: [*c]}\n",
        "extends: tiny\narchitecture: &a {encoder: *a}\n",
        "a: &a {d_model: 8}\nextends: tiny\narchitecture: {<<: *a}\n",
        "extends: tiny\nname: !!python/object/apply:os.system ['touch ../outside/owned']\n",
        "extends: tiny\nname: !!python/name:os.system\n",
        "extends: tiny\nname: !<tag:x> y\ntraining: !!set {a}\n",
        "extends: tiny\n---\nextends: base\n",
        "extends: own.yaml\n",
        "extends: ./own.yaml\n",
        "extends: ../outside\n",
        "extends: [tiny]\n",
        "%YAML 9.9\n---\nextends: tiny\n",
        "? {a: b}\n: c\n",
        "? [a]\n: c\nextends: tiny\n",
        "extends: !!binary dGlueQ==\n",
        "training: {steps: 190:20:30, seed: 0o17, beta1: 1_0.0, epsilon: 2001-01-01}\nextends: tiny\n",
        "format: 99999999999999999999\n" + _dumped(draw, tree).decode(),
        "format: -1\n" + _dumped(draw, tree).decode(),
        "format: [1]\nextends: tiny\n",
    )
    at = draw.randrange(len(ways))
    tell(f"way {at}")
    return ways[at].encode(), [], False


def _encoded(draw: Random, tree: dict[str, Any], tell: Callable[[str], None]) -> tuple[bytes, list[str], bool]:
    tree["description"] = f"ä{values.text(draw)}"
    text = yaml.dump(tree, allow_unicode=True)
    encoding = draw.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "latin-1", "utf-7", "cp037", "shift_jis"))
    tell(encoding)
    content = text.encode(encoding, "replace")
    return draw.choice((content, content.replace(b"\n", b"\r\n"), content.replace(b"\n", b"\r"))), [], False
