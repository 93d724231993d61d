"""Transformers itself, to be held against what was imported of a folder of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compiler.operations.embedding import sinusoidal_encoding
from zoo.interop.imported import Answer, Imported

_BATCH = 16


class Transformers:
    """`zoo.interop.imported.Engine`: with the positions that were imported, on one thread, in float32."""

    def __init__(self, place: Path, imported: Imported) -> None:
        transformers = quiet()
        self.version = f"transformers {transformers.__version__}"
        self._beam = imported.spec.decoding.beam
        self._tokenizer: Any = transformers.MarianTokenizer.from_pretrained(str(place))
        model: Any = transformers.MarianMTModel
        self._model = model.from_pretrained(str(place), dtype=torch.float32)
        searched = self._model.generation_config
        words = searched.bad_words_ids if searched.renormalize_logits else []
        self._closed = [number for word in words or [] for number in word]
        """Tokens that have no share of the probability."""
        if imported.origin["positions"] == "marian":
            self.version += " with Marian's positions"
            self._closed.append(self._model.config.decoder_start_token_id)
            _as_marian(self._model, imported.spec.architecture.norm_epsilon)

    @torch.inference_mode()
    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[Answer]:
        longest_first = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        found: dict[int, Answer] = {}
        for start in range(0, len(texts), _BATCH):
            batch = longest_first[start : start + _BATCH]
            answers = self._batch([texts[index] for index in batch], self._beam if beam is None else beam)
            found.update(zip(batch, answers, strict=True))
        return [found[index] for index in range(len(texts))]

    def _batch(self, texts: list[str], beam: int) -> Iterator[Answer]:
        inputs = self._tokenizer(texts, return_tensors="pt", padding=True)
        output = self._model.generate(**inputs, num_beams=beam)
        ends = self._model.config.eos_token_id
        for row, total in zip(output.tolist(), self._totals(inputs, output), strict=True):
            written = row[1:]
            tokens = written[: written.index(ends)] if ends in written else written
            names = self._tokenizer.convert_ids_to_tokens(tokens)
            text = self._tokenizer.spm_target.decode_pieces(names)
            yield Answer(str(text), total, names)

    def _totals(self, inputs: Any, output: Tensor) -> list[float]:
        """The log-probabilities of what was written, by one pass over it."""
        logits = self._model(**inputs, decoder_input_ids=output[:, :-1]).logits
        logits[..., self._closed] = -torch.inf
        written = output[:, 1:]
        each = logits.log_softmax(-1).gather(2, written[:, :, None])[:, :, 0]
        ended = (written == self._model.config.eos_token_id).cumsum(1)
        counted = (ended == 0) | ((ended == 1) & (written == self._model.config.eos_token_id))
        return [float(total) for total in each.masked_fill(~counted, 0.0).sum(1)]


def quiet() -> Any:
    """The package `transformers`, without bars of its own on stderr."""
    transformers = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    return transformers


def _as_marian(model: Any, epsilon: float) -> None:
    """Makes transformers compute what such a model was trained to: its positions, and its norms' epsilon."""
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = epsilon
    for side in (model.model.encoder, model.model.decoder):
        table = side.embed_positions.weight
        rows, width = table.shape
        with torch.no_grad():
            table.copy_(torch.tensor([sinusoidal_encoding(position, width, halves=True) for position in range(rows)]))
