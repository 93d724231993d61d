"""Corpus metrics of text with sacreBLEU's signatures: BLEU, the paper's BLEU, chrF2 and TER."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from specs import ZooError

if TYPE_CHECKING:
    from zoo.evaluation.outputs import ModelOutputs

# sacreBLEU's other tokenisations download models or need further packages.
TOKENIZATIONS = ("13a", "intl", "char", "zh", "none")

_FILTERED_LINES, _FULL_LINES = 2_737, 3_003
_NEWSTEST = "newstest2014 has 3,003 lines, and 2,737 in the filtered form of the evaluation of 2014"
_USE_FULL_SET = "use the full set for both files, which is sacreBLEU's `wmt14/full`"

_COMPOUND = re.compile(r"(\S)-(\S)")
_SPLIT_COMPOUND = r"\1 ##AT##-##AT## \2"
_PLAIN_QUOTES = str.maketrans("„“”‚‘’", "\"\"\"'''")
_COMPOUND_LANGUAGE = "de"


class CorpusScore(NamedTuple):
    """A corpus score in points, sacreBLEU's result object, and the signature that identifies the computation."""

    score: float
    result: Any
    signature: str


@dataclass(frozen=True, slots=True)
class Bleu:
    """BLEU in points (0 to 100) with its components. Precisions are in points, lengths in tokens."""

    score: float
    signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int


def corpus_score(kind: str, hypotheses: Sequence[str], references: Sequence[str], **options: Any) -> CorpusScore:
    """Compute a metric of sacreBLEU over a corpus, with one reference per sentence.

    Args:
        kind: "BLEU", "CHRF" or "TER".
        hypotheses: The texts to score.
        references: Their references.
        **options: Arguments of sacreBLEU's metric class.

    Raises:
        ZooError: The numbers of hypotheses and references differ, or are 0.
    """
    check_lengths(hypotheses, references)
    metric = sacrebleu_metric(kind, **options)
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return CorpusScore(float(result.score), result, str(metric.get_signature()))


def sacrebleu_metric(kind: str, **options: Any) -> Any:
    """Return an object of sacreBLEU's metric class "BLEU", "CHRF" or "TER"."""
    # Imported late: it takes a tenth of a second, which is not needed to list the names of metrics.
    return getattr(import_module(f"sacrebleu.metrics.{kind.lower()}"), kind)(**options)


