"""`README.md` of a bundle: what the model is, how good, where it comes from, and how to use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import compiler
import specs
from specs import Archive, Corpus, Files, Grammar, Parsing, Spec, Task, Treebank
from specs.task import COMMANDS
from zoo.evaluation.metrics import metrics_for
from zoo.evaluation.scores import MACHINE_KEY
from zoo.publishing.facts import Facts
from zoo.publishing.origin import cell, origin, training
from zoo.publishing.sample import Sample
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
        "It translates `{0.source}` to `{0.target}`.",
        *("translator", "translate", "source.txt > target.txt", "pairs"),
    ),
    "parsing": _Words(
        "It parses sentences of `{0.source}` into constituency trees.",
        *("parser", "parse", "sentences.txt > trees.txt", "trees"),
    ),
}


def card(
    spec: Spec,
    vocabulary: Vocabulary,
    scores: Mapping[str, Any],
    facts: Facts,
    longest_source: int | None = None,
    sample: Sample | None = None,
) -> str:
    """Markdown, as it is read in a terminal or on a page. `scores` are those of scores.json; `longest_source` is that
    of the training, in tokens."""
    task = _TASKS[spec.task.kind]
    parts = [
        f"# {spec.name}\n\n{cell(spec.description) if facts.imported else spec.description}",
        f'A Transformer as in "Attention Is All You Need" (Vaswani et al. 2017). {_does(spec, task)}',
        _table(*_architecture(spec)),
        *_layers(spec),
        *origin(facts),
        f"## Scores\n\n{_scores(scores, spec.task)}",
        *_speed(scores),
        f"## Training\n\n{training(spec, facts)}",
        f"## Data and licence\n\n{_data(spec, task.examples, facts)}",
        f"## Limits\n\n{_limits(spec, vocabulary, facts, longest_source, scores)}",
        _use(spec, task, sample, scores),
        *_published(facts),
    ]
    return "\n\n".join(parts) + "\n"


def _does(spec: Spec, task: _Words) -> str:
    if {spec.corpus.source, spec.corpus.target} == {"und"}:  # ISO 639's code for undetermined, of many an import
        return "Between which languages it translates is not known here."
    return task.does.format(spec.corpus)


def _architecture(spec: Spec) -> tuple[list[str], list[list[str]]]:
    values = [str(getattr(spec.architecture, key)) for key in _ARCHITECTURE]
    sizes = [f"{_pieces(spec)} {spec.vocabulary.kind}", f"{compiler.parameters(spec):,}"]
    return [*_ARCHITECTURE, "tokens", "parameters"], [[*values, *sizes]]


def _layers(spec: Spec) -> Iterator[str]:
    """What stands in a layer that is not the paper's (3.1)."""
    paper = specs.load("base").architecture
    for side in ("encoder", "decoder"):
        parts = getattr(spec.architecture, side)
        if parts != getattr(paper, side):
            sizes = [{key: value for key, value in each.model_dump().items() if key != "kind"} for each in parts]
            named = [
                f"`{each.kind}`" + "".join(f" ({key} {value})" for key, value in own.items())
                for each, own in zip(parts, sizes, strict=True)
            ]
            yield f"A layer of its {side} is {', '.join(named)}."


def _pieces(spec: Spec) -> str:
    sizes = spec.vocabulary.sizes
    return f"{sizes[0]:,}" if sizes[0] == sizes[1] else f"{sizes[0]:,} and {sizes[1]:,}"


def _unknown(vocabulary: Vocabulary, task: Task) -> str:
    if isinstance(task, Parsing):
        read = "read in bytes" if vocabulary.byte_fallback else "unknown, however many they are in a row"
        return f"Characters that have no word token are {read}; the trees have the words as they were given."
    if vocabulary.byte_fallback:
        return "Characters that have no word token are read and written in bytes, so that none is lost."
    return (
        "Characters that have no word token are unknown: the model reads a run of them as one token, of which it has "
        "learned nothing, and writes whatever it takes that for. It cannot write them."
    )


