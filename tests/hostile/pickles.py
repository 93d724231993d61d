"""Pickles that would execute something, or hold what no model does: `.bin` of transformers, `.pt` of fairseq."""

from __future__ import annotations

import argparse
import io
import os
import pickle
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import safetensors.torch
import torch

from hostile import values
from hostile.trial import Trial


class Bomb:
    """Who unpickles it makes a folder."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("pwned",)


class _Called:
    """Who unpickles it calls something by name: no module of ours, nor of Python's that is known as harmless."""

    def __init__(self, module: str, name: str, *given: object) -> None:
        self.module, self.name, self.given = module, name, given

    def written(self, protocol: int) -> bytes:
        """By hand, since pickle looks names up."""
        given = b"".join(pickle.dumps(each, 2)[2:-1] for each in self.given)
        begun = b"\x80" + bytes([protocol])
        if protocol < 4:
            return begun + f"c{self.module}\n{self.name}\n".encode() + b"(" + given + b"tR."
        named = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (self.module, self.name))
        return begun + named + b"\x93(" + given + b"tR."


_CALLS = (
    _Called("os", "mkdir", "pwned"),
    _Called("posix", "system", "mkdir pwned"),
    _Called("builtins", "eval", "__import__('os').mkdir('pwned')"),
    _Called("builtins", "getattr", 1, "real"),
    _Called("__builtin__", "exec", "import os; os.mkdir('pwned')"),
    _Called("subprocess", "Popen", ["mkdir", "pwned"]),
    _Called("torch.hub", "load", "x", "y"),
    _Called("torch.serialization", "os.mkdir", "pwned"),
    _Called("torch", "load", "secret"),
    _Called("fairseq.data", "os.mkdir", "pwned"),
    _Called("numpy.core.multiarray", "_reconstruct", 1),
    _Called("pathlib", "Path", "secret"),
    _Called("builtins", "bytearray", 1 << 36),
    _Called("builtins", "list", 1),
    _Called("builtins", "int", "9" * 100_000),
    _Called("collections", "defaultdict", 5),
    _Called("torch._utils", "_rebuild_tensor_v2", 1, 2, 3),
    _Called("torch", "FloatStorage", 1 << 40),
)


def _legacy(content: bytes) -> bytes:
    """As torch wrote files before there were zips."""
    heads = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    return b"".join(pickle.dumps(each, 2) for each in heads) + content + pickle.dumps([], 2)


def _zipped(content: bytes) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", content)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", bytes(64))
    return into.getvalue()


def _put(draw: Random, file: Path, content: bytes) -> None:
    file.write_bytes(draw.choice((_zipped, _zipped, _legacy, bytes))(content))


def _in_bin(draw: Random, place: Path, trial: Trial) -> Path:
    (place / "model.safetensors").unlink()
    return place / "pytorch_model.bin"


def _in_pt(draw: Random, place: Path, trial: Trial) -> Path:
    return place / "checkpoint_best.pt"


def _calling(draw: Random, file: Path, trial: Trial) -> None:
    """One that calls something."""
    called = draw.choice(_CALLS)
    trial.tell(f"{called.module}.{called.name}")
    _put(draw, file, called.written(draw.choice((2, 2, 4))))


def _hidden(draw: Random, file: Path, trial: Trial) -> None:
    """Among what is as it must be."""
    held = {"model": {"encoder.version": torch.zeros(1)}, "args": argparse.Namespace(x=Bomb()), "extra": Bomb()}
    content = io.BytesIO()
    torch.save(held, content, _use_new_zipfile_serialization=draw.random() < 0.6)
    file.write_bytes(content.getvalue())


def _broken(draw: Random, file: Path, trial: Trial) -> None:
    """Streams that end, that promise gigabytes, that loop, that are something else."""
    many = b"".join(b"]" for _ in range(draw.choice((10, 100_000))))
    streams = (
        *(b"", b".", b"\x80\x02", b"\x80\x02}q\x00.", b"\x80\x02].", b"\x80\x02K\x01.", b"garbage" * 100),
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b".",
        b"\x80\x02\x8b\xff\xff\xff\x7f\x01.",
        b"\x80\x02" + many + b".",
        b"\x80\x02]q\x00h\x00a.",
        b"\x80\x02}q\x00X\x05\x00\x00\x00modelq\x01h\x00s.",
        b"\x80\x02h\x05.",
        b"\x80\x02r\xff\xff\xff\xff.",
        b"\x80\x02(((((tttt.",
        b"\x80\x02}X\x05\x00\x00\x00modelX\x01\x00\x00\x00xs.",
    )
    _put(draw, file, draw.choice(streams))


def _wrapped(draw: Random, file: Path, trial: Trial) -> None:
    """What torch reads, and is no model."""
    tensors = {"a": torch.zeros(2)}
    held: Any = draw.choice(
        (
            *([], {}, None, 5, "x", torch.zeros(3), {1: torch.zeros(1)}, {"model": 1}, {"model": {}, "args": None}),
            *({"model": tensors, "args": []}, {"model": tensors, "cfg": {"model": 5}}, {"model": {1: tensors["a"]}}),
            {"model": tensors, "args": argparse.Namespace(encoder_layers=10**12, encoder_embed_dim=10**12)},
        )
    )
    trial.tell(f"{held!r:.200}")
    torch.save(held, file)


def _of(where: Any, way: Any) -> Any:
    def made(draw: Random, place: Path, trial: Trial) -> bool:
        way(draw, where(draw, place, trial), trial)
        return True

    made.__name__ = way.__name__
    return made


_WAYS = (_calling, _calling, _hidden, _broken, _wrapped)
IN_BIN = tuple(_of(_in_bin, way) for way in _WAYS)
IN_PT = tuple(_of(_in_pt, way) for way in _WAYS)


def options(draw: Random, place: Path, trial: Trial) -> bool:
    """Of fairseq: options that are deep, that hold each other, of other types; tensors of other shapes."""
    file = place / "checkpoint_best.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        held = torch.load(file, weights_only=True)
    said, model = vars(held["args"]), held["model"]
    what = draw.randrange(6)
    if what == 0:
        laughs: Any = ["lol"]
        for _ in range(draw.choice((6, 40))):
            laughs = [laughs] * 9
        said["laughs"] = laughs
    elif what == 1:
        said["deep"] = values.nested(draw, draw.choice((50, 300)))
    elif what == 2:
        said["itself"] = said
    elif what == 3:
        said[draw.choice(sorted(said))] = values.value(draw)
    elif what == 4:
        said[draw.choice(("encoder_layers", "encoder_embed_dim", "encoder_attention_heads"))] = values.number(draw)
    else:
        name = draw.choice(sorted(model))
        shape = draw.choice(((), (0,), (1, 1), (8,), (2, 2, 2), (7, 8)))
        kind = draw.choice((torch.float32, torch.int8, torch.bool, torch.complex64, torch.float16))
        model[name] = torch.zeros(shape, dtype=kind)
        trial.tell(name)
    trial.tell(what)
    torch.save({**held, "args": argparse.Namespace(**said)}, file)
    return False


def tensors(place: Path) -> dict[str, torch.Tensor]:
    """Of a folder of transformers."""
    return safetensors.torch.load_file(place / "model.safetensors")
