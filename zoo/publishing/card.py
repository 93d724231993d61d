"""The model card, `README.md` of a bundle: the model's purpose, scores, training, limits and use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import compiler
import specs
from specs import Grammar, Part, Spec
from zoo.evaluation.metrics import direction_score, metrics_for
from zoo.features.modality import modality_of
from zoo.generation.confidence import CALIBRATION_KEY, ERROR_KEY, GOOD_CHRF
from zoo.models.folder import SCORES
from zoo.publishing.provenance import Provenance, TrainingProvenance
from zoo.publishing.reference_results import NAME as REFERENCES
from zoo.report import duration
from zoo.text.vocabulary import Vocabulary

_TEMPLATE = Path(__file__).with_name("card.md")
_NORMALISATION = (
    "Text is normalised as in training: control characters become spaces, and other characters follow Unicode NFKC."
)
_ARCHITECTURE_FIELDS = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout")


def card(
    spec: Spec,
    vocabulary: Vocabulary,
    scores: Mapping[str, Any],
    provenance: Provenance,
    longest_source: int | None = None,
    notes: str = "",
) -> str:
    """Return the model card in Markdown.

    Args:
        spec: The model's spec.
        vocabulary: The model's vocabulary.
        scores: Content of the model's `scores.json`.
        provenance: The model's origin and training.
        longest_source: Length of the longest training input, in tokens or frames. None if it is unknown.
        notes: Markdown text from the publisher.

    Raises:
        ZooError: The scores are damaged.
    """
    try:
        score_table, confidence = _scores(scores, spec), _confidence(scores)
    except (KeyError, TypeError, ValueError):
        hint = "remove the file, and run `zoo evaluate --model RUN` to write it again"
        problem = f"the run's `{SCORES}` is damaged: some values are missing"
        raise specs.ZooError(problem, hint=hint, exit_code=1) from None
    target, modality = next((target for _, target in _directions(spec)), None), modality_of(spec.task)
    return _TEMPLATE.read_text("utf-8").format(
        spec=spec,
        provenance=provenance,
        description=escape(spec.description) if provenance.imported else spec.description,
        purpose=_purpose(spec),
        architecture="\n\n".join([_architecture_table(spec), *_layer_descriptions(spec), *_origin(provenance)]),
        scores=score_table,
        training=_training(spec, provenance),
        data=_data(spec, provenance),
        limitations=_limitations(spec, vocabulary, provenance, longest_source, confidence),
        notes=f"{notes.strip()}\n\n" if notes.strip() else "",
        method="transcribe" if modality and modality.cut_at_pauses else spec.task.method,
        argument="" if target is None else f', target="{target}"',
        option="" if target is None else f" --to {target}",
        references=REFERENCES,
        reproducibility=" The scores above cannot be reproduced from the published files." if scores else "",
        date=provenance.published.partition("T")[0],
    )


def escape(text: str) -> str:
    """Join the lines in a text and escape all Markdown characters, because the text may come from an imported model."""
    line = " ".join(text.split())
    return "".join(f"\\{sign}" if sign in r"\`*_[]<>|#~&!" else sign for sign in line)


def _purpose(spec: Spec) -> str:
    if spec.languages is not None and spec.reads_text:
        codes = ", ".join(f"`{code}`" for code in spec.languages.codes)
        return f"It translates between {len(spec.languages.codes)} languages: {codes}."
    if {spec.corpus.source, spec.corpus.target} == {"und"}:  # ISO 639 code of an undetermined language
        return "Its languages are unknown."
    sides = zip(*(_directions(spec) or [(spec.corpus.source, spec.corpus.target)]), strict=True)
    return spec.task.summary.format(spec.corpus, spec.task.streams.get("source"), *map(_any_of, sides))


def _any_of(codes: Iterable[str]) -> str:
    """Format language codes in Markdown, such as "`en`, `de` or `fr`"."""
    *others, last = (f"`{code}`" for code in dict.fromkeys(codes))
    return f"{', '.join(others)} or {last}" if others else last


def _architecture_table(spec: Spec) -> str:
    a = spec.architecture
    values = [str(getattr(a, key)) for key in _ARCHITECTURE_FIELDS]
    values += [a.positions.kind, f"{a.norm.kind}, {a.norm.placement}"]
    sizes = spec.vocabulary.sizes
    tokens = f"{sizes[0]:,}" if sizes[0] == sizes[1] else f"{sizes[0]:,} and {sizes[1]:,}"
    columns = [*_ARCHITECTURE_FIELDS, "positions", "norm", "vocabulary", "parameters"]
    values += [f"{tokens} {spec.vocabulary.kind} tokens", f"{compiler.parameters(spec):,}"]
    return _table(columns, [values])


def _layer_descriptions(spec: Spec) -> Iterator[str]:
    """Yield a sentence about the encoder layers and one about the decoder layers, if they differ from the paper's."""
    paper = specs.load("base").architecture
    for side in ("encoder", "decoder"):
        blocks = getattr(spec.architecture, side)
        if blocks != getattr(paper, side):
            names = [
                f"`{block.kind}`" + "".join(f" ({key} {value})" for key, value in block.own_options.items())
                for block in blocks
            ]
            yield f"Each {side} layer consists of {', '.join(names)}."


