"""Hostile use: lines that are pasted by mistake, and command lines with odd arguments and broken streams."""

from __future__ import annotations

import errno
import math
import os
import shutil
import stat
import unicodedata
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import typer

from cli.app import build_app
from hostile import values
from hostile.judge import check
from hostile.trial import Failing, Stream, Trial
from hostile.world import GOOD, LINES, OTHER, PAIRS
from specs import ZooError

_SCRIPTS = "abcäöüßАБΩλ漢字かな한글עבריתعربيहिन्दीไทย🏳️‍🌈👨‍👩‍👧‍👦🇩🇪ﬁ²½Ⅳ①ǆ"
_BREAKS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\r"

# Lines


def run_lines(random: Random, trial: Trial) -> None:
    """Translate, score, sample or encode odd lines."""
    texts = [_line(random) for _ in range(random.randrange(1, 5))]
    kinds = {_translate: 6, _prefixes: 4, _score: 4, _sample: 2, _encode: 2, _pipe: 4, _endless: 1}
    kind = values.weighted(random, kinds)
    trial.log(f"{kind.__name__}: {[each[:80] for each in texts]!a}")
    kind(random, trial, texts)


def _line(random: Random) -> str:
    if random.random() < 0.01:
        return random.choice(("the old dog ", "x", "Ω")) * random.choice((10_000, 100_000, 1_000_000))
    good = random.choice(LINES)
    special = random.choice(("<unk>", "<s>", "</s>", "<pad>", "▁", "▁▁ ▁", "⁇", "<0x0A>"))
    return random.choice(
        (
            "",
            " " * random.choice((1, 1000)),
            good,
            good.replace(" ", random.choice(_BREAKS + "\x00\x07\x1b\t\u00a0\u3000")),
            values.text(random, 60).replace("\n", ""),
            values.text(random, 60, letters=_SCRIPTS),
            "".join(chr(random.randrange(0x20, 0xD800)) for _ in range(random.randrange(40))),
            "".join(chr(random.randrange(0xE000, 0x110000)) for _ in range(random.randrange(40))),
            "a" + "\u0301" * random.choice((1, 50, 3000)),
            "\u202e" + good + "\u2066\u2069",
            special * random.choice((1, 5)),
            random.choice(("word ", "a", "日", "1", ".", "🏳️‍🌈")) * random.choice((50, 500)),
            random.choice(("a\nb", "\n")),
            random.choice(("\ud800", "x\udcff", "\udfff\ud800")),
        )
    )


def _translate(random: Random, trial: Trial, texts: list[str]) -> None:
    results = trial.call(lambda: trial.world.translator.translate(texts))
    if isinstance(results, ZooError):
        return
    check(len(results) == len(texts), f"{len(results)} translations")
    for text, translation in zip(texts, results, strict=True):
        check("\n" not in translation, f"a line break in a translation: {translation!r}")
        check(text.strip() or not translation, f"the translation of nothing is {translation!r}")
    index = random.randrange(len(texts))
    alone = trial.call(lambda: trial.world.translator.translate(texts[index]))
    check(alone == results[index], f"alone it is {alone!r}, in a batch {results[index]!r}")


def _prefixes(random: Random, trial: Trial, texts: list[str]) -> None:
    prefixes = [random.choice((_line(random)[:60], random.choice(PAIRS)[1][: random.randrange(20)])) for _ in texts]
    trial.log(f"prefixes {prefixes!a}")
    results = trial.call(lambda: trial.world.translator.translate(texts, prefixes=prefixes))
    if isinstance(results, ZooError):
        return
    for text, prefix, translation in zip(texts, prefixes, results, strict=True):
        same = _normalised(translation).startswith(_normalised(prefix))
        check(not text.strip() or same, f"it starts with {translation[:80]!r}, not with {prefix!r}")


def _normalised(text: str) -> str:
    """Normalise as a vocabulary may: NFKC, with white space, SentencePiece's own space and controls as one space."""
    spaces = ("Cc", "Zl", "Zp", "Zs")
    signs = (" " if sign == "\u2581" or unicodedata.category(sign) in spaces else sign for sign in text)
    return " ".join(unicodedata.normalize("NFKC", "".join(signs)).split())


def _score(random: Random, trial: Trial, texts: list[str]) -> None:
    targets = [_line(random) for _ in texts]
    trial.log(f"targets {[each[:80] for each in targets]!a}")
    scores = trial.call(lambda: trial.world.translator.score(texts, targets))
    if not isinstance(scores, ZooError):
        check(len(scores) == len(texts), f"{len(scores)} scores")
        check(all(math.isfinite(score) and score <= 0 for score in scores), f"invalid log-probabilities: {scores}")


