"""Hostile weight files of other toolkits: numpy archives (Marian), `model.bin` (CTranslate2), and pickles."""

from __future__ import annotations

import argparse
import io
import os
import pickle
import struct
import zipfile
from collections.abc import Callable
from math import prod
from pathlib import Path
from random import Random
from typing import Any

import torch
import yaml

from hostile import values
from hostile.data import CHUNK, deflate_end, deflated_zeros, lock_first_member
from hostile.trial import Trial
from hostile.world import D_FF, MARIAN_OPTIONS, D, ctranslate2_text, ctranslate2_variable
from zoo.interop.ctranslate2 import binary

Damage = Callable[[Random, Path, Trial], bool | None]


class _Bomb:
    """An object that creates a folder when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("pwned",)


def _truncate(name: str) -> Damage:
    def truncated(random: Random, folder: Path, trial: Trial) -> bool:
        file = folder / name
        os.truncate(file, random.randrange(file.stat().st_size - 22))
        return True

    return truncated


# Marian: an archive of numpy arrays

_NPZ = "model.npz"
_OPTIONS = "special:model.yml.npy"
_HUGE = 3 << 30


def _npy(header: Any, content: bytes, version: int = 1) -> bytes:
    """Return a numpy file with this header, which may be a text to write as it is."""
    text = (header if isinstance(header, str) else repr(header)).encode("latin-1", "replace")
    length = struct.pack("<H" if version == 1 else "<I", len(text) % (1 << (16 if version == 1 else 32)))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text + content


def _header(shape: Any, kind: str = "<f4") -> dict[str, Any]:
    return {"descr": kind, "fortran_order": False, "shape": shape}


def _read_npz(folder: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(folder / _NPZ) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _write_npz(folder: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(folder / _NPZ, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name.encode("utf-8", "replace").decode(), content)


def _npz_header(random: Random, folder: Path, trial: Trial) -> bool:
    """Write impossible or huge shapes and types, or headers that are code."""
    members = _read_npz(folder)
    name = random.choice(sorted(members))
    shapes = ((2**62, 2**62), (10**9, 10**3), (-1, 8), (-(2**40),), (8, -8), (2**64,), (0, 8), (1,) * 70, ())
    kinds = ("|O", "<f8,<f8", "|V999999999", "<U1000000", "<c16", "|S8", "<i4", "<M8[ns]", "", "x" * 5000)
    call = "__import__('os').mkdir('pwned')"
    texts = ("{" * 5000, "[" * 60_000, call, "{'descr': (", "9" * 6000, "\0" * 40, "()", f"{{'descr': {call}}}")
    wrong_shape, wrong_kind = _header(random.choice(shapes)), _header((8, 8), random.choice(kinds))
    header = random.choice((wrong_shape, wrong_shape, wrong_kind, random.choice(texts)))
    members[name] = _npy(header, bytes(256), random.choice((1, 2, 3, 9)))
    trial.log(f"{name}: {header!r:.200}")
    _write_npz(folder, members)
    return True


def _npz_objects(random: Random, folder: Path, trial: Trial) -> bool:
    """Write arrays of objects, which numpy would unpickle."""
    members = _read_npz(folder)
    content = pickle.dumps(_Bomb())
    members[random.choice(sorted(members))] = random.choice((content, _npy(_header((1,), "|O"), content)))
    _write_npz(folder, members)
    return True


def _npz_bomb(random: Random, folder: Path, trial: Trial) -> bool:
    """Write gigabytes of zeros as one matrix, or as the options; half of the time the file only claims to have them."""
    name = random.choice(("Wemb.npy", _OPTIONS, "encoder_l1_self_Wq.npy", "unheard.npy"))
    members = _read_npz(folder)
    start = _npy(_header((_HUGE,), "|i1") if name == _OPTIONS else _header((_HUGE // 32, 8)), b"")
    deflated = random.random() < 0.5
    if deflated:
        # One block that is not compressed: 0, length, and its complement; then the zeros.
        block = b"\0" + struct.pack("<HH", len(start), len(start) ^ 0xFFFF) + start
        members[name] = block + deflated_zeros() * (_HUGE // CHUNK) + deflate_end()
    else:
        members[name] = start + bytes(1000)
    _write_npz(folder, members)
    content = bytearray((folder / _NPZ).read_bytes())
    _claim_size(content, name, len(start) + _HUGE, deflated=deflated)
    (folder / _NPZ).write_bytes(content)
    return True


def _claim_size(content: bytearray, name: str, size: int, *, deflated: bool) -> None:
    """Change the size of a member in the directory of a zip file, and mark it as compressed."""
    at = content.index(b"PK\x01\x02")
    while content[at : at + 4] == b"PK\x01\x02":
        length, extra, comment = struct.unpack_from("<HHH", content, at + 28)
        if content[at + 46 : at + 46 + length] == name.encode():
            struct.pack_into("<I", content, at + 24, size)
            if deflated:
                (start,) = struct.unpack_from("<I", content, at + 42)
                struct.pack_into("<H", content, at + 10, zipfile.ZIP_DEFLATED)
                struct.pack_into("<H", content, start + 8, zipfile.ZIP_DEFLATED)
        at += 46 + length + extra + comment


def _npz_members(random: Random, folder: Path, trial: Trial) -> bool:
    """Add members with hostile names, twice, or too many, or lock one."""
    members = _read_npz(folder)
    name = random.choice(("../../pwned", "/pwned", "a/b.npy", "\x1b[2J.npy", "x" * 5000))
    many = {f"m{number}.npy": b"" for number in range(3000)}
    added = random.choice(({name: b"x"}, {"Wemb": members["Wemb.npy"]}, many, {}))
    _write_npz(folder, members | added, random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    if not added:
        (folder / _NPZ).write_bytes(lock_first_member(random, (folder / _NPZ).read_bytes()))
    return True


def _npz_options(random: Random, folder: Path, trial: Trial) -> bool:
    """Write model options that are too deep, too large, not YAML, or unknown."""
    good = yaml.safe_dump(MARIAN_OPTIONS)
    sizes = random.choice((10**12, 10**400, -8, 0, 7, "[8]", "8.0", "x", "~", 2, "1e3", "{}", 10**6, 3, "true"))
    option = random.choice(("dim-emb: 8", "dec-depth: 1", "transformer-heads: 2", "transformer-dim-ffn: 12"))
    changed = good.replace(option, f"{option.partition(':')[0]}: {sizes}")
    tied = random.choice(("[2]", "[0]", "[1, 1]", "[[1]]", "{1: 1}", "x"))
    before = [f"x: {nested}" for nested in values.nests(random.choice((30, 5_000, 90_000)))]
    call = "x: !!python/object/apply:os.mkdir [pwned]"
    after = ("unheard-of: 1", f"# {'x' * 2_000_000}", f"---\n{good}", call, f"transformer-tied-layers: {tied}")
    added = [*(f"{line}\n{good}" for line in (*before, values.LAUGHS)), *(f"{good}{line}\n" for line in after)]
    alone = ("", "[]", "1", "a: [", "\xff\xfe", "x: &x [*x]", "&a [*a, *a]")
    text = random.choice((*added, *alone, changed, changed, changed))
    trial.log(f"{len(text)} characters: {text[:200]!r}")
    content = text.encode("latin-1") + random.choice((b"\0", b"", b"\0\0\xff"))
    _write_npz(folder, {**_read_npz(folder), _OPTIONS: _npy(_header((len(content),), "|i1"), content)})
    # A true head count of 1, or tied layers that are the layer itself, may still describe the model.
    return text not in (changed, f"{good}transformer-tied-layers: [1, 1]\n")


def _npz_tensors(random: Random, folder: Path, trial: Trial) -> bool:
    """Remove, rename, truncate or reshape a matrix."""
    members = _read_npz(folder)
    name = random.choice([each for each in sorted(members) if each != _OPTIONS])
    content = members.pop(name)
    other = random.choice(("x", "Wemb2.npy", f"{values.word(random)[:50]}.npy".replace("\0", "")))
    shape = random.choice(((4, 4), (8,), (1, 1), (2, 2, 2), (0, 0)))
    truncated = content[: random.randrange(len(content))]
    changes = ({}, {other: content}, {name: _npy(_header(shape), bytes(4 * prod(shape)))}, {name: truncated})
    changed = random.choice(changes)
    trial.log(f"{name}: {changed!r:.200}")
    _write_npz(folder, members | changed)
    return True


NPZ: tuple[Damage, ...] = (
    *(_truncate(_NPZ), _npz_header, _npz_header, _npz_objects, _npz_bomb, _npz_members),
    *(_npz_options, _npz_options, _npz_tensors),
)

# CTranslate2: a binary file

_BIN = "model.bin"
_COUNTS = (0, 1, 2**31, 2**32 - 1, 10**6, 10**6 + 1, 65_535)


def _head(version: int = 6, name: str = "TransformerSpec", revision: int = 7, count: int = 1) -> bytes:
    return struct.pack("<I", version) + ctranslate2_text(name) + struct.pack("<II", revision, count)


def _too_long(random: Random, folder: Path, trial: Trial) -> bool:
    file = folder / _BIN
    os.truncate(file, random.choice((1 << 43, 1 << 36, file.stat().st_size + 1)))
    return True


def _wrong_head(random: Random, folder: Path, trial: Trial) -> bool:
    """Write another version, kind, revision or number of variables."""
    content = (folder / _BIN).read_bytes()
    length = len(_head())
    (count,) = struct.unpack_from("<I", content, length - 4)
    fields: dict[str, Any] = {"count": count}
    wrong = {
        ("version",): (0, 1, 7, 2**32 - 1),
        ("name",): ("WhisperSpec", "\x1b[2J", "x" * 60_000),
        ("revision",): (0, 1, 8, 2**32 - 1),
        ("count",): (count + 1, count - 1, *_COUNTS),
    }
    trial.log(values.edit(random, fields, wrong))
    (folder / _BIN).write_bytes(_head(**fields) + content[length:])
    return True


def _wrong_variables(random: Random, folder: Path, trial: Trial) -> bool:
    """Write variables whose names, shapes, types or sizes are invalid."""
    count, name, one = random.choice((1, 3, 1000)), ctranslate2_text("x"), struct.pack("<BI", 1, 1) + b"x"
    variable = random.choice(
        (
            name + b"\xff" + bytes(2000),
            name + struct.pack("<B8I", 8, *[2**32 - 1] * 8) + struct.pack("<BI", 0, 0),
            name + struct.pack("<B4I", 4, 0, *[2**32 - 1] * 3) + struct.pack("<BI", 0, 0),
            name + struct.pack("<B2I", 2, 0, 2**32 - 1) + struct.pack("<BI", 4, 0),
            name + struct.pack("<BI", 1, 2**31) + struct.pack("<BI", 1, 2**31),
            name + struct.pack("<BI", 1, 4) + struct.pack("<BI", 99, 16) + bytes(16),
            struct.pack("<H", 65_535) + b"x",
            struct.pack("<H", 3) + b"\xff\xfe\0\0" + one,
            struct.pack("<HB", 0, 0) + one,
        )
    )
    (folder / _BIN).write_bytes(_head(count=count) + variable * count + struct.pack("<I", 0))
    return True


def _changed_variables(random: Random, folder: Path, trial: Trial) -> None:
    """Reshape, retype, remove or alias some variables of a model."""
    tensors = dict(binary.read(folder / _BIN).variables)
    aliases: list[tuple[str, str]] = []
    names = sorted(tensors)
    scalars = ("num_heads", "pre_norm", "activation", "encoder/num_heads", "decoder/pre_norm")
    unknown = ("x", "encoder/layer_9/x", "encoder/layer_x", "decoder/scale_embeddings", "encoder/embeddings_1/weight")
    odd = [torch.tensor(number) for number in (float("nan"), float("inf"))]
    odd += [torch.tensor(number, dtype=torch.int8) for number in (3, -2, 0)]
    odd += [torch.zeros(shape) for shape in ((0,), (2,), (2, 3))]
    shapes = ((), (0,), (1,), (8,), (3, 8), (8, 8, 8), (24, 8), (0, 0), (2, 2, 2, 2))
    types = (torch.float32, torch.int8, torch.int16)
    for _ in range(random.choice((1, 1, 3))):
        reshaped = torch.zeros(random.choice(shapes), dtype=random.choice(types))
        wrong = {
            (random.choice(sorted(tensors)),): (values.DELETED, reshaped),
            (random.choice(scalars),): odd,
            (random.choice((*unknown, "decoder/layer_0/self_attention/head_dim")),): odd,
        }
        if random.random() < 0.8:
            trial.log(values.edit(random, tensors, wrong))
        else:
            aliases.append((random.choice((*names, "x", "")), random.choice((*names, "unknown"))))
    content = _head(count=len(tensors)) + b"".join(ctranslate2_variable(*item) for item in tensors.items())
    count = len(aliases) if random.random() < 0.8 else random.choice(_COUNTS)
    end = b"".join(ctranslate2_text(alias) + ctranslate2_text(name) for alias, name in aliases)
    (folder / _BIN).write_bytes(content + struct.pack("<I", count) + end)


def _many_aliases(random: Random, folder: Path, trial: Trial) -> bool:
    """Write thousands of layers that are all the same 8-bit integers: as float32 copies they fill any memory."""
    factor, layers = random.choice(((8, 5_000), (32, 1_500), (64, 500)))
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in binary.read(folder / _BIN).variables.items():
        shape = [size * factor if size % 8 == 0 else size for size in tensor.shape]
        tensors[name] = torch.zeros(shape, dtype=torch.int8 if len(shape) == 2 else tensor.dtype)
        if len(shape) == 2:
            tensors[f"{name}_scale"] = torch.ones(shape[0])
        elif not shape:
            tensors[name] = tensor
    content = _head(count=len(tensors)) + b"".join(ctranslate2_variable(*item) for item in tensors.items())
    first = [name for name in tensors if "/layer_0/" in name and not name.endswith("_scale")]
    aliases = [(name.replace("/layer_0/", f"/layer_{layer}/"), name) for layer in range(1, layers) for name in first]
    end = b"".join(ctranslate2_text(alias) + ctranslate2_text(name) for alias, name in aliases)
    (folder / _BIN).write_bytes(content + struct.pack("<I", len(aliases)) + end)
    trial.log(f"{layers} layers, {8 * factor} wide: {(folder / _BIN).stat().st_size:,} bytes")
    return True


CTRANSLATE2: tuple[Damage, ...] = (
    *(_truncate(_BIN), _too_long, _wrong_head, _wrong_variables, _changed_variables, _changed_variables),
    _many_aliases,
)

# transformers and fairseq: pickles

_CALLS: tuple[tuple[Any, ...], ...] = (
    ("os", "mkdir", "pwned"),
    ("posix", "system", "mkdir pwned"),
    ("builtins", "eval", "__import__('os').mkdir('pwned')"),
    ("builtins", "getattr", 1, "real"),
    ("__builtin__", "exec", "import os; os.mkdir('pwned')"),
    ("subprocess", "Popen", ["mkdir", "pwned"]),
    ("torch.hub", "load", "x", "y"),
    ("torch.serialization", "os.mkdir", "pwned"),
    ("torch", "load", "secret"),
    ("fairseq.data", "os.mkdir", "pwned"),
    ("numpy.core.multiarray", "_reconstruct", 1),
    ("pathlib", "Path", "secret"),
    ("builtins", "bytearray", 1 << 36),
    ("builtins", "list", 1),
    ("builtins", "int", "9" * 100_000),
    ("collections", "defaultdict", 5),
    ("torch._utils", "_rebuild_tensor_v2", 1, 2, 3),
    ("torch", "FloatStorage", 1 << 40),
)
"""Modules, functions and arguments that a pickle may call."""


def _call_pickle(protocol: int, module: str, name: str, *arguments: object) -> bytes:
    """Return a pickle that calls a function; it is written by hand, because pickle would look the function up."""
    pickled = b"".join(pickle.dumps(each, 2)[2:-1] for each in arguments)
    start = b"\x80" + bytes([protocol])
    if protocol < 4:
        return start + f"c{module}\n{name}\n".encode() + b"(" + pickled + b"tR."
    names = b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in (module, name))
    return start + names + b"\x93(" + pickled + b"tR."


def _write_pickle(random: Random, file: Path, content: bytes) -> None:
    """Write a pickle in one of the formats of torch: a zip, the format before zips, or nothing but the pickle."""
    heads = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    legacy = b"".join(pickle.dumps(each, 2) for each in heads) + content + pickle.dumps([], 2)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        parts = {"data.pkl": content, "version": b"3\n", "byteorder": b"little", "data/0": bytes(64)}
        for name, part in parts.items():
            archive.writestr(f"archive/{name}", part)
    file.write_bytes(random.choice((buffer.getvalue(), buffer.getvalue(), legacy, content)))


def _pickle_calls(random: Random, file: Path, trial: Trial) -> None:
    call = random.choice(_CALLS)
    trial.log(call)
    _write_pickle(random, file, _call_pickle(random.choice((2, 2, 4)), *call))


def _pickle_grows(random: Random, file: Path, trial: Trial) -> None:
    """Double a text with calls that tensors or options need, until it has gigabytes."""
    text = b"X\x05\x00\x00\x00model"
    encoded = b"c_codecs\nencode\n(" + text + b"X\x06\x00\x00\x00latin1tRq\x00"
    doubled = b"c_codecs\nencode\n(h\x00X\x03\x00\x00\x00hextRq\x00"
    listed = b"c%s\nstr\n(](h\x00h\x00etRq\x00" % random.choice((b"builtins", b"__builtin__"))
    start, step = random.choice(((encoded, doubled), (text + b"q\x00", listed)))
    _write_pickle(random, file, b"\x80\x02" + start + step * random.choice((27, 31, 40)) + b".")


def _pickle_in_capitals(random: Random, file: Path, trial: Trial) -> None:
    """Write a pickle's name in capitals: torch's reader of zip files finds it, too."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/version", b"3\n")
        name = random.choice(("DATA.PKL", "data.PKL", "Data.pkl"))
        archive.writestr(f"archive/{name}", _call_pickle(2, *random.choice(_CALLS)))


