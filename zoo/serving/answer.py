"""Options of a translation, and its result, independent of the API through which a request came."""

from __future__ import annotations

from dataclasses import dataclass

from zoo.generation.translation import Translation


@dataclass(frozen=True)
class Options:
    """Options of a translation. None for the defaults of the model's spec.

    Attributes:
        beam: Beam size.
        n_best: Number of translations of each text.
        alpha: Exponent of the length penalty.
        prefix: Text that each translation begins with.
        protect: Whether to keep numbers, links and the like (see `TranslationOptions`).
    """

    beam: int | None = None
    n_best: int | None = None
    alpha: float | None = None
    prefix: str | None = None
    protect: bool = True


@dataclass(frozen=True)
class Answer:
    """Translations of a text.

    Attributes:
        translations: The translations, best first.
        source: Code of the source language, as clients see it.
        confidence: Probability of the source language. None if the client specified the language.
        model: Name of the model. None if the text is in the target language and was returned unchanged.
        revision: Revision of the model.
    """

    translations: list[Translation]
    source: str
    confidence: float | None = None
    model: str | None = None
    revision: str | None = None