def _sample(random: Random, trial: Trial, texts: list[str]) -> None:
    options = {"temperature": random.choice((1e-30, 0.5, 1.0, 1e30)), "top_p": random.choice((1e-30, 0.5, 1.0))}
    options |= {"top_k": random.choice((0, 1, 5, 101, 10**9)), "seed": random.choice((0, 2**31, 2**63 - 1, 2**64))}
    count = random.choice((1, 3))
    trial.log(options)
    translate = partial(trial.world.translator.translate, texts, n_best=count, search="sample", **options)
    results = trial.call(translate)
    if not isinstance(results, ZooError):
        again = trial.call(translate)
        check(results == again, f"the same seed gives {again!r:.200} after {results!r:.200}")
        check(all(len(each) == count or each == [""] for each in results), f"not {count}: {results!r:.200}")


def _encode(random: Random, trial: Trial, texts: list[str]) -> None:
    vocabulary = trial.world.translator.vocabulary
    for text in (text.encode("utf-8", "replace").decode() for text in texts):
        tokens = trial.call(partial(vocabulary.encode, text))
        valid = isinstance(tokens, ZooError) or all(0 <= token < vocabulary.sizes[0] for token in tokens)
        check(valid, f"invalid token IDs: {tokens}")
    tokens = random.choices(range(vocabulary.sizes[0]), k=random.choice((0, 1, 20, 2000)))
    check(isinstance(vocabulary.decode(tokens), str), "no text")


def _endless(random: Random, trial: Trial, texts: list[str]) -> None:
    """Name a device without line ends where a command reads lines."""
    (trial.folder / "short.txt").write_text("".join(f"{text!a}\n" for text in texts))
    model = ["--model", str(trial.world.run)]
    commands = (
        ["decode", *model, "--input", "/dev/zero"],
        ["decode", *model, "--input", "short.txt", "--prefix", "/dev/zero"],
        ["score", *model, "--source", "/dev/zero", "--target", "short.txt"],
        ["score", *model, "--source", "short.txt", "--target", "/dev/zero"],
        ["evaluate", "--hypotheses", "/dev/zero", "--references", "short.txt"],
        ["evaluate", "--brackets", "short.txt", "/dev/zero"],
        ["compare", "short.txt", "/dev/zero", "--references", "short.txt"],
    )
    command = random.choice(commands)
    trial.log(command)
    check(trial.zoo(*command).status == 2, "an endless line is accepted")


def _pipe(random: Random, trial: Trial, texts: list[str]) -> None:
    """Send the lines to a command, as bytes."""
    end = random.choice((b"", b"\n", b"\r\n", b"\xff\n", b"\x00"))
    content = "\n".join(texts).encode("utf-8", "surrogatepass") + end
    trial.install(GOOD)
    if random.random() < 0.3:
        tabs = (b"\t", b"\t", b"\t", b"", b"\t\t")
        pairs = b"".join(each + random.choice(tabs) + b"der\n" for each in content.split(b"\n"))
        done = trial.zoo("score", "--model", GOOD, stdin=pairs)
        check(done.status or len(done.out.split("\n")) - 1 == pairs.count(b"\n"), f"lines: {done.out!r}")
        return
    options = ((), (), ("--n-best", "2"), ("--json",), ("--search", "sample", "--seed", "1"), ("--beam", "1"))
    chosen = random.choice(options)
    done = trial.zoo("decode", "--model", GOOD, *chosen, stdin=content)
    expected = content.count(b"\n") + (not content.endswith(b"\n") and bool(content))
    lines = done.out.split("\n")[:-1]
    check(done.status or len(lines) == expected or "--n-best" in chosen, f"lines: {lines}")


# Command lines

_LONG = {"benchmark", "compile", "serve"}
"""Commands that take long. They get arguments that they must refuse."""
_NAMES = ("own.yaml", "runs/good", GOOD, OTHER, "tiny", "base", "./runs/good", "nope", "nope.yaml", "runs", "own")
_FILES = ("in.txt", "in.txt", "pairs.en", "pairs.de", "out.txt", "new/out.txt", "nope", ".", "link", "fifo", "full")
_PIPE_CLOSED = 141
"""Exit status if the reader of the output is gone."""


def run_arguments(random: Random, trial: Trial) -> None:
    """Run a command with odd arguments and streams; it must not replace files of other kinds or its own input."""
    _write_files(trial)
    words, must_fail = _command_line(random)
    words = [word for word in words if word != "--measure"]  # they train
    stdin, stdout, stderr = _streams(random)
    trial.log(f"streams {stdin!r:.60} {stdout!r:.60} {stderr!r:.60}")
    before = _kinds(trial.folder)
    content = (trial.folder / "in.txt").read_bytes()
    done = trial.zoo(*words, stdin=stdin, stdout=stdout, stderr=stderr, allowed=(0, 1, 2, _PIPE_CLOSED))
    broken = isinstance(stdout, Failing) or isinstance(stderr, Failing)
    check(done.status != _PIPE_CLOSED or broken, "it reports a closed pipe, but none is closed")
    check(not must_fail or done.status, f"{words} was done")
    kept = before.items() <= _kinds(trial.folder).items()
    check(kept or "clean" in words, f"a file has become one of another kind: {before}")
    if "--output" in words and "--input" in words[:-1] and words[words.index("--input") + 1] == "in.txt":
        check((trial.folder / "in.txt").read_bytes() == content, "it has overwritten its input")


