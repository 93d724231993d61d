"""Hostile foreign models: damaged models of other toolkits, and models that harm the person who imports them."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from hostile import formats, values
from hostile.bundles import forge_header
from hostile.data import edit_sentencepiece
from hostile.judge import check
from hostile.trial import Trial

Damage = Callable[[Random, Path, Trial], bool | None]
"""Damages a model in a folder. Returns True if the import must be refused."""
NAME = "new"


def run(random: Random, trial: Trial) -> None:
    """Import a damaged model: it is in the store and valid, or it is refused and leaves nothing behind."""
    gc.collect()  # so that the memory of the process is that of this import
    kind = random.choice(sorted(_DAMAGES))
    folder = trial.folder / "foreign"
    shutil.copytree(trial.world.foreign / kind, folder)
    trial.write_secret()
    damage = random.choice(_DAMAGES[kind])
    trial.log(f"{kind}: {damage.__name__}")
    must_refuse = damage(random, folder, trial)
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
    trial.log(values.corrupt_file(random, random.choice(sorted(folder.iterdir()))))


def _not_a_file(random: Random, folder: Path, trial: Trial) -> None:
    file = random.choice(sorted(folder.iterdir()))
    if random.random() < 0.15:
        file.chmod(0)
    else:
        trial.log(values.replace_file(random, file))


def _optional_file(random: Random, folder: Path, trial: Trial) -> bool:
    """Put something that is not a file in the place of a file that a model may lack."""
    file = folder / "generation_config.json"
    file.unlink(missing_ok=True)
    kind = random.choice(("folder", "fifo", "dangling link"))
    if kind == "folder":
        file.mkdir()
    elif kind == "fifo":
        os.mkfifo(file)
    else:
        file.symlink_to("nowhere")
    trial.log(f"{file.name}: {kind}")
    return True


def _linked(random: Random, folder: Path, trial: Trial) -> None:
    """Replace all files by links, as in the cache of the Hugging Face Hub: the model is the same."""
    store = trial.folder / "blobs"
    store.mkdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        file.rename(store / str(number))
        file.symlink_to(os.path.relpath(store / str(number), folder))


def _transformers_config(random: Random, folder: Path, trial: Trial) -> None:
    file = folder / random.choice(("config.json", "config.json", "config.json", "tokenizer_config.json"))
    if random.random() < 0.2:
        file = folder / "generation_config.json"
        file.write_text(json.dumps({"num_beams": values.writable(values.value(random))}))
    if random.random() < 0.3:
        sizes = ("d_model", "vocab_size", "encoder_layers", "max_position_embeddings", "num_beams", "max_length")
        keys = (*sizes, "eos_token_id", "pad_token_id", "bad_words_ids", "decoder_start_token_id")
        wrong = (10**9, 10**12, -1, 0, 100, 101, 2**63, 0.5, True, [10**9], [[10**30]], [["x"]], 10**400)
        trial.log(values.edit_json(random, file, {(key,): wrong for key in keys}))
    else:
        trial.log(values.mutate_json(random, file))


def _tokenizer(random: Random, folder: Path, trial: Trial) -> None:
    trial.log(values.mutate_json(random, folder / random.choice(("tokenizer.json", "tokenizer_config.json"))))


def _token_ids(random: Random, folder: Path, trial: Trial) -> None:
    """Write a `vocab.json` with repeated, missing or invalid IDs, or with strange tokens."""
    file = folder / "vocab.json"
    if random.random() < 0.2:
        trial.log(values.mutate_json(random, file))
        return
    ids = json.loads(file.read_text())
    names = sorted(ids)
    strange = ("", "\ud800", "\0", "\x1b[2J", "x" * 100_000, ">>deu<<", "<unk>", "▁")
    wrong = (5, -1, 10**6, 2**20, 10**30, 1.5, None, "1", True, [1], 101, 102)
    missing = random.sample(names, random.choice((1, 50)))
    changed: dict[str, dict[str, Any]] = {
        "other ID": {**ids, random.choice(names): random.choice(wrong)},
        "strange token": {**ids, random.choice(strange): 101},
        "same IDs": dict.fromkeys(names, random.choice((0, 7))),
        "missing": {name: id for name, id in ids.items() if name not in missing},
        "more": {**ids, **{f"w{number}": number for number in range(101, random.choice((200, 300_000)))}},
    }
    kind = random.choice(sorted(changed))
    trial.log(kind)
    file.write_text(json.dumps(changed[kind]))


def _sentencepiece(random: Random, folder: Path, trial: Trial) -> None:
    """Write a SentencePiece model with invalid lengths, other fields, or tokens in another order."""
    file = random.choice([path for path in sorted(folder.iterdir()) if path.suffix in (".spm", ".model")])
    good = file.read_bytes()
    endless = b"\x0a" + b"\xff" * 9 + b"\x01"
    alone = (
        *(endless, b"\x0a" + b"\xff" * 30, b"\x0a" + b"\x80" * 10 + b"\x00", b"\x0b" * 1000, b"\x0c", b"\x07", b""),
        *(b"\x0a\x02\x0a\x7f", b"\x08\x01" * 1000, b"\x0a\x00" * 100_000, b"\x0a" + b"\x0a" * 5000, bytes(100)),
    )
    added = (endless, b"\x12\x04\x18\xff\xff\x7f", b"\x12\x02\x18\x03", b"\x1a\x06\x12\x04\xff\xff\xff\xff")
    broken = (*alone, *(good + field for field in added), good[:-1], good * 2, b"\x12\x02\x18\x63" + good)
    edited = {edit_sentencepiece(random, good): 4, values.corrupt(random, good): 2, random.choice(broken): 4}
    content = values.weighted(random, edited)
    trial.log(f"{file.name}: {len(content)} bytes, {content[:40]!r}")
    file.write_bytes(content)


def _safetensors(random: Random, folder: Path, trial: Trial) -> bool:
    file = folder / "model.safetensors"
    before = file.read_bytes()
    if random.random() < 0.2:
        length = random.choice(((1 << 62).to_bytes(8, "little"), b"\xff" * 8, bytes(8), b""))
        file.write_bytes(length + before[8:])
    else:
        trial.log(forge_header(random, file, facts=False))
    return file.read_bytes() != before


def _marian_decoder(random: Random, folder: Path, trial: Trial) -> None:
    """Write a `decoder.yml` with wrong types, too much depth or size."""
    file = folder / "model.npz.decoder.yml"
    text = file.read_text()
    if random.random() < 0.6:
        tree = yaml.safe_load(text)
        trial.log(values.mutate(random, tree))
        text = yaml.dump(values.writable(tree))
    else:
        nested = values.nests(random.choice((30, 5_000, 45_000)))[0]
        call = "!!python/object/apply:os.mkdir [pwned]"
        options = ("unheard: 1", f"x: {call}", f"---\n{text}", f"# {'x' * 200_000}", "beam-size: 0")
        added = [f"{text}{line}\n" for line in (*options, f"max-length-factor: {10**400}")]
        changed = (text.replace("2", "1000000000000"), *(text.replace("0.6", odd) for odd in (".nan", "1e999", "-1")))
        alone = ("", "[]", "a: [", "\x00", f"x: {nested}\n{text}", f"{values.LAUGHS}{text}")
        text = random.choice((*added, *changed, *alone))
    file.write_bytes(text.encode(random.choice(("utf-8", "utf-8", "latin-1", "utf-16")), "replace"))


def _marian_outside(random: Random, folder: Path, trial: Trial) -> bool:
    """Write a `decoder.yml` that names files outside of its folder, which must not be read."""
    file = folder / "model.npz.decoder.yml"
    outside = ("../secret", str(trial.secret), "x/../../secret", "/dev/zero", "/etc/passwd", "~/secret")
    key, name = random.choice(("models", "vocabs")), random.choice(outside)
    tree = yaml.safe_load(file.read_text())
    tree[key] = [name] * len(tree[key])
    trial.log(f"{key}: {name}")
    file.write_text(yaml.dump(tree))
    return True


def _ctranslate2_texts(random: Random, folder: Path, trial: Trial) -> None:
    file = folder / random.choice(("config.json", "config.json", "shared_vocabulary.json"))
    if file.name == "config.json" or random.random() < 0.5:
        trial.log(values.mutate_json(random, file))
        return
    tokens = json.loads(file.read_text())
    file.unlink()
    text = "\n".join(tokens[: random.choice((50, 100, 101))])
    wrong = (text.encode(), text.encode("utf-16"), b"\xff\xfe", b"\n" * 101, b"", b"\r\n" * 101, b"<unk>\n" * 101)
    (folder / "shared_vocabulary.txt").write_bytes(random.choice(wrong))


def _fairseq_dictionary(random: Random, folder: Path, trial: Trial) -> bool:
    file = folder / random.choice(("dict.en.txt", "dict.de.txt"))
    lines = file.read_bytes().splitlines()
    invalid = (b"the 9", b"x", b"x y", b"x 1.5", b" 5", b"5", b"\xff 5", b"x -1", b"x \xd9\xa3", b"<pad> 5", b"\0 5")
    strange = (b"the 9 #fairseq:overwrite", b"\x1b[2J 5", b"a\rb 5", b"new 5", b"\xe2\x96\x81x 5")
    line = random.choice((*invalid, *strange, b"x" * 1_000_000 + b" 1", b"x " + b"9" * 100_000))
    lines.insert(random.randrange(len(lines) + 1), line)
    trial.log(f"{line[:60]!r}")
    file.write_bytes(b"\n".join(lines) + random.choice((b"\n", b"", b"\n" * 100_000)))
    return True


_ALL = (_damaged_file, _damaged_file, _not_a_file, _linked)
_DAMAGES: dict[str, tuple[Damage, ...]] = {
    "marian": (*_ALL, *formats.NPZ, _marian_decoder, _marian_outside, _sentencepiece),
    "hf-marian": (*_ALL, _optional_file, *formats.BIN, _transformers_config, _token_ids, _sentencepiece, _safetensors),
    "hf-multilingual": (*_ALL, _optional_file, _transformers_config, _tokenizer, _tokenizer, _safetensors),
    "hf-t5": (*_ALL, _optional_file, _transformers_config, _tokenizer, _tokenizer, _safetensors),
    "ctranslate2": (*_ALL, *formats.CTRANSLATE2, _ctranslate2_texts, _sentencepiece),
    "fairseq": (*_ALL, *formats.PT, _fairseq_dictionary),
}