def check_lengths(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raise ZooError unless there is at least one hypothesis, and one reference for each."""
    if len(hypotheses) != len(references):
        raise ZooError(
            f"there are {len(hypotheses):,} hypotheses and {len(references):,} references",
            hint=line_count_hint(len(hypotheses), len(references)),
        )
    if not references:
        raise ZooError("there is nothing to score: there are no hypotheses and no references")


def line_count_hint(first: int, second: int) -> str:
    """Return the hint for two files with these numbers of lines."""
    if {first, second} == {_FILTERED_LINES, _FULL_LINES}:
        return f"{_NEWSTEST}: {_USE_FULL_SET}"
    return "line n of one file is compared with line n of the other: both need the same number of lines"


def filtered_set_warning(lines: int) -> str | None:
    """Return a warning if a test set of this many lines looks like the filtered newstest2014, else None."""
    return f"if this is newstest2014: {_NEWSTEST}; {_USE_FULL_SET}" if lines == _FILTERED_LINES else None


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    lowercase: bool = False,
    smooth_method: str = "exp",
) -> Bleu:
    """Compute corpus BLEU with one reference per sentence.

    Args:
        hypotheses: The translations.
        references: Their references.
        tokenize: sacreBLEU's tokenisation, one of `TOKENIZATIONS`.
        lowercase: Whether case is ignored.
        smooth_method: sacreBLEU's smoothing of precisions that are 0.

    Raises:
        ZooError: The numbers of hypotheses and references differ or are 0, or there is no such tokenisation.
    """
    options = bleu_options(tokenize, lowercase) | {"smooth_method": smooth_method}
    score, result, signature = corpus_score("BLEU", hypotheses, references, **options)
    return Bleu(
        score=score,
        signature=signature,
        precisions=tuple(float(precision) for precision in result.precisions),
        brevity_penalty=float(result.bp),
        hypothesis_length=int(result.sys_len),
        reference_length=int(result.ref_len),
    )


def bleu_options(tokenize: str, lowercase: bool) -> dict[str, Any]:
    """Return the arguments of sacreBLEU's BLEU.

    Raises:
        ZooError: There is no such tokenisation.
    """
    if tokenize not in TOKENIZATIONS:
        raise ZooError(f"`{tokenize}` is not a tokenisation", hint=f"use one of {', '.join(TOKENIZATIONS)}")
    # "force" silences sacreBLEU's warning about text that looks tokenised; the signature says what was done.
    return {"tokenize": tokenize, "lowercase": lowercase, "force": True}


def paper_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str, *, lowercase: bool = False) -> Bleu:
    """Compute BLEU as in the paper's Table 2: Moses tokens, with German compounds split at their hyphens.

    It differs from sacreBLEU's BLEU: one system scored 27.52 with sacreBLEU and 29.02 with this. Typographic quotes are
    replaced by plain ones on both sides first, because the training data of many systems has no typographic quotes.

    Args:
        hypotheses: The translations, not tokenised.
        references: Their references, not tokenised.
        language: Language code such as de or de-AT. Moses uses its English rules for languages that it does not know.
        lowercase: Whether case is ignored.

    Raises:
        ZooError: The numbers of hypotheses and references differ, or are 0.
    """
    tokenize = moses_tokenizer(language)
    result = bleu(
        [tokenize(text) for text in hypotheses],
        [tokenize(text) for text in references],
        tokenize="none",
        lowercase=lowercase,
        smooth_method="none",
    )
    return replace(result, signature=paper_signature(result.signature, language))


def paper_signature(signature: str, language: str) -> str:
    """Return the signature of the paper's BLEU: sacreBLEU's, with the tokenisation that was done before."""
    code = _language_code(language)
    compounds = "split" if code == _COMPOUND_LANGUAGE else "whole"
    return signature.replace("tok:none", f"tok:moses-{code}|quotes:plain|compounds:{compounds}")


def moses_tokenizer(language: str) -> Callable[[str], str]:
    """Return the function that tokenises a sentence for the paper's BLEU and joins the tokens by spaces."""
    code = _language_code(language)
    moses = import_module("sacremoses").MosesTokenizer(code)  # imported late: it takes half a second

    def tokenize(text: str) -> str:
        tokens: str = moses.tokenize(text.translate(_PLAIN_QUOTES), return_str=True, escape=False)
        return _COMPOUND.sub(_SPLIT_COMPOUND, tokens) if code == _COMPOUND_LANGUAGE else tokens

    return tokenize


def moses_languages() -> frozenset[str]:
    """Return the codes of the languages that Moses has rules for."""
    return frozenset(import_module("sacremoses.corpus").NonbreakingPrefixes().available_langs.values())


def _language_code(language: str) -> str:
    """Return the language without country or script: de for de-AT."""
    return language.partition("-")[0]


def compute_bleu(outputs: ModelOutputs) -> dict[str, float | str]:
    """Return the entries of `scores.json` for BLEU."""
    result = bleu(outputs.texts, outputs.references)
    return {"bleu": result.score, "signature": result.signature}


def compute_paper_bleu(outputs: ModelOutputs) -> dict[str, float | str]:
    """Return the entries of `scores.json` for the paper's BLEU."""
    result = paper_bleu(outputs.texts, outputs.references, outputs.language)
    return {"paper_bleu": result.score, "paper_bleu_signature": result.signature}


def compute_chrf(outputs: ModelOutputs) -> dict[str, float | str]:
    """Return the entries of `scores.json` for chrF2, the F-score of character n-grams (Popović 2015), in points."""
    result = corpus_score("CHRF", outputs.texts, outputs.references)
    return {"chrf": result.score, "chrf_signature": result.signature}


def compute_ter(outputs: ModelOutputs) -> dict[str, float | str]:
    """Return the entries of `scores.json` for TER: edits and shifts per 100 reference words (Snover et al. 2006)."""
    result = corpus_score("TER", outputs.texts, outputs.references)
    return {"ter": result.score, "ter_signature": result.signature}
