"""Hostile foreign models: damaged models from other toolkits, and models that harm the person who imports them."""

from __future__ import annotations

import argparse
import gc
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
import yaml

from hostile import values
from hostile.data import CHUNK, deflate_end, deflated_zeros
from hostile.documents import zipped
from hostile.judge import check
from hostile.trial import Trial

Attack = Callable[[Random, Path, Trial], bool | None]
"""Changes a model in a folder. Returns True if the import must be refused."""
NAME = "new"
_HUGE = 3 << 30


def run(random: Random, trial: Trial) -> None:
    """Import a damaged model: it is in the store and valid, or it is refused and leaves nothing behind."""
    gc.collect()  # so that the memory of the process is that of this import
    kind = random.choice(sorted(path.name for path in trial.world.foreign.iterdir()))
    folder = trial.folder / "foreign"
    shutil.copytree(trial.world.foreign / kind, folder)
    attack = random.choice((*[_damaged_file] * 4, _linked, *_ATTACKS[kind]))
    trial.log(f"{kind}: {attack.__name__}")
    must_refuse = attack(random, folder, trial)
    before = {path.name for path in trial.folder.iterdir()}
    trial.guard.forget()
    done = trial.zoo("import", folder.name, "--name", NAME, *random.choice(([], ["--format", kind])))
    check(done.status != 0 or not must_refuse, "it is accepted")
    stored = sorted(path.name for path in trial.store.iterdir()) if trial.store.exists() else []
    check(stored == ([NAME] if done.status == 0 else []), f"the store has {stored}, and the status is {done.status}")
    trial.check_secret()
    after = {path.name for path in trial.folder.iterdir()}
    check(after - {"home"} == before - {"home"}, "it left files behind")
    if done.status == 0:
        check(trial.zoo("verify", NAME).status == 0, "it is imported, but not valid")


def _damaged_file(random: Random, folder: Path, trial: Trial) -> None:
    file = random.choice(sorted(folder.iterdir()))
    if random.random() < 0.05:
        file.chmod(0)
    else:
        trial.log(values.damage(random, file))


def _linked(random: Random, folder: Path, trial: Trial) -> None:
    """Replace all files with links, as in the cache of the Hugging Face Hub: the model is the same."""
    store = trial.folder / "blobs"
    store.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        file.rename(store / str(number))
        file.symlink_to(os.path.relpath(store / str(number), folder))


# Marian


def _outside(random: Random, folder: Path, trial: Trial) -> bool:
    """Write a `decoder.yml` that names files outside of its folder, which must not be read."""
    file = folder / "model.npz.decoder.yml"
    outside = ("../secret", str(trial.secret), "x/../../secret", "/dev/zero", "/etc/passwd", "~/secret")
    tree = yaml.safe_load(file.read_text())
    key = random.choice(("models", "vocabs"))
    tree[key] = [random.choice(outside)] * len(tree[key])
    trial.log(tree)
    file.write_text(yaml.dump(tree))
    return True