def _pickle_hidden(random: Random, file: Path, trial: Trial) -> None:
    """Hide a call among valid content."""
    content = {"model": {"encoder.version": torch.zeros(1)}, "args": argparse.Namespace(x=_Bomb()), "extra": _Bomb()}
    torch.save(content, file, _use_new_zipfile_serialization=random.random() < 0.6)


def _pickle_broken(random: Random, file: Path, trial: Trial) -> None:
    """Write pickles that end early, claim gigabytes, or contain themselves."""
    deep = b"]" * random.choice((10, 100_000))
    model = b"X\x05\x00\x00\x00model"
    claims = (b"X\xff\xff\xff\x7fabc.", b"\x8b\xff\xff\xff\x7f\x01.", b"r\xff\xff\xff\xff.", deep + b".")
    loops = (b"]q\x00h\x00a.", b"}q\x00" + model + b"q\x01h\x00s.", b"h\x05.", b"(((((tttt.")
    others = (b"", b"}q\x00.", b"].", b"K\x01.", b"}" + model + b"X\x01\x00\x00\x00xs.")
    streams = [b"\x80\x02" + each for each in (*claims, *loops, *others)]
    more = (b"", b".", b"garbage" * 100, b"\x80\x04\x8e" + (1 << 40).to_bytes(8, "little") + b".")
    _write_pickle(random, file, random.choice((*streams, *more)))


