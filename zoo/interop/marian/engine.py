"""Marian itself, to be held against what was imported of it: its Python package, `pymarian`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from zoo.interop.imported import Answer, Imported
from zoo.interop.marian.decoder import Decoder
from zoo.interop.sentence_model import is_language
from zoo.text.tokenizer import SPACE, Tokenizer

_BETWEEN = " ||| "


class PyMarian:
    """`zoo.interop.imported.Engine`: on one thread, in float32."""

    def __init__(self, around: Decoder, imported: Imported) -> None:
        pymarian = import_module("pymarian")
        self.version = f"Marian {pymarian.__version__}"
        self._around, self._imported, self._marian = around, imported, pymarian
        self._cuts = any(file.suffix != ".spm" for file in around.vocabularies)
        """Whether text is to be cut into tokens before it is given."""
        self._open: dict[int, Any] = {}

    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[Answer]:
        lines = [" ".join(self._pieces(text)) for text in texts] if self._cuts else list(texts)
        best: dict[str, str] = {}
        for written in map(str, self._translator(beam).translate(lines)):
            best.setdefault(written.partition(_BETWEEN)[0], written)
        return [self._answer(best[str(number)]) for number in range(len(texts))]

    def _translator(self, beam: int | None) -> Any:
        wanted = self._imported.spec.decoding
        size = wanted.beam if beam is None else beam
        if size not in self._open:
            self._open[size] = self._marian.Translator(
                models=str(self._around.model),
                vocabs=[str(file) for file in self._around.vocabularies],
                beam_size=size,
                normalize=wanted.alpha,
                max_length_factor=wanted.length_factor,
                n_best=True,
                no_spm_decode=True,
                cpu_threads=1,
                mini_batch=32,
                maxi_batch=100,
                maxi_batch_sort="src",
                quiet=True,
                quiet_translation=True,
            )
        return self._open[size]

    def _pieces(self, text: str) -> list[str]:
        """Those of the source, called as in Marian's list."""
        tokens = self._imported.vocabulary.source.tokenize(text)
        return [name if is_language(name := token.removeprefix(SPACE)) else token for token in tokens]

    def _answer(self, written: str) -> Answer:
        """Of `0 ||| ▁tokens ||| F0= -1.5 ||| -1.5`: the first number is the model's own, the second the search's."""
        _, tokens, log_probability, _ = written.rsplit(_BETWEEN, 3)
        named = tokens.split()
        target = self._imported.vocabulary.target
        assert isinstance(target, Tokenizer)
        return Answer(str(target.model.decode_pieces(named)), float(log_probability.split("=")[1]), named)
