"""Words as treebanks count them: punctuation marks and contractions are words of their own."""

from functools import lru_cache
from typing import Any


def tokenize_words(text: str, language: str) -> str:
    """Return a sentence with spaces between its words, as in the Penn Treebank.

    `She can't.` becomes `She ca n't .`

    Args:
        text: The sentence.
        language: Its language code. Only English has rules; other sentences are returned unchanged.
    """
    return " ".join(_tokenizer().tokenize(text)) if language.partition("-")[0] == "en" else text


@lru_cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes 0.15 s, and only parsing needs it

    return NLTKWordTokenizer()