def _scores(scores: Mapping[str, Any], task: Task) -> str:
    if not scores:
        return "Nobody had scored it when it was published."
    # What was scored before there were the longer ones has none of them.
    metrics = [m for m in metrics_for(task) if m.in_summary or all(m.name in of for of in scores.values())]
    columns, numbers = ["set"], []
    for metric in metrics:
        columns += [f"{metric.title}{metric.unit and f' a {metric.unit}'}", *metric.details.values()]
        numbers += [(metric, name) for name in (metric.name, *metric.details)]
    rows = [
        [
            split,
            *(metric.format_score(of[name]) for metric, name in numbers),
            f"{of['sentences']:,}",
            "`" + str(of["signature"]).replace("|", r"\|") + "`",
        ]
        for split, of in scores.items()
    ]
    signed = {f"- {m.title}: `{of[m.signature]}`": None for m in metrics if not m.in_summary for of in scores.values()}
    return "\n\n".join([_table([*columns, "sentences", "signature"], rows), *(["\n".join(signed)] if signed else [])])


def _speed(scores: Mapping[str, Any]) -> Iterator[str]:
    """On the machine that scored it; of what was scored before machines were written down, nothing."""
    for split, of in scores.items():
        if MACHINE_KEY in of and of.get("sentences_per_second"):
            yield (
                f"The {split} set went at {of['sentences_per_second']:,.1f} sentences a second, all at once, by the "
                f"beam and penalty of its spec ({cell(str(of[MACHINE_KEY]))})."
            )


def _data(spec: Spec, examples: str, facts: Facts) -> str:
    trained = _corpus(spec.corpus, examples)
    own = all(isinstance(part, Grammar) for part in spec.corpus.train)
    licence = "Its publisher says no licence." if spec.licence is None else f"Its licence: {cell(spec.licence)}."
    said = [licence, f"Trained on:\n\n{trained}" if trained else "On what it was trained is not known here."]
    if not (own and trained):
        said.append(
            "The weights follow from these texts: whoever passes them on has to keep to the licences of the texts, and "
            "to credit their authors. The bundle does not know the licences of texts."
        )
    if spec.training.start_from is not None:
        said.append(
            f"It began with the weights of {cell(PurePath(spec.training.start_from).name)}: the texts and the licence "
            "of that model are its own, too."
        )
    if facts.text.fingerprint:
        hashes = "; `facts.json` has hashes of its files" if facts.text.files or facts.text.archives else ""
        said.append(f"The prepared corpus has the fingerprint `{facts.text.fingerprint}`{hashes}.")
    return "\n\n".join(said)


def _limits(
    spec: Spec, vocabulary: Vocabulary, facts: Facts, longest_source: int | None, scores: Mapping[str, Any]
) -> str:
    scored = "Its scores are of the sets above. " if scores else ""
    longest = "" if longest_source is None else f", and its training had none of more than {longest_source:,}"
    limits = [
        f"It reads sentences of {spec.decoding.max_source_length:,} tokens at most{longest}.",
        "Text is normalised as it was in training: control characters become spaces, and the rest is as Unicode's "
        f"NFKC has it. {_unknown(vocabulary, spec.task)}",
        f"{scored}Text of another kind than it was trained on will come out worse, and nothing in an output tells "
        "when it is wrong.",
    ]
    if spec.corpus.train and all(isinstance(part, Grammar) for part in spec.corpus.train):
        limits.append("It knows no words and no sentences but those of zoo's own small grammar: it is no use beyond.")
    return "\n".join(f"- {each}" for each in [*limits, *map(cell, facts.notes)])


def _published(facts: Facts) -> Iterator[str]:
    if facts.published:
        yield (
            f"Published on {facts.published.partition('T')[0]} by zoo {facts.by}. The fingerprint of its spec, which "
            f"all of the same network and recipe have, is `{facts.spec}`."
        )


def _use(spec: Spec, task: _Words, sample: Sample | None, scores: Mapping[str, Any]) -> str:
    if sample is None and not scores:
        score = ""
    elif sample is None:
        score = (
            " It has no sample of its test set, whose text is not passed on here: its score is the publisher's word."
        )
    else:
        score = (
            f" Of its {sample.set} set {len(sample.sources):,} of {sample.sentences:,} sentences are in `sample.json`, "
            f"with what it made of them: they score {sample.score:.2f}, and must here, to a point."
        )
    return f"""## Use

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
sentences with those in `proof.safetensors`.{score}"""


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
