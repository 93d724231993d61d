"""transformers as the engine that `--check` compares an imported model with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.interop.formats import EngineTranslation, ImportedModel
from zoo.interop.huggingface.config import import_transformers

_BATCH_SIZE = 16


class TransformersEngine:
    """transformers with an open model, in float32. Implements `zoo.interop.formats.Engine`."""

    def __init__(self, path: Path, model: ImportedModel, tokenizer: str) -> None:
        """Open a model. It translates in the default direction of its spec.

        Args:
            path: The folder of the model.
            model: The same model, imported.
            tokenizer: The class of the tokenizer.
        """
        transformers, languages = import_transformers(), model.spec.languages
        source, target = model.spec.default_direction
        begins_with_language = languages is not None and languages.target_token is not None
        options = {"src_lang": source} if begins_with_language else {}
        self.version = f"transformers {transformers.__version__}"
        self.tokenizer: Any = getattr(transformers, tokenizer).from_pretrained(str(path), **options)
        self.network: Any = transformers.AutoModelForSeq2SeqLM.from_pretrained(str(path), dtype=torch.float32)
        self.excluded: list[int] = []
        """transformers' IDs of tokens that are excluded from the softmax."""
        self._beam, self._options, self._prefix = model.spec.decoding.beam, {}, ""
        if languages is not None and begins_with_language:
            self._options = {"forced_bos_token_id": self.tokenizer.convert_tokens_to_ids(languages.token_of(target))}
        elif languages is not None:
            self._prefix = f"{languages.token_of(target)} "

    def text(self, ids: list[int], names: list[str]) -> str:
        """Return the text of a translation, given its token IDs and their names."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    @torch.inference_mode()
    def translate(self, texts: Sequence[str], beam: int | None = None) -> list[EngineTranslation]:
        """Return the best translation of each text, found with the model's own settings."""
        longest_first = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
        translations: dict[int, EngineTranslation] = {}
        for start in range(0, len(texts), _BATCH_SIZE):
            batch = longest_first[start : start + _BATCH_SIZE]
            results = self._translate_batch([texts[index] for index in batch], self._beam if beam is None else beam)
            translations.update(zip(batch, results, strict=True))
        return [translations[index] for index in range(len(texts))]

    def _translate_batch(self, texts: list[str], beam: int) -> Iterator[EngineTranslation]:
        inputs = self.tokenizer([self._prefix + text for text in texts], return_tensors="pt", padding=True)
        output = self.network.generate(**inputs, num_beams=beam, **self._options)
        end = self.network.config.eos_token_id
        for row, log_probability in zip(output.tolist(), self._log_probabilities(inputs, output), strict=True):
            ids = row[1:]
            ids = ids[: ids.index(end)] if end in ids else ids
            # In transformers, rows of the embedding without a token have no name. In zoo, their name is `<ID>`.
            names = [name or f"<{id}>" for name, id in zip(self.tokenizer.convert_ids_to_tokens(ids), ids, strict=True)]
            yield EngineTranslation(self.text(ids, names), log_probability, names)

    def _log_probabilities(self, inputs: Any, output: Tensor) -> list[float]:
        """Return the log-probability of each translation, computed in one pass of the decoder."""
        logits = self.network(**inputs, decoder_input_ids=output[:, :-1]).logits
        logits[..., self.excluded] = -torch.inf
        target = output[:, 1:]
        log_probabilities = logits.log_softmax(-1).gather(2, target[:, :, None])[:, :, 0]
        is_end = target == self.network.config.eos_token_id
        ends_so_far = is_end.cumsum(1)
        counted = (ends_so_far == 0) | ((ends_so_far == 1) & is_end)
        return [float(total) for total in log_probabilities.masked_fill(~counted, 0.0).sum(1)]
