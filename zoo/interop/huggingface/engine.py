"""transformers as the engine that `--check` compares an imported model with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.interop.formats import EngineTranslation
from zoo.interop.huggingface.config import import_transformers

_BATCH_SIZE = 16


class TransformersEngine:
    """transformers with an open model, in float32. Implements `zoo.interop.formats.Engine`."""

    def __init__(
        self,
        tokenizer: Any,
        model: Any,
        beam: int,
        decode: Callable[[list[int], list[str]], str] | None = None,
        variant: str = "",
        excluded: Collection[int] = (),
        forced: int | None = None,
        prefix: str = "",
    ) -> None:
        """Wrap an open model.

        Args:
            tokenizer: The tokenizer of transformers.
            model: The model of transformers.
            beam: The beam size of the model's own settings.
            decode: Returns the text of a translation, given its token IDs and their names. None: use the tokenizer.
            variant: Description of a change to the model, for messages.
            excluded: transformers' IDs of tokens that are excluded from the softmax.
            forced: transformers' ID of the token that each translation begins with, such as a language token.
            prefix: Text before each source, such as a language token.
        """
        self.version = f"transformers {import_transformers().__version__}{variant}"
        self._tokenizer, self._model = tokenizer, model
        self._decode = decode or (lambda ids, names: tokenizer.decode(ids, skip_special_tokens=True))
        self._beam, self._excluded, self._prefix = beam, list(excluded), prefix
        self._options = {} if forced is None else {"forced_bos_token_id": forced}

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
        inputs = self._tokenizer([self._prefix + text for text in texts], return_tensors="pt", padding=True)
        output = self._model.generate(**inputs, num_beams=beam, **self._options)
        end = self._model.config.eos_token_id
        for row, log_probability in zip(output.tolist(), self._log_probabilities(inputs, output), strict=True):
            ids = row[1:]
            ids = ids[: ids.index(end)] if end in ids else ids
            # In transformers, rows of the embedding without a token have no name. In zoo, their name is `<ID>`.
            names = [
                name or f"<{id}>" for name, id in zip(self._tokenizer.convert_ids_to_tokens(ids), ids, strict=True)
            ]
            yield EngineTranslation(str(self._decode(ids, names)), log_probability, names)

    def _log_probabilities(self, inputs: Any, output: Tensor) -> list[float]:
        """Return the log-probability of each translation, computed in one pass of the decoder."""
        logits = self._model(**inputs, decoder_input_ids=output[:, :-1]).logits
        logits[..., self._excluded] = -torch.inf
        target = output[:, 1:]
        log_probabilities = logits.log_softmax(-1).gather(2, target[:, :, None])[:, :, 0]
        is_end = target == self._model.config.eos_token_id
        ends_so_far = is_end.cumsum(1)
        counted = (ends_so_far == 0) | ((ends_so_far == 1) & is_end)
        return [float(total) for total in log_probabilities.masked_fill(~counted, 0.0).sum(1)]
