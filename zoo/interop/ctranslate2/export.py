"""CTranslate2's format, written through the backend of that name."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from compiler import Purpose
from compiler.assemble import ordered
from compiler.backends import choose
from compiler.backends.ctranslate2 import ctranslate2
from compiler.backends.ctranslate2_format import beyond, written
from specs import BOS, EOS, PAD, UNK, Decoding, ZooError
from zoo.files.atomic import write_json
from zoo.interop.ctranslate2.format import CTranslate2 as Format
from zoo.interop.exported import Bundle, Checked
from zoo.interop.read_back import require_same
from zoo.text.tokenizer import SPACE, Tokenizer

_SEARCH = "CTranslate2 searches by options of each call: {} {}."
_GNMT = "The spec's length penalty is ((5 + length) / 6)^alpha, and CTranslate2's is length^alpha."


class CTranslate2:
    """`zoo.interop.exported.Target`."""

    name = "ctranslate2"
    description = "a folder of CTranslate2, in float32"

    def write(self, bundle: Bundle, folder: Path) -> list[str]:
        """The model, its tokens by name, and the SentencePiece models that text is cut by.

        Raises ZooError, by name, for what the engine has not.
        """
        if not isinstance(bundle.vocabulary.target, Tokenizer):
            raise _refused("its target is brackets of trees, and no text")
        with tempfile.TemporaryDirectory(prefix="zoo-") as passing:
            _, order = ordered(
                bundle.spec,
                (Purpose.SCORE,),
                weights=bundle.tensors,
                precision="float32",
                backend="eager",
                folder=Path(passing),
            )
            if ctranslate2.absent() is None and (why := beyond(order)):
                raise _refused(why)
            choose(self.name, order)
            shutil.copyfile(written(order) / "model.bin", folder / "model.bin")
        vocabulary = bundle.vocabulary
        names = [_names(side) for side in (vocabulary.source, vocabulary.target) if isinstance(side, Tokenizer)]
        if names[0] == names[1]:
            _list(folder / "shared_vocabulary.json", names[0])
        else:
            _list(folder / "source_vocabulary.json", names[0])
            _list(folder / "target_vocabulary.json", names[1])
        write_json(folder / "config.json", _config(bundle, names[1]))
        _models(bundle, folder)
        decoding = bundle.spec.decoding
        return list(_search(decoding, names[1]))

    def check(self, bundle: Bundle, folder: Path) -> Checked | None:
        """Tensors read back, and the log-probabilities of the proof by the engine."""
        if bundle.spec.architecture.d_k == bundle.spec.architecture.d_v:  # else features of zeros came to the narrower
            require_same(bundle, Format(), folder)
        if find_spec("ctranslate2") is None:
            return None
        package = import_module("ctranslate2")
        threads = torch.get_num_threads()
        engine = package.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
        torch.set_num_threads(threads)
        source, target = (_names(side) for side in (bundle.vocabulary.source, bundle.vocabulary.target))
        proof = bundle.proof
        sources = [[source[id] for id in row if id not in (PAD, EOS)] for row in proof.source.tolist()]
        targets = [[target[id] for id in row if id not in (PAD, BOS, EOS)] for row in proof.target.tolist()]
        found = [each.log_probs for each in engine.score_batch(sources, targets)]
        expected = proof.log_probabilities
        differences = [
            (torch.tensor(row) - wanted[: len(row)]).abs().max() for row, wanted in zip(found, expected, strict=True)
        ]
        # Of tensors, so that one that is no number stays.
        return Checked(f"CTranslate2 {package.__version__}", float(torch.stack(differences).max()))


def _refused(why: str) -> ZooError:
    return ZooError(f"this model cannot be written for CTranslate2: {why}", hint="`--to onnx` takes every model")


def _names(side: Any) -> list[str]:
    """Words of a list as they were; tokens of SentencePiece as it calls them."""
    found = [str(side.model.id_to_piece(id)) for id in range(side.size)]
    return [name.removeprefix(SPACE) for name in found] if side.of_words else found


def _search(decoding: Decoding, target: list[str]) -> Iterator[str]:
    """What to ask it for, and what of the spec's search it has no option for."""
    options: dict[str, Any] = {
        "beam_size": decoding.beam,
        "length_penalty": decoding.alpha,
        "min_decoding_length": decoding.min_length,
    }
    if not decoding.length_factor:
        options["max_decoding_length"] = decoding.extra_length
    if UNK in decoding.suppressed_tokens:
        options["disable_unk"] = True
    if others := [[target[id]] for id in decoding.suppressed_tokens if id != UNK]:
        options["suppress_sequences"] = json.dumps(others, ensure_ascii=False)
    same = decoding.beam == 1 or (
        decoding.stopping_rule == "full" and decoding.length_penalty == "power" and decoding.alpha
    )
    said = ", ".join(f"`{name}={value}`" for name, value in options.items())
    yield _SEARCH.format(said, "are the spec's" if same else "come nearest to the spec's")
    if decoding.length_factor:
        longest = f"{decoding.length_factor:g} times the source's length + {decoding.extra_length:,}"
        yield f"A translation has at most {longest} tokens here, and there as many as `max_decoding_length` says."
    if decoding.beam == 1:
        return
    if decoding.length_penalty == "gnmt" and decoding.alpha:
        yield _GNMT
    if decoding.stopping_rule != "full":
        yield f"Its search ends as `stopping_rule: full` does, and not as the spec's `ending: {decoding.stopping_rule}`."


def _config(bundle: Bundle, target: list[str]) -> dict[str, Any]:
    return {
        "unk_token": target[UNK],
        "bos_token": target[BOS],
        "eos_token": target[EOS],
        "decoder_start_token": target[BOS],
        "add_source_bos": False,
        "add_source_eos": bundle.vocabulary.source_end == EOS,
        "layer_norm_epsilon": bundle.spec.architecture.norm_epsilon,
        "multi_query_attention": False,
    }


def _models(bundle: Bundle, folder: Path) -> None:
    """The SentencePiece models; a list of words needs none."""
    source, target = bundle.vocabulary.source, bundle.vocabulary.target
    assert isinstance(target, Tokenizer)
    if source.of_words:
        return
    if source.content == target.content:
        (folder / "sentencepiece.model").write_bytes(source.content)
        return
    for side, tokens in (("source", source), ("target", target)):
        (folder / f"{side}.spm").write_bytes(tokens.content)


def _list(file: Path, names: list[str]) -> None:
    file.write_text(json.dumps(names, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
