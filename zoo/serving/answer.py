"""Client calls, answers and errors, which all APIs of the server share."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass, field

from zoo.generation.config import TranslationOptions
from zoo.generation.translation import Translation

LOG = logging.getLogger("zoo.serving")
RETRY_SECONDS = 2
"""Seconds after which a client should try again if the server is busy."""
RELOAD_SECONDS = 5
"""Seconds after which a client should try again if a model cannot be used."""


@dataclass(frozen=True)
class Call:
    """Client request, with its API key and parameters.

    Attributes:
        key: SHA-256 of the client's API key, as `Admission.authorize` returns it.
        source: Language code of the texts. If None or "auto", the language of each text is detected.
        target: Code of the target language.
        model: Name of the model. If None, a model for the languages is selected.
        options: Search options. If an option is missing or None, the default in the model's spec is used.
        n_best: Number of translations per text. None selects one translation.
        prefix: Text that each translation begins with.
    """

    key: str
    source: str | None = None
    target: str = ""
    model: str | None = None
    options: TranslationOptions = field(default_factory=TranslationOptions)
    n_best: int | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Answer:
    """Translations of a text.

    Attributes:
        translations: The translations, best first.
        source: Code of the source language, in the form that clients see.
        confidence: Probability of the source language. None if the client specified the language.
        model: Name of the model. None if the text is in the target language and was returned unchanged.
        revision: Revision of the model.
    """

    translations: list[Translation]
    source: str
    confidence: float | None = None
    model: str | None = None
    revision: str | None = None


class ServingError(Exception):
    """Error that a client receives as JSON.

    Attributes:
        status: HTTP status code.
        message: Description of the problem, and what the client can do.
        reason: Value of the `reason` label in the metric that counts rejected requests.
        retry_after: Seconds after which the client should try again. None if trying again cannot help.
    """

    def __init__(self, status: int, message: str, reason: str = "invalid", retry_after: int | None = None) -> None:
        self.status, self.message, self.reason, self.retry_after = status, message, reason, retry_after
        super().__init__(message)


def log_error(problem: str, error: Exception) -> None:
    """Log a problem, and its error's type and traceback. Omit the error's message, which may contain client text."""
    LOG.error("%s %s\n%s", problem, type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
