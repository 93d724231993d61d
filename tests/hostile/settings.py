"""What stands around a foreign model's numbers: settings, lists of tokens, SentencePiece models, headers."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import yaml

from hostile import headers, values, vocabularies
from hostile.trial import Trial

_NESTED = ("[" * 100_000, '{"a":' * 100_000, '{"a": ' + "[" * 3_000 + "]" * 3_000 + "}")


def _json(draw: Random, file: Path, trial: Trial) -> None:
    """A value or a key of it changed, or all of it something else."""
    tree: Any = json.loads(file.read_text())
    if draw.random() < 0.75:
        for _ in range(draw.choice((1, 1, 2))):
            trial.tell(values.bitten(draw, tree) if values.places(tree) else "nothing is left")
        text = json.dumps(values.writable(tree))
    else:
        whole = file.read_text()
        some = (
            *_NESTED,
            "",
            "null",
            "[]",
            "1",
            '"x"',
            "NaN",
            f"{whole}{whole}",
            whole + " " * 30_000_000,
            f"\ufeff{whole}",
        )
        text = draw.choice(
            (*some, whole.replace("{", '{"dropout": NaN, ', 1), whole.replace("{", '{"d_model": 1e999, ', 1))
        )
    file.write_bytes(text.encode(draw.choice(("utf-8", "utf-8", "utf-8", "utf-16")), "surrogatepass"))


def transformers(draw: Random, place: Path, trial: Trial) -> bool:
    """`config.json`: of wrong types, without bounds."""
    file = place / draw.choice(("config.json", "config.json", "config.json", "tokenizer_config.json"))
    if draw.random() < 0.3:
        said = json.loads(file.read_text())
        key = draw.choice(("d_model", "vocab_size", "encoder_layers", "eos_token_id", "pad_token_id", "num_beams"))
        key = draw.choice((key, "max_length", "bad_words_ids", "decoder_start_token_id", "max_position_embeddings"))
        number = draw.choice((10**9, 10**12, 10**400, -1, 0, 100, 101, 2**63, 0.5, True, [10**9], [[10**30]], [["x"]]))
        said[key] = number
        trial.tell(f"{key}: {number!r:.100}")
        file.write_text(json.dumps(said if draw.random() < 0.9 else {key: number, **said, "model_type": "marian"}))
    elif draw.random() < 0.2:
        (place / "generation_config.json").write_text(json.dumps({"num_beams": values.value(draw)}))
        _json(draw, place / "generation_config.json", trial)
    else:
        _json(draw, file, trial)
    return False


def vocabulary(draw: Random, place: Path, trial: Trial) -> bool:
    """`vocab.json` with numbers twice, holes, numbers out of all bounds, tokens that are no text."""
    file = place / "vocab.json"
    found = json.loads(file.read_text())
    names = sorted(found)
    what = draw.randrange(6)
    if what == 0:
        found[draw.choice(names)] = draw.choice((5, -1, 10**6, 2**20, 10**30, 1.5, None, "1", True, [1], 101, 102))
    elif what == 1:
        for name in draw.sample(names, draw.choice((1, 50))):
            found.pop(name)
    elif what == 2:
        found[draw.choice(("", "\ud800", "\0", "\x1b[2J", "x" * 100_000, ">>deu<<", "<unk>", "▁"))] = 101
    elif what == 3:
        found = dict.fromkeys(names, draw.choice((0, 7)))
    elif what == 4:
        found |= {f"w{number}": number for number in range(101, draw.choice((200, 300_000)))}
    else:
        _json(draw, file, trial)
        return False
    trial.tell(what)
    file.write_text(json.dumps(found))
    return False


def tokens(draw: Random, place: Path, trial: Trial) -> bool:
    """A SentencePiece model with loops of lengths, fields of other kinds, tokens in another order."""
    file = draw.choice([path for path in sorted(place.iterdir()) if path.suffix in (".spm", ".model")])
    good = file.read_bytes()
    whole = b"\xff" * 9 + b"\x01"
    wrong = (
        *(b"\x0a" + whole, b"\x0a" + b"\xff" * 30, b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", b"\x0b" * 1000),
        *(b"\x0a\x02\x0a\x7f", b"\x08\x01" * 1000, b"\x0a\x00" * 100_000, b"\x0c", b"\x07", b"\x0a" + b"\x0a" * 5000),
        *(good + b"\x0a" + whole, good[:-1], good * 2, b"\x12\x02\x18\x63" + good, good + b"\x12\x04\x18\xff\xff\x7f"),
        *(good + b"\x12\x02\x18\x03", good + b"\x1a\x06\x12\x04\xff\xff\xff\xff", b"", b"\x00" * 100),
    )
    if draw.random() < 0.4:
        content = draw.choice(wrong)
    else:
        content = vocabularies.edited(draw, good) if draw.random() < 0.7 else values.damaged(draw, good)
    trial.tell(f"{file.name}: {len(content)} bytes, {content[:40]!r}")
    file.write_bytes(content)
    return False


def header(draw: Random, place: Path, trial: Trial) -> bool:
    """A safetensors header that is huge, or lies."""
    file = place / "model.safetensors"
    if draw.random() < 0.2:
        content = file.read_bytes()
        file.write_bytes(draw.choice(((1 << 62).to_bytes(8, "little"), b"\xff" * 8, bytes(8), b"")) + content[8:])
        return True
    before = file.read_bytes()
    trial.tell(headers.forged(draw, file, facts=False))
    return file.read_bytes() != before


def marian(draw: Random, place: Path, trial: Trial) -> bool:
    """`decoder.yml` of wrong types, deep, huge."""
    file = place / "model.npz.decoder.yml"
    text = file.read_text()
    if draw.random() < 0.6:
        tree = yaml.safe_load(text)
        trial.tell(values.bitten(draw, tree))
        text = yaml.dump(values.writable(tree))
    else:
        deep = draw.choice((30, 5_000, 45_000))
        laughs = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'lol'}]\n" for n in range(30))
        text = draw.choice(
            (
                *(
                    f"x: {'[' * deep}{']' * deep}\n{text}",
                    f"{laughs}{text}",
                    f"{text}unheard: 1\n",
                    "",
                    "[]",
                    "a: [",
                    "\x00",
                ),
                *(
                    f"{text}x: !!python/object/apply:os.mkdir [pwned]\n",
                    f"{text}# {'x' * 200_000}\n",
                    f"{text}---\n{text}",
                ),
                *(f"{text}beam-size: 0\n", text.replace("2", "1000000000000"), text.replace("0.6", ".nan")),
                *(text.replace("0.6", "1e999"), text.replace("0.6", "-1"), f"{text}max-length-factor: {10**400}\n"),
            )
        )
    file.write_bytes(text.encode(draw.choice(("utf-8", "utf-8", "latin-1", "utf-16")), "replace"))
    return False


def marian_out(draw: Random, place: Path, trial: Trial) -> bool:
    """`decoder.yml` that names files outside of its folder: what is called so within is taken, or nothing."""
    outside = trial.folder / "secret"
    name = draw.choice(("../secret", str(outside), f"x/../../{outside.name}", "/dev/zero", "/etc/passwd", "~/secret"))
    key = draw.choice(("models", "vocabs"))
    tree = yaml.safe_load((place / "model.npz.decoder.yml").read_text())
    tree[key] = [name] * len(tree[key])
    trial.tell(f"{key}: {name}")
    (place / "model.npz.decoder.yml").write_text(yaml.dump(tree))
    return True


def ctranslate2(draw: Random, place: Path, trial: Trial) -> bool:
    """Settings and the list of tokens."""
    file = place / draw.choice(("config.json", "config.json", "shared_vocabulary.json"))
    if file.name != "config.json" and draw.random() < 0.5:
        listed = json.loads(file.read_text())
        file.unlink()
        text = "\n".join(listed[: draw.choice((50, 100, 101))])
        wrong = (text.encode(), text.encode("utf-16"), b"\xff\xfe", b"\n" * 101, b"", b"\r\n" * 101, b"<unk>\n" * 101)
        (place / "shared_vocabulary.txt").write_bytes(draw.choice(wrong))
    else:
        _json(draw, file, trial)
    return False


def dictionary(draw: Random, place: Path, trial: Trial) -> bool:
    """`dict.en.txt` with lines that are none."""
    file = place / draw.choice(("dict.en.txt", "dict.de.txt"))
    lines = file.read_bytes().splitlines()
    line = draw.choice(
        (
            *(
                b"the 9",
                b"x",
                b"x y",
                b"x 1.5",
                b" 5",
                b"5",
                b"\xff 5",
                b"x -1",
                b"x \xd9\xa3",
                b"the 9 #fairseq:overwrite",
            ),
            *(b"<pad> 5", b"\x1b[2J 5", b"x" * 1_000_000 + b" 1", b"x " + b"9" * 100_000, b"\0 5", b"a\rb 5", b"new 5"),
            b"\xe2\x96\x81x 5",
        )
    )
    lines.insert(draw.randrange(len(lines) + 1), line)
    trial.tell(f"{line[:60]!r}")
    file.write_bytes(b"\n".join(lines) + draw.choice((b"\n", b"", b"\n" * 100_000)))
    return True