def _bomb(random: Random, folder: Path, trial: Trial) -> bool:
    """Add gigabytes of zeros as a matrix, or an array of objects, which numpy would unpickle."""
    file, name = folder / "model.npz", random.choice(("Wemb.npy", "special:model.yml.npy", "unheard.npy"))
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s}"
    start, deflated = values.npy(header % ("|i1", (_HUGE,)), b""), random.random() < 0.5
    content = start + bytes(1000)
    if deflated:  # one block that is not compressed: 0, length, and its complement; then the zeros
        block = b"\0" + struct.pack("<HH", len(start), len(start) ^ 0xFFFF) + start
        content = block + deflated_zeros() * (_HUGE // CHUNK) + deflate_end()
    if has_objects := random.random() < 0.3:
        content = values.npy(header % ("|O", (1,)), pickle.dumps(_Harm()))
    with zipfile.ZipFile(file) as archive:
        members = {each: archive.read(each) for each in archive.namelist()} | {name: content}
    written = bytearray(zipped(members.items()))
    if not has_objects:
        at = written.rindex(name.encode()) - 46  # the entry in the directory
        struct.pack_into("<I", written, at + 24, len(start) + _HUGE)
        if deflated:
            struct.pack_into("<H", written, at + 10, zipfile.ZIP_DEFLATED)
            struct.pack_into("<H", written, struct.unpack_from("<I", written, at + 42)[0] + 8, zipfile.ZIP_DEFLATED)
    file.write_bytes(written)
    return True


# Pickles of transformers and fairseq


class _Harm:
    """An object that creates a folder when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("pwned",)


_CALLS: tuple[tuple[Any, ...], ...] = (
    *(("os", "mkdir", "pwned"), ("posix", "system", "mkdir pwned"), ("subprocess", "Popen", ["mkdir", "pwned"])),
    *(("builtins", "eval", "__import__('os').mkdir('pwned')"), ("__builtin__", "exec", "import os; os.mkdir('pwned')")),
    *(("builtins", "getattr", 1, "real"), ("torch.hub", "load", "x", "y")),
    *(("torch.serialization", "os.mkdir", "pwned"),),
    *(("torch", "load", "secret"), ("fairseq.data", "os.mkdir", "pwned"), ("pathlib", "Path", "secret")),
    *(("builtins", "bytearray", 1 << 36), ("builtins", "int", "9" * 100_000), ("collections", "defaultdict", 5)),
    *(("torch._utils", "_rebuild_tensor_v2", 1, 2, 3), ("torch", "FloatStorage", 1 << 40)),
)
"""Modules, functions and arguments that a pickle may call."""


def _call(random: Random) -> bytes:
    """Return a pickle that calls a function; it is written by hand, because pickle would look the function up."""
    module, name, *arguments = random.choice(_CALLS)
    pickled = b"(" + b"".join(pickle.dumps(each, 2)[2:-1] for each in arguments) + b"tR."
    if random.random() < 0.7:
        return b"\x80\x02" + f"c{module}\n{name}\n".encode() + pickled
    return b"\x80\x04" + b"".join(b"\x8c" + bytes([len(w)]) + w.encode() for w in (module, name)) + b"\x93" + pickled


def _growing(random: Random) -> bytes:
    """Return a pickle that doubles a text with calls that tensors or options need, until it has gigabytes."""
    text = b"X\x05\x00\x00\x00model"
    encoded = b"c_codecs\nencode\n(" + text + b"X\x06\x00\x00\x00latin1tRq\x00"
    doubled = b"c_codecs\nencode\n(h\x00X\x03\x00\x00\x00hextRq\x00"
    listed = b"cbuiltins\nstr\n(](h\x00h\x00etRq\x00"
    start, step = random.choice(((encoded, doubled), (text + b"q\x00", listed)))
    return b"\x80\x02" + start + step * random.choice((27, 31, 40)) + b"."


def _broken(random: Random) -> bytes:
    """Return a pickle that ends early, claims gigabytes, contains itself, or has no model."""
    deep, model = b"]" * random.choice((10, 100_000)), b"X\x05\x00\x00\x00model"
    claims = (b"X\xff\xff\xff\x7fabc.", b"\x8b\xff\xff\xff\x7f\x01.", b"r\xff\xff\xff\xff.", deep + b".")
    loops = (b"]q\x00h\x00a.", b"}q\x00" + model + b"q\x01h\x00s.", b"h\x05.", b"(((((tttt.")
    others = (b"", b"}q\x00.", b"].", b"K\x01.", b"}" + model + b"X\x01\x00\x00\x00xs.", b"garbage" * 100)
    return b"\x80\x02" + random.choice((*claims, *loops, *others))


def _pickle(random: Random, folder: Path, trial: Trial) -> bool:
    """Write a hostile pickle in a format of torch: a zip file, the older format, or only the pickle."""
    (folder / "model.safetensors").unlink(missing_ok=True)
    file = folder / ("checkpoint_best.pt" if (folder / "checkpoint_best.pt").exists() else "pytorch_model.bin")
    if random.random() < 0.2:  # a call among valid content, or tensors without values
        hidden = {"model": {"encoder.version": torch.zeros(1)}, "args": argparse.Namespace(x=_Harm()), "extra": _Harm()}
        empty = {"model": {"encoder.version": torch.zeros(2, 2).to("meta")}, "args": argparse.Namespace(arch="x")}
        torch.save(random.choice((hidden, empty)), file, _use_new_zipfile_serialization=random.random() < 0.6)
        return True
    content = random.choice((_call, _call, _growing, _broken))(random)
    trial.log(content[:200])
    heads = (0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {}})
    legacy = b"".join(pickle.dumps(each, 2) for each in heads) + content + pickle.dumps([], 2)
    name = random.choice(("data.pkl", "data.pkl", "DATA.PKL"))  # torch ignores case
    parts = {name: content, "version": b"3\n", "byteorder": b"little", "data/0": bytes(64)}
    archive = zipped((f"archive/{each}", part) for each, part in parts.items())
    file.write_bytes(random.choice((archive, archive, legacy, content)))
    return True


def _checkpoint(random: Random, folder: Path, trial: Trial) -> None:
    """Write fairseq options that are too deep or of other types, or tensors that are large but have a small file."""
    file = folder / "checkpoint_best.pt"
    with torch.serialization.safe_globals([argparse.Namespace]):
        content = torch.load(file, weights_only=True)
    options, model = vars(content["args"]), content["model"]
    if random.random() < 0.3:
        factor = 1 << random.choice((9, 10, 11))
        options |= {key: each * factor for key, each in options.items() if key.endswith("embed_dim")}
        for name, tensor in model.items():
            model[name] = torch.zeros(1).expand([size * factor if size > 4 else size for size in tensor.shape])
    else:
        deep: Any = ["lol"]
        for _ in range(random.choice((6, 40, 300))):
            deep = [deep] * random.choice((1, 9))
        shape, dtype = random.choice(((), (0,), (1, 1), (2, 2, 2))), random.choice((torch.int8, torch.bool))
        name, changed = random.choice((("deep", deep), (random.choice(sorted(options)), values.value(random))))
        options[name] = changed
        if random.random() < 0.3:
            model[random.choice(sorted(model))] = torch.zeros(shape, dtype=dtype)
    torch.save(content, file)


_ATTACKS: dict[str, tuple[Attack, ...]] = {
    "marian": (_outside, _bomb),
    "hf-marian": (_pickle, _pickle),
    "hf-multilingual": (_pickle,),
    "hf-t5": (_pickle,),
    "ctranslate2": (),
    "fairseq": (_pickle, _pickle, _checkpoint, _checkpoint),
}
