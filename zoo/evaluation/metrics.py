"""Registry of evaluation metrics, computation of perplexity and bracket F1, and the format of `scores.json`.

To add a metric, add its `Metric` to `METRICS` and its name to the `scores` of a task. This module does not import
torch, because `zoo list` only needs the names of metrics.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, Any

from specs import Spec, ZooError
from zoo.evaluation.evalb import score_brackets
from zoo.evaluation.text_metrics import text_metric
from zoo.generation.confidence import ERROR_KEY

if TYPE_CHECKING:
    from zoo.evaluation.outputs import ModelOutputs
    from zoo.generation.scoring import TokenScores


@dataclass(frozen=True, eq=False)
class Metric:
    """Evaluation metric: its names, and how it is computed, compared and formatted."""

    name: str
    """Name in specs, in the training log and in `scores.json`."""
    title: str
    """Display name."""
    compute: Callable[[ModelOutputs], Mapping[str, float | str]]
    """Function that returns entries of `scores.json`: the score under the metric's name, a signature, and `details`."""
    signature: str = ""
    """Key of the metric's signature in `scores.json`. Empty if it has no signature."""
    higher_is_better: bool = True
    uses_probabilities: bool = False
    """Whether the metric only needs the probabilities of the references, and no generated outputs."""
    max_value: float = 100.0
    """Largest possible score. Infinity if the score has no limit. The smallest possible score is 0."""
    decimals: int = 2
    unit: str = ""
    """The unit in "per ..." after the score, such as "token". Empty if the score has no such unit."""
    in_summary: bool = True
    """Whether the one-line summary of a model's scores contains the metric."""
    details: Mapping[str, str] = field(default_factory=dict)
    """Titles of additional numbers that are shown with the score, keyed by their names in `scores.json`."""

    def score(self, outputs: ModelOutputs) -> float:
        """Return the score for a model's outputs."""
        return float(self.compute(outputs)[self.name])

    def is_better(self, score: float, than: float | None) -> bool:
        """Return whether `score` is finite and better than `than`. Any finite score is better than None."""
        if than is None or not math.isfinite(score):
            return math.isfinite(score)
        return score > than if self.higher_is_better else score < than

    def format_score(self, score: Any) -> str:
        """Format a score for display, with a dash for None."""
        return "-" if score is None else f"{score:.{self.decimals}f}"

    def read_score(self, scores: object) -> float | None:
        """Read this metric's score from an entry in `scores.json`. Return None if the score is missing or invalid."""
        score = scores.get(self.name) if isinstance(scores, Mapping) else None
        if not isinstance(score, int | float) or not 0 <= score < self.max_value * 1.00001:
            return None
        return min(self.max_value, score)  # rounding can make a perfect score exceed 100


def perplexity(scores: Sequence[TokenScores]) -> float:
    """Return the perplexity per token, as in the paper's Table 3.

    The perplexity is exp(mean negative log-probability) over all tokens, including EOS. Perplexities can only be
    compared between models with the same vocabulary.

    Raises:
        ZooError: There are no sentences.
    """
    tokens = sum(score.tokens for score in scores)
    if not tokens:
        raise ZooError("there are no sentences to score", hint="pass at least one sentence")
    mean = -math.fsum(score.log_probability for score in scores) / tokens
    try:
        return math.exp(mean)
    except OverflowError:
        return math.inf


_F1_DETAILS = {"recall": "recall", "precision": "precision", "complete_match": "complete match"}


def compute_f1(outputs: ModelOutputs) -> dict[str, float | str]:
    """Return the F1 of labelled brackets and related scores, in points, as entries of `scores.json`.

    Each word in an output gets its part-of-speech tag from the reference. EVALB deletes words with punctuation tags,
    and then excludes a sentence if the output and the reference have different words. If EVALB used the parser's tags,
    it would therefore exclude sentences with wrong punctuation tags, and score the parser only on easy sentences.

    Raises:
        ZooError: A reference is not a tree. An output that is not a tree only counts as a sentence with an error.
    """
    result = score_brackets(outputs.texts, outputs.evaluation_set.references, own_tags=False)
    return {"f1": result.f1, **{name: getattr(result, name) for name in _F1_DETAILS}, "signature": result.signature}


def compute_text_metric(outputs: ModelOutputs, *, name: str) -> dict[str, float | str]:
    """Return the score and signature of a metric in `TEXT_METRICS` as entries of `scores.json`.

    If there are several translation directions, the score is the mean over the directions. Each direction then has an
    additional entry, such as `bleu de en`. Signatures that depend on the language are joined.
    """
    scores, signatures = {}, dict[str, None]()
    for (source, target), *texts in outputs.evaluation_set.texts_to_score(name, outputs.texts):
        metric = text_metric(name, target)
        scores[f"{name} {source} {target}"] = metric.score(*texts)
        signatures[metric.signature()] = None
    of_directions = scores if len(outputs.evaluation_set.rows_by_direction) > 1 else {}
    return {name: fmean(scores.values()), **of_directions, get_metric(name).signature: " and ".join(signatures)}


