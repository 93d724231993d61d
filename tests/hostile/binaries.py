"""`model.bin` of CTranslate2 with counts, lengths, shapes and aliases that lie."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from random import Random

import torch

from hostile.foreign import text, variable
from hostile.trial import Trial
from zoo.interop.ctranslate2 import binary

_FILE = "model.bin"
_MANY = (0, 1, 2**31, 2**32 - 1, 10**6, 10**6 + 1, 65_535)


def _head(version: int = 6, name: str = "TransformerSpec", revision: int = 7, count: int = 1) -> bytes:
    return struct.pack("<I", version) + text(name) + struct.pack("<II", revision, count)


def _truncated(draw: Random, place: Path, trial: Trial) -> bool:
    file = place / _FILE
    os.truncate(file, draw.randrange(file.stat().st_size))
    return True


def _followed(draw: Random, place: Path, trial: Trial) -> bool:
    """A hole behind it, larger than any memory, or a little more."""
    file = place / _FILE
    os.truncate(file, draw.choice((1 << 43, 1 << 36, file.stat().st_size + 1)))
    return True


def _head_lies(draw: Random, place: Path, trial: Trial) -> bool:
    """Another version, kind, revision, number of variables."""
    content = (place / _FILE).read_bytes()
    begun = len(_head())
    (count,) = struct.unpack_from("<I", content, begun - 4)
    wrong = draw.choice(
        (
            _head(draw.choice((0, 1, 7, 2**32 - 1)), count=count),
            _head(name=draw.choice(("WhisperSpec", "\x1b[2J", "x" * 60_000)), count=count),
            _head(revision=draw.choice((0, 1, 8, 2**32 - 1)), count=count),
            _head(count=draw.choice((count + 1, count - 1, *_MANY))),
        )
    )
    (place / _FILE).write_bytes(wrong + content[begun:])
    return True


def _made(draw: Random, place: Path, trial: Trial) -> bool:
    """Variables of all sorts, behind each other."""
    count = draw.choice((1, 3, 1000))
    each = draw.choice(
        (
            text("x") + b"\xff" + bytes(2000),
            text("x") + struct.pack("<B8I", 8, *[2**32 - 1] * 8) + struct.pack("<BI", 0, 0),
            text("x") + struct.pack("<B4I", 4, 0, *[2**32 - 1] * 3) + struct.pack("<BI", 0, 0),
            text("x") + struct.pack("<B2I", 2, 0, 2**32 - 1) + struct.pack("<BI", 4, 0),
            text("x") + struct.pack("<BI", 1, 2**31) + struct.pack("<BI", 1, 2**31),
            text("x") + struct.pack("<BI", 1, 4) + struct.pack("<BI", 99, 16) + bytes(16),
            struct.pack("<H", 65_535) + b"x",
            struct.pack("<H", 3) + b"\xff\xfe\0" + struct.pack("<B", 0) + struct.pack("<BI", 1, 1) + b"x",
            struct.pack("<H", 0) + struct.pack("<B", 0) + struct.pack("<BI", 1, 1) + b"x",
        )
    )
    content = _head(count=count) + each * count + struct.pack("<I", 0)
    (place / _FILE).write_bytes(content)
    return True


def _variables(draw: Random, place: Path, trial: Trial) -> bool:
    """Those of a model, with some of another shape or type, gone, or that stand for another one."""
    found = dict(binary.read(place / _FILE).variables)
    aliases: list[tuple[str, str]] = []
    names = sorted(found)
    for _ in range(draw.choice((1, 1, 3))):
        name = draw.choice(names)
        what = draw.randrange(5)
        if what == 0:
            found.pop(name, None)
        elif what == 1:
            shape = draw.choice(((), (0,), (1,), (8,), (3, 8), (8, 8, 8), (24, 8), (0, 0), (2, 2, 2, 2)))
            found[name] = torch.zeros(shape, dtype=draw.choice((torch.float32, torch.int8, torch.int16)))
        elif what == 2:
            scalar = draw.choice(("num_heads", "pre_norm", "activation", "encoder/num_heads", "decoder/pre_norm"))
            found[scalar] = draw.choice(
                (torch.tensor(3, dtype=torch.int8), torch.tensor(-2, dtype=torch.int16), torch.zeros(0), torch.zeros(2))
            )
            found[scalar] = draw.choice((found[scalar], torch.tensor(0, dtype=torch.int8), torch.tensor(float("nan"))))
        elif what == 3:
            unheard = draw.choice(("x", "encoder/layer_9/x", "encoder/layer_x", "decoder/scale_embeddings"))
            unheard = draw.choice((unheard, "encoder/embeddings_1/weight", "decoder/layer_0/self_attention/head_dim"))
            found[unheard] = draw.choice((torch.zeros(2, 3), torch.zeros(0), torch.tensor(float("inf"))))
        else:
            aliases.append((draw.choice((name, "x", "")), draw.choice((*names, "nobody"))))
        trial.tell(f"{name}: {what}")
    each = [variable(name, tensor) for name, tensor in found.items()]
    behind = b"".join(text(alias) + text(of) for alias, of in aliases)
    number = len(aliases) if draw.random() < 0.8 else draw.choice(_MANY)
    (place / _FILE).write_bytes(_head(count=len(each)) + b"".join(each) + struct.pack("<I", number) + behind)
    return False


WAYS = (_truncated, _followed, _head_lies, _made, _variables, _variables)