def _pickle_no_model(random: Random, file: Path, trial: Trial) -> None:
    tensors = {"a": torch.zeros(2)}
    huge = argparse.Namespace(encoder_layers=10**12, encoder_embed_dim=10**12)
    content: Any = random.choice(
        (
            *([], {}, None, 5, "x", torch.zeros(3), {1: torch.zeros(1)}, {"model": 1}, {"model": {}, "args": None}),
            *({"model": tensors, "args": []}, {"model": tensors, "cfg": {"model": 5}}, {"model": {1: tensors["a"]}}),
            {"model": tensors, "args": huge},
        )
    )
    trial.log(f"{content!r:.200}")
    torch.save(content, file)


def _pickle_without_values(random: Random, file: Path, trial: Trial) -> None:
    """Save tensors that have shapes but no values."""
    try:
        with torch.serialization.safe_globals([argparse.Namespace]):
            content = torch.load(file, weights_only=True)
    except (OSError, RuntimeError):  # the model has no file of this kind
        content = {"model.shared.weight": torch.zeros(2, 2)}
    tensors = content.get("model", content)
    for name in random.sample(sorted(tensors), random.choice((1, len(tensors)))):
        tensors[name] = tensors[name].to("meta")
    torch.save(content, file)


def _in_file(name: str, change: Callable[[Random, Path, Trial], None]) -> Damage:
    def damage(random: Random, folder: Path, trial: Trial) -> bool:
        (folder / "model.safetensors").unlink(missing_ok=True)
        change(random, folder / name, trial)
        return True

    damage.__name__ = change.__name__
    return damage


