"""Metrics that compare texts with references, with sacreBLEU's signatures.

The metrics are BLEU, the paper's BLEU, chrF2 and TER for translations, and WER and CER for transcripts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from specs import ZooError
from zoo.text.language_codes import base_language
from zoo.text.lines import read_lines
from zoo.text.sentences import check_same_length

FloatArray = npt.NDArray[np.float64]
TRANSLATION_METRICS = ("bleu", "paper_bleu", "chrf", "ter")
"""Names of the metrics for translations, in the order in which they are shown."""
TRANSCRIPT_METRICS = ("wer", "cer")
"""Names of the metrics for transcripts of audio and for recognised text."""
TEXT_METRICS = (*TRANSLATION_METRICS, *TRANSCRIPT_METRICS)
# sacreBLEU's other tokenisations download models or need further packages.
Tokenization = Literal["13a", "intl", "char", "zh", "none"]

_COMPOUND = re.compile(r"(\S)-(\S)")
_SPLIT_COMPOUND = r"\1 ##AT##-##AT## \2"
_PLAIN_QUOTES = str.maketrans("„“”‚‘’", "\"\"\"'''")
_COMPOUND_LANGUAGE = "de"


@dataclass(frozen=True, slots=True)
class TextMetric:
    """Corpus-level metric, such as BLEU, with one reference per sentence. Scores are in points, such as 27.3 BLEU.

    The methods raise ZooError if there are no outputs, or if the numbers of outputs and references differ.

    Attributes:
        metric: The metric, a subclass of sacreBLEU's `Metric`.
        prepare: Function that tokenises each text before scoring. None if only sacreBLEU tokenises.
        tokenization: Entries that describe `prepare` in sacreBLEU's signature. They replace the entry `tok:none`.
    """

    metric: Any
    prepare: Callable[[str], str] | None = None
    tokenization: str = "tok:none"

    def score(self, outputs: Sequence[str], references: Sequence[str]) -> float:
        """Return the corpus score for the outputs, given one reference per output."""
        return float(self.metric.corpus_score(*self._arguments(outputs, references)).score)

    def statistics(self, outputs: Sequence[str], references: Sequence[str]) -> FloatArray:
        """Return statistics such as n-gram counts for each sentence, with shape [sentences, statistics].

        `scores` computes the corpus score from the sum of the statistics over all sentences.
        """
        statistics = self.metric._extract_corpus_statistics(*self._arguments(outputs, references))
        return np.array(statistics, dtype=np.float64)

    def scores(self, sums: FloatArray) -> FloatArray:
        """Return the corpus scores of several sets of sentences, with shape [sets].

        Args:
            sums: Statistics of each set, summed over its sentences, [sets, statistics].
        """
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums])

    def signature(self, **more: object) -> str:
        """Return sacreBLEU's signature of the last computed score, extended by the entries in `more`."""
        signature = self.metric.get_signature()
        for name, value in more.items():
            signature.update(name, value)
        return str(signature).replace("tok:none", self.tokenization)

    def _arguments(self, outputs: Sequence[str], references: Sequence[str]) -> tuple[list[str], list[list[str]]]:
        check_lengths(outputs, references)
        prepare = self.prepare or str
        return [prepare(text) for text in outputs], [[prepare(text) for text in references]]


def text_metric(
    name: str, language: str | None = None, *, tokenize: Tokenization = "13a", lowercase: bool = False
) -> TextMetric:
    """Return the metric with this name. `TEXT_METRICS` lists the names.

    - `bleu`: BLEU as sacreBLEU computes it.
    - `paper_bleu`: BLEU as in the paper's Table 2. Moses tokenises the text, and German compounds are split at hyphens.
      Typographic quotes become plain quotes, because many systems were trained without typographic quotes. For example,
      one system scored 27.52 with `bleu` and 29.02 with `paper_bleu`.
    - `chrf`: chrF2, the F-score of character n-grams (Popović 2015).
    - `ter`: TER, the number of edits and shifts per 100 reference words (Snover et al. 2006).
    - `wer`: word error rate, the number of edits per 100 reference words.
    - `cer`: character error rate, the number of edits per 100 reference characters.

    Args:
        name: Name of the metric.
        language: Language code such as de or de-AT, for `paper_bleu`. For an unknown language, Moses uses the rules for
            English.
        tokenize: Tokenisation of `bleu`.
        lowercase: Whether BLEU, chrF, WER and CER ignore case.

    Raises:
        ZooError: The metric is `wer` or `cer`, and the package jiwer is not installed.
    """
    # "force" silences sacreBLEU's warning about text that looks tokenised. The signature specifies the tokenisation.
    bleu = {"lowercase": lowercase, "force": True}
    match name:
        case "bleu":
            return TextMetric(_sacrebleu("BLEU", tokenize=tokenize, **bleu))
        case "paper_bleu":
            code = base_language(language or "")
            compounds = "split" if code == _COMPOUND_LANGUAGE else "whole"
            return TextMetric(
                _sacrebleu("BLEU", tokenize="none", smooth_method="none", **bleu),
                moses_tokenizer(code),
                f"tok:moses-{code}|quotes:plain|compounds:{compounds}",
            )
        case "chrf":
            return TextMetric(_sacrebleu("CHRF", lowercase=lowercase))
        case "wer" | "cer":
            error_rates = import_module("zoo.evaluation.error_rates")  # imported late, because it imports sacrebleu
            return TextMetric(error_rates.ErrorRate("words" if name == "wer" else "characters", lowercase=lowercase))
    return TextMetric(_sacrebleu("TER"))


def _sacrebleu(kind: str, **options: Any) -> Any:
    # Imported late: the import takes a tenth of a second, and listing the names of metrics does not need it.
    return getattr(import_module(f"sacrebleu.metrics.{kind.lower()}"), kind)(**options)


def check_lengths(outputs: Sequence[str], references: Sequence[str]) -> None:
    """Raise ZooError if there are no outputs, or if the numbers of outputs and references differ."""
    check_same_length(outputs, references, ("outputs", "references"))
    if not references:
        hint = "pass at least one output and its reference: check whether the files are empty"
        raise ZooError("there are no outputs and no references to score", hint=hint)


def read_aligned(outputs: Path | str, references: Path | str) -> tuple[list[str], list[str]]:
    """Read a file with outputs and a file with their references. Return the lines of both files.

    Raises:
        ZooError: A file cannot be read or is not UTF-8, or the files have different numbers of lines.
    """
    lines = read_lines(outputs), read_lines(references)
    check_same_length(*lines, (f"lines in `{outputs}`", f"in `{references}`"))
    return lines


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Create a function that tokenises a sentence for the paper's BLEU, and joins the tokens with spaces."""
    code = base_language(language)
    moses = import_module("sacremoses").MosesTokenizer(code)  # imported late: it takes half a second

    def tokenize(text: str) -> str:
        tokens: str = moses.tokenize(text.translate(_PLAIN_QUOTES), return_str=True, escape=False)
        return _COMPOUND.sub(_SPLIT_COMPOUND, tokens) if code == _COMPOUND_LANGUAGE else tokens

    return tokenize


def moses_languages() -> frozenset[str]:
    """Return the codes of the languages for which the Moses tokeniser has rules."""
    return frozenset(import_module("sacremoses.corpus").NonbreakingPrefixes().available_langs.values())