def _write_files(trial: Trial) -> None:
    """Write files of all kinds, models, a run, and a spec that trains in a step."""
    folder = trial.folder
    trial.world.write_corpus(folder)
    trial.install(GOOD, OTHER)
    shutil.copytree(trial.world.run, folder / "runs" / "good")
    (folder / "own.yaml").write_text(trial.world.spec.yaml())
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    (folder / "link").symlink_to("in.txt")
    (folder / "full").symlink_to("/dev/full")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")


def _kinds(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IFMT(path.lstat().st_mode) for path in folder.iterdir()}


def _command_line(random: Random) -> tuple[list[str], bool]:
    """Return the words of a command line, and whether the command must fail."""
    commands: dict[str, Any] = typer.main.get_command(build_app()).commands  # type: ignore[attr-defined]
    if random.random() < 0.05:
        return [values.word(random) for _ in range(random.randrange(4))], False
    name = random.choice(sorted(commands))
    if name == "benchmark":
        wrong = (["nope"], ["tiny", "--nope"], ["\udcff"], ["tiny", "--batch", "x"], [""])
        return [name, random.choice(sorted(commands[name].commands)), *random.choice(wrong)], True
    words = [name]
    parameters = [each for each in commands[name].params if each.name != "help"]
    for parameter in (each for each in parameters if each.param_type_name == "argument"):
        words += _argument(random, parameter)
    if name in _LONG:
        return [*words, "--nope"], True
    options = [each for each in parameters if each.param_type_name == "option"]
    for option in random.sample(options, min(len(options), random.choice((0, 1, 2, 2, 3)))):
        words += _option(random, option)
    if name in ("decode", "parse", "score", "evaluate") and random.random() < 0.8:
        words += ["--model", random.choice((GOOD, GOOD, GOOD, *_NAMES))]
    if name == "sweep":  # which would train
        words.append(random.choice(("--list", "--table")))
    if name in ("train", "prepare"):  # a larger spec may take as long as it needs
        words = [name, "own.yaml", *(word for word in words[1:] if word not in _NAMES)]
    return words, False


def _argument(random: Random, parameter: Any) -> list[str]:
    kind = parameter.metavar
    if kind == "KEY=VALUE":
        key = random.choice(("training.seed", "training.seed", "name", "x.y", ""))
        return [f"{key}={random.choice((1, 7, values.word(random)))}"] if random.random() < 0.3 else []
    if not parameter.required and random.random() < 0.5:
        return []
    valid = {"SPEC": ("own.yaml", "own.yaml", "tiny"), "RUN": ("good", "runs/good"), "NAME": (GOOD, OTHER)}
    if random.random() < 0.7:
        return [random.choice(valid.get(kind, _NAMES))]
    return [random.choice((*_NAMES, values.word(random), values.word(random)))]


def _option(random: Random, parameter: Any) -> list[str]:
    name, kind = random.choice(parameter.opts), str(parameter.metavar)
    if getattr(parameter, "is_flag", False):
        return [name] if random.random() < 0.95 else [f"{name}=x"]
    if random.random() < 0.2:
        value = values.word(random)
    elif "FILE" in kind or "DIR" in kind:
        value = random.choice(_FILES)
    elif kind in ("N", "X"):
        usual = random.choice((1, 2, 5, 0.5, 0, -1))
        value = values.digits(random.choice((usual, values.number(random))))
    elif "|" in kind and "NAME" not in kind:
        value = random.choice(kind.split("|"))
    else:
        value = random.choice((GOOD, *_NAMES, "eager", "eager", "cpu", "float32", "int8", "auto"))
    return [f"{name}={value}"] if random.random() < 0.2 else [name, value]


def _streams(random: Random) -> tuple[Stream, Stream, Stream]:
    """Return stdin, stdout and stderr, one of which is broken in a quarter of the cases."""
    pairs = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()
    lines = "".join(f"{line}\n" for line in LINES).encode()
    streams: list[Stream] = [random.choice((b"", lines, lines, pairs, b"\xff\n", b"\x00", b"no end")), b"", b""]
    if random.random() < 0.25:
        which = random.randrange(3)
        errors = (errno.EIO,) if which == 0 else (errno.ENOSPC, errno.EPIPE, errno.EIO)
        streams[which] = random.choice((None, *map(Failing, errors)))
    return streams[0], streams[1], streams[2]