def _origin(provenance: Provenance) -> Iterator[str]:
    """Yield the card's section about the origin of an imported model. Yield nothing for other models."""
    if provenance.imported:
        rows = [[escape(key), escape(value)] for key, value in provenance.imported.items()]
        yield "## Origin\n\nThis model was trained with another toolkit and imported with `zoo import`."
        yield _table(["property", "value"], rows)


def _scores(scores: Mapping[str, Any], spec: Spec) -> str:
    if not scores:
        return "This model was not evaluated before it was published."
    metrics = [m for m in metrics_for(spec) if m.in_summary or all(m.name in result for result in scores.values())]
    columns, keys, is_signed = ["set"], [], any(metric.signature == "signature" for metric in metrics)
    for metric in metrics:
        columns += [f"{metric.title}{metric.unit and f' per {metric.unit}'}", *metric.details.values()]
        keys += [(metric, name) for name in (metric.name, *metric.details)]
    rows = [
        [
            split,
            *(metric.format_score(result[name]) for metric, name in keys),
            f"{result['sentences']:,}",
            "`" + str(result["signature"]).replace("|", r"\|") + "`" if is_signed else "",
        ]
        for split, result in scores.items()
    ]
    for split, result in scores.items():
        for source, target in _directions(spec):
            values = [direction_score(result, name, source, target) for _, name in keys]
            cells = [metric.format_score(value) for (metric, _), value in zip(keys, values, strict=True)]
            if any(value is not None for value in values):
                rows.append([f"{split}, {source} to {target}", *cells, "", ""])
    signatures = {
        f"- {m.title}: `{result[m.signature]}`" for m in metrics if not m.in_summary for result in scores.values()
    }
    table = _table([*columns, "sentences", "signature"], rows)
    return "\n\n".join([table, *(["\n".join(sorted(signatures))] if signatures else [])])


def _directions(spec: Spec) -> Sequence[tuple[str, str]]:
    """Return the translation directions of a multilingual model as (source language, target language)."""
    return tuple(dict.fromkeys(map(spec.corpus.direction, spec.corpus.parts))) if spec.languages else ()


def _training(spec: Spec, provenance: Provenance) -> str:
    training = provenance.training
    if training is None:
        return "It is unknown how this model was trained."
    batches = (
        f"Each step used batches of at most {spec.training.source_tokens:,} source {_unit(spec)} and "
        f"{spec.training.target_tokens:,} target tokens, including padding. The seed was {training.seed}. All settings "
        "are in `spec.yaml`."
    )
    return "\n\n".join([f"{_averaging(training.averaged_steps)} {batches}", *_cost(training)])


def _unit(spec: Spec) -> str:
    """Return the unit of source lengths: "tokens" or "frames"."""
    return "tokens" if spec.reads_text else "frames"


def _averaging(steps: Sequence[int]) -> str:
    if not steps:
        return "It is unknown at which training steps the weights were taken."
    if len(steps) == 1:
        return f"The weights are those of step {steps[0]:,}."
    return f"The weights are the mean of {len(steps)} checkpoints, from step {steps[0]:,} to step {steps[-1]:,}."