def direction_score(scores: Mapping[str, Any], name: str, *direction: str) -> Any:
    """Return the entry in `scores.json` for a metric and a translation direction. None if there is no entry."""
    # Older versions of zoo wrote keys such as `bleu_en_de`.
    return scores.get(" ".join((name, *direction)), scores.get("_".join((name, *direction))))


def _of_text(name: str, title: str, signature: str = "", **fields: Any) -> Metric:
    return Metric(name, title, partial(compute_text_metric, name=name), signature or f"{name}_signature", **fields)


METRICS = (
    _of_text("wer", "WER", higher_is_better=False, max_value=math.inf),
    _of_text("cer", "CER", higher_is_better=False, max_value=math.inf),
    _of_text("bleu", "BLEU", "signature"),
    _of_text("paper_bleu", "paper's BLEU", in_summary=False),
    _of_text("chrf", "chrF", in_summary=False),
    _of_text("ter", "TER", higher_is_better=False, max_value=math.inf, in_summary=False),
    Metric("f1", "F1", compute_f1, "signature", details=_F1_DETAILS),
    Metric(
        "perplexity",
        "perplexity",
        lambda outputs: {"perplexity": perplexity(outputs.reference_scores)},
        higher_is_better=False,
        uses_probabilities=True,
        max_value=math.inf,
        decimals=3,
        unit="token",
    ),
)
"""All metrics, in the order in which they are shown."""
DEV_TITLES = {f"dev_{metric.name}": f"dev {metric.title}" for metric in METRICS}
"""Keys of dev scores in the training log, and their titles."""


def get_metric(name: str) -> Metric:
    """Return the metric with this name."""
    return {metric.name: metric for metric in METRICS}[name]


def metrics_for(spec: Spec) -> tuple[Metric, ...]:
    """Return the metrics for a model with this spec. The first metric is the main metric."""
    return tuple(metric for metric in METRICS if metric.name in spec.scores)


Scores = dict[str, Any]
"""Scores of a model on a set: the entries of each metric, in the order of METRICS, then the number of sentences and the
speed. NaN and infinity, which JSON cannot represent, are None.
"""

MACHINE_KEY = "machine"
"""Key in `scores.json` for the device, backend and precision of the speed measurement."""


def compute_scores(outputs: ModelOutputs, spec: Spec) -> Scores:
    """Compute all scores of a model from its outputs, and the model's speed in sentences per second."""
    scores: Scores = {}
    for metric in metrics_for(spec):
        scores |= metric.compute(outputs)
    scores["sentences"] = sentences = len(outputs.evaluation_set.references)
    if spec.task.reads:
        scores |= {"seconds": outputs.seconds, "sentences_per_second": sentences / outputs.seconds}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in scores.items()
    }


def summary_line(scores: Scores) -> str:
    """Return one line of text with the scores of all metrics that have `in_summary` set."""
    metrics = [metric for metric in _present_metrics(scores) if metric.in_summary]
    return ", ".join(f"{m.title} {m.format_score(scores[m.name])}{m.unit and f' per {m.unit}'}" for m in metrics)


def table_rows(scores: Scores) -> Iterator[tuple[str, str]]:
    """Yield the rows of a score table as pairs of title and formatted value. Signatures come last."""
    metrics = _present_metrics(scores)
    for metric in metrics:
        yield metric.title, f"{metric.format_score(scores[metric.name])}{metric.unit and f' per {metric.unit}'}"
        yield from ((title, metric.format_score(scores[name])) for name, title in metric.details.items())
        for key, score in scores.items():
            separator = " " if " " in key else "_"  # see `direction_score`
            start = f"{metric.name}{separator}"
            if key.startswith(start) and isinstance(score, float) and key not in metric.details:
                direction = key.removeprefix(start).replace(separator, " to ")
                yield f"{metric.title}, {direction}", metric.format_score(score)
    if ERROR_KEY in scores:
        yield "calibration error of the confidence", f"{scores[ERROR_KEY]:.3f}"
    yield "sentences", f"{scores['sentences']:,}" + (f" in {scores['seconds']:.1f} s" if "seconds" in scores else "")
    signed = [metric for metric in metrics if metric.signature in scores]
    for metric in signed:
        yield f"signature, {metric.title}" if len(signed) > 1 else "signature", scores[metric.signature]


def _present_metrics(scores: Scores) -> tuple[Metric, ...]:
    return tuple(metric for metric in METRICS if metric.name in scores)
