"""Translation of Ray datasets, on as many machines as a Ray cluster has."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from zoo.generation.config import TranslationOptions
from zoo.generation.loading import open_model
from zoo.models.find import model as find_model


class BatchTranslator:
    """Function for `ray.data.Dataset.map_batches` that adds a column with the translations of a column of texts.

    Each Ray actor loads the model once. Translations equal those of `zoo decode`, whatever the size of the batches and
    the number of actors. If an actor or its machine fails, Ray starts another one, which repeats its batches.
    """

    def __init__(
        self,
        model: str,
        *,
        texts: str = "text",
        translations: str = "translation",
        device: str = "auto",
        precision: str | None = None,
        **options: Unpack[TranslationOptions],
    ) -> None:
        """Load the model.

        Args:
            model: Name or path of the model, as for `zoo.load`. All machines must find it.
            texts: Name of the column with the texts.
            translations: Name of the new column.
            device: Device of each actor, as for `zoo.load`.
            precision: Precision, as for `zoo.load`.
            **options: Options for languages, sentence splitting and the search (see `TranslationOptions`).

        Raises:
            ZooError: The model does not exist, or one of its files is damaged.
        """
        self._translator = open_model(find_model(model), device=device, precision=precision)
        self._texts, self._translations = texts, translations
        self._options: TranslationOptions = {"split": True, **options}

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the batch with the new column."""
        texts = [str(text) for text in batch[self._texts]]
        translations = self._translator.translate(texts, **self._options)
        return {**batch, self._translations: np.array(translations, dtype=object)}