def _cost(training: TrainingProvenance) -> Iterator[str]:
    if training.flops is None:
        return
    steps = "" if training.steps is None else f" for {training.steps:,} steps"
    if training.seconds is None:
        yield f"The training took about {training.flops:.2g} FLOPs{steps}, an estimate for full batches."
        return
    machine = f" on {escape(training.machine)}" if training.machine else ""
    processes = f" with {training.devices} processes" if training.devices and training.devices > 1 else ""
    estimate = ""
    if training.paper_flops:
        estimate = (
            f" The method of section 6.1 of the paper gives {training.paper_flops:.2g}: the training time multiplied "
            "by the FLOPs per second that the hardware sustains."
        )
    yield (
        f"The training took {training.flops:.2g} FLOPs{steps} and {duration(training.seconds)}{machine}{processes}. "
        f"The FLOPs count all matrix products over the training tokens, without padding.{estimate}"
    )


def _data(spec: Spec, provenance: Provenance) -> str:
    corpus = "\n".join(dict.fromkeys(_credit(part, spec.task.examples) for part in spec.corpus.train))
    is_grammar = all(isinstance(part, Grammar) for part in spec.corpus.train)
    licence = "The publisher specified no licence." if spec.licence is None else f"Licence: {escape(spec.licence)}."
    data = f"The model was trained on:\n\n{corpus}" if corpus else "It is unknown on which data the model was trained."
    paragraphs = [licence, data]
    if not (is_grammar and corpus):
        paragraphs.append(
            "The weights are derived from these texts. If you redistribute the model, comply with the licences of the "
            "texts and credit their authors. The licences of the texts are not included here."
        )
    if spec.training.start_from is not None:
        paragraphs.append(
            f"The training started from the weights of {escape(PurePath(spec.training.start_from).name)}. The training "
            "data and the licence of that model also apply."
        )
    prepared = provenance.corpus
    if prepared.fingerprint:
        hashes = "; `facts.json` has the SHA-256 of its files" if prepared.files or prepared.archives else ""
        paragraphs.append(f"The fingerprint of the prepared corpus is `{prepared.fingerprint}`{hashes}.")
    return "\n\n".join(paragraphs)


def _credit(part: Part, examples: str) -> str:
    names = ", ".join(f"`{name}`" for name in part.credited_names if name)
    return f"- {part.credit.format(part=part, examples=examples, names=names)}"


def _limitations(
    spec: Spec, vocabulary: Vocabulary, provenance: Provenance, longest_source: int | None, confidence: str
) -> str:
    noun, unit = "sentence" if spec.reads_text else "file", _unit(spec)
    longest = "" if longest_source is None else f" Its longest training {noun} had {longest_source:,} {unit}."
    normalised = f"{_NORMALISATION} " if spec.reads_text else ""
    unlike = "Text that is unlike the training data gives" if spec.reads_text else "Files unlike the training data give"
    items = [
        f"It accepts {noun}s of up to {spec.decoding.max_source_length:,} {unit}.{longest}",
        f"{normalised}{_unknown_characters(spec, has_bytes=vocabulary.byte_fallback)}",
        f"{unlike} worse results. {confidence}",
    ]
    if spec.corpus.train and all(isinstance(part, Grammar) for part in spec.corpus.train):
        items.append("It only knows the words and sentences of zoo's small built-in grammar. It is a demonstration.")
    return "\n".join(f"- {item}" for item in [*items, *map(escape, provenance.notes)])


def _confidence(scores: Mapping[str, Any]) -> str:
    if CALIBRATION_KEY not in scores.get("dev", {}):
        return "The output does not show when it is wrong."
    error = scores.get("test", {}).get(ERROR_KEY)
    on_test = "" if error is None else f" On the test set, the calibration error is {error:.3f}."
    return (
        "Each translation has a `confidence`: the probability that its chrF against a reference translation is at "
        f"least {GOOD_CHRF:g}, calibrated on the dev set.{on_test}"
    )


def _unknown_characters(spec: Spec, *, has_bytes: bool) -> str:
    if spec.task.writes_trees:
        kind = "read as bytes" if has_bytes else "unknown tokens"
        return f"Characters outside the vocabulary are {kind}. The trees contain the words as they were given."
    if not spec.reads_text:
        if has_bytes:
            return "Characters outside its vocabulary are written as bytes."
        return "It cannot write characters outside its vocabulary."
    if has_bytes:
        return "Characters outside the vocabulary are read and written as bytes, so that no text is lost."
    return (
        "Characters outside the vocabulary are unknown: a sequence of them becomes one unknown token, for which the "
        "model can only guess a translation. It cannot write such characters."
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))
