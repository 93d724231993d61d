"""Detection of the language of a text."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from tempfile import gettempdir

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from specs import ZooError
from zoo.text.language_codes import base_language

DETECTED_CHARACTERS = 1_000
"""Length of the beginning of a text that is read. More text makes the detection slower, not better."""


@cache
def detector() -> LanguageIdentifier:
    """Return the language detector. The first call takes about a second.

    Raises:
        ZooError: The disk for temporary files is full. The detector is decompressed there.
    """
    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as error:
        problem = f"the language detector cannot be loaded: {error.strerror or error}"
        hint = f"free some space in `{gettempdir()}`, or set TMPDIR to a folder on another disk"
        raise ZooError(problem, hint=hint, exit_code=1) from None


def guess_language(text: str, codes: Collection[str], default: str) -> str:
    """Return the most probable language of a text among some. If the detector knows none of them, return `default`."""
    by_base = {base_language(code): code for code in codes}
    ranked = (str(label) for label, _ in detector().rank(text[:DETECTED_CHARACTERS]))
    return next((by_base[label] for label in ranked if label in by_base), default)
