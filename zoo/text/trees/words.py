"""Tokenisation into words as in treebanks, where punctuation marks and parts of contractions are separate words."""

from functools import lru_cache
from typing import Any


def tokenize_words(text: str, language: str) -> str:
    """Return a sentence with spaces between its words, as in the Penn Treebank.

    `She can't.` becomes `She ca n't .`

    Args:
        text: The sentence.
        language: Language code. Only English sentences are changed.
    """
    return " ".join(_tokenizer().tokenize(text)) if language.partition("-")[0] == "en" else text


@lru_cache
def _tokenizer() -> Any:
    from nltk.tokenize.destructive import NLTKWordTokenizer  # takes 0.15 s to import, and only parsing needs it

    return NLTKWordTokenizer()