def _fairseq_content(random: Random, folder: Path, trial: Trial) -> None:
    """Write fairseq options that are too deep or of other types, or tensors of other shapes."""
    file = folder / "checkpoint_best.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(file, weights_only=True)
    options, model = vars(content["args"]), content["model"]
    laughs: Any = ["lol"]
    for _ in range(random.choice((6, 40))):
        laughs = [laughs] * 9
    shape = random.choice(((), (0,), (1, 1), (8,), (2, 2, 2), (7, 8)))
    kinds = (torch.float32, torch.int8, torch.bool, torch.complex64, torch.float16)
    sizes = ("encoder_layers", "encoder_embed_dim", "encoder_attention_heads")
    reshaped = torch.zeros(shape, dtype=random.choice(kinds))
    changes: tuple[tuple[dict[str, Any], str, Any], ...] = (
        (options, "laughs", laughs),
        (options, "deep", values.nested(random, random.choice((50, 300)))),
        (options, "itself", options),
        (options, random.choice(sorted(options)), values.value(random)),
        (options, random.choice(sizes), values.number(random)),
        (model, random.choice(sorted(model)), reshaped),
    )
    section, name, changed = random.choice(changes)
    trial.log(name)
    section[name] = changed
    torch.save({**content, "args": argparse.Namespace(**options)}, file)


def _fairseq_repeats(random: Random, folder: Path, trial: Trial) -> bool:
    """Write a large model whose tensors all repeat one number, so that its file is small."""
    file = folder / "checkpoint_best.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(file, weights_only=True)
    factor = 1 << random.choice((9, 10, 11))
    for name, value in vars(content["args"]).items():
        if name.endswith("embed_dim"):
            setattr(content["args"], name, value * factor)
    model = content["model"]
    for name, tensor in model.items():
        model[name] = torch.zeros(1).expand([size * factor if size in (D, D_FF) else size for size in tensor.shape])
    torch.save(content, file)
    trial.log(f"d_model {D * factor:,}: {file.stat().st_size:,} bytes")
    return True


_PICKLES = (
    _pickle_calls,
    _pickle_calls,
    _pickle_grows,
    _pickle_in_capitals,
    _pickle_hidden,
    _pickle_broken,
    _pickle_no_model,
    _pickle_without_values,
)
BIN: tuple[Damage, ...] = tuple(_in_file("pytorch_model.bin", change) for change in _PICKLES)
PT: tuple[Damage, ...] = (
    *(_in_file("checkpoint_best.pt", change) for change in _PICKLES),
    _fairseq_content,
    _fairseq_repeats,
)
