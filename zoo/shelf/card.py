"""`README.md` of a bundle: what the model is, how good, where it comes from, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import compiler
from specs import Archive, Corpus, Files, Grammar, Parsing, Spec, Task, Treebank
from specs.task import COMMANDS
from zoo.evaluation.metric import metrics_of
from zoo.text.vocabulary import Vocabulary

_ARCHITECTURE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout", "positional_encoding", "norm")


class _Words(NamedTuple):
    """What a card says otherwise of another task."""

    does: str
    noun: str
    verb: str
    files: str
    examples: str


_TASKS = {
    "translation": _Words(
        "It translates `{0.source}` to\n`{0.target}`.",
        *("translator", "translate", "source.txt > target.txt", "pairs"),
    ),
    "parsing": _Words(
        "It parses\nsentences of `{0.source}` into constituency trees.",
        *("parser", "parse", "sentences.txt > trees.txt", "trees"),
    ),
}


def card(spec: Spec, vocabulary: Vocabulary, scores: Mapping[str, Any], facts: Mapping[str, str]) -> str:
    """Markdown. `scores` are those of scores.json, `facts` those of the weights."""
    corpus, training, task = spec.corpus, spec.training, _TASKS[spec.task.kind]
    return f"""# {spec.name}

{spec.description}

A Transformer as in "Attention Is All You Need" (Vaswani et al. 2017). {task.does.format(corpus)}

{_table(*_architecture(spec))}

Text is normalised as it was in training: control characters become spaces, and the rest is as Unicode's NFKC has it.
{_unknown(vocabulary, spec.task)}

## Scores

{_scores(scores, spec.task)}

## Training

{_weights(facts)} A step had at most {training.source_tokens:,} source and {training.target_tokens:,} target tokens,
padding counted. `spec.yaml` holds the whole recipe.

Trained on:

{_corpus(corpus, task.examples)}

The weights follow from these texts: whoever passes them on has to keep to the licences of the texts, and to credit
their authors.

## Use

```python
import zoo

{task.noun} = zoo.load("{spec.name}")
{task.noun}.{task.verb}("...")
```

```sh
zoo {COMMANDS[spec.task.kind]} --model {spec.name} < {task.files}
zoo verify {spec.name}
```

`zoo verify` compares all files with `manifest.json`, and the log-probabilities that the model gives to a few
sentences with those in `proof.safetensors`.
"""


def _architecture(spec: Spec) -> tuple[list[str], list[list[str]]]:
    values = [str(getattr(spec.architecture, key)) for key in _ARCHITECTURE]
    sizes = [f"{_pieces(spec)} {spec.vocabulary.kind}", f"{compiler.parameters(spec):,}"]
    return [*_ARCHITECTURE, "pieces", "parameters"], [[*values, *sizes]]


def _pieces(spec: Spec) -> str:
    sizes = spec.vocabulary.sizes
    return f"{sizes[0]:,}" if sizes[0] == sizes[1] else f"{sizes[0]:,} and {sizes[1]:,}"


def _unknown(vocabulary: Vocabulary, task: Task) -> str:
    if isinstance(task, Parsing):
        read = "read in bytes" if vocabulary.byte_fallback else "unknown, however many they are in a row"
        return f"Characters that have no word piece are {read}; the trees have the words as they were given."
    if vocabulary.byte_fallback:
        return "Characters that have no word piece are read and written in bytes, so that none is lost."
    return (
        "Characters that have no word piece are unknown: the model reads a run of them as one piece, of which it has "
        "learned nothing, and writes whatever it takes that for. It cannot write them."
    )


def _scores(scores: Mapping[str, Any], task: Task) -> str:
    if not scores:
        return "Nobody had scored it when it was published."
    # What was scored before there were the longer ones has none of them.
    metrics = [m for m in metrics_of(task) if m.brief or all(m.name in of for of in scores.values())]
    columns, numbers = ["set"], []
    for metric in metrics:
        columns += [f"{metric.called}{metric.unit and f' a {metric.unit}'}", *metric.details.values()]
        numbers += [(metric, name) for name in (metric.name, *metric.details)]
    rows = [
        [
            split,
            *(metric.written(of[name]) for metric, name in numbers),
            f"{of['sentences']:,}",
            "`" + str(of["signature"]).replace("|", r"\|") + "`",
        ]
        for split, of in scores.items()
    ]
    signed = {f"- {m.called}: `{of[m.signature]}`": None for m in metrics if not m.brief for of in scores.values()}
    return "\n\n".join([_table([*columns, "sentences", "signature"], rows), *(["\n".join(signed)] if signed else [])])


def _weights(facts: Mapping[str, str]) -> str:
    steps = facts.get("steps", "").split(",")
    if steps == [""]:
        return "The weights do not say of which steps they are."
    if len(steps) == 1:
        return f"The weights are those of step {steps[0]}."
    return f"The weights are the mean of {len(steps)} checkpoints, of the steps {steps[0]} to {steps[-1]}."


def _corpus(corpus: Corpus, examples: str) -> str:
    lines = []
    for part in corpus.train:
        match part:
            case Grammar():
                lines.append(f"- {part.grammar:,} {examples} of zoo's own grammar (no licence applies)")
            case Archive():
                lines.append(f"- <{part.archive}>: `{part.source}`, `{part.target}`")
            case Files():
                lines.append(
                    f"- files of the publisher: `{PurePath(part.source).name}`, `{PurePath(part.target).name}`"
                )
            case Treebank():
                lines.append(f"- trees of the publisher: `{PurePath(part.trees).name}`")
    return "\n".join(dict.fromkeys(lines))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))
