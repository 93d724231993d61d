"""CTranslate2 with the model that was imported, to be held against ours."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from zoo.interop.ctranslate2 import binary
from zoo.interop.ctranslate2.settings import ends
from zoo.interop.cutting import Tokens
from zoo.interop.imported import Answer, Imported

MODEL = "model.bin"


class Translating:
    """Its `Translator`, in float32 on one thread, with its own settings. `end` is what stands behind a translation."""

    def __init__(self, place: Path, imported: Imported) -> None:
        ctranslate2 = import_module("ctranslate2")
        self.version = f"CTranslate2 {ctranslate2.__version__}"
        self.decoding = imported.spec.decoding
        self.tokens = Tokens.of(place, ends(place, binary.read(place / MODEL)).unknown)
        threads = torch.get_num_threads()
        self.translator: Any = ctranslate2.Translator(
            str(place), device="cpu", compute_type="float32", inter_threads=1, intra_threads=1
        )
        torch.set_num_threads(threads)  # it sets OpenMP's in whoever loads it

    def translate(self, texts: Sequence[str], beam: int | None = None) -> Sequence[Answer]:
        """The best translation of each, searched for as its own settings say but for `beam`."""
        sources = [self.tokens.cut(text) for text in texts]
        found = self.translator.translate_batch(
            sources,
            beam_size=self.decoding.beam if beam is None else beam,
            length_penalty=self.decoding.alpha,
            max_decoding_length=self.decoding.extra_length,
            max_input_length=0,
        )
        best = [result.hypotheses[0] for result in found]
        scored = self.translator.score_batch(sources, best, max_input_length=0)
        return [
            Answer(self.tokens.joined(tokens), float(sum(score.log_probs)), self.tokens.ours(tokens))
            for tokens, score in zip(best, scored, strict=True)
        ]
