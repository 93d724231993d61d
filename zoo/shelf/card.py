"""`README.md` of a bundle: what the model is, how good, where it comes from, and how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

import compiler
from specs import Archive, Corpus, Files, Grammar, Spec
from zoo.text.vocabulary import Vocabulary

_ARCHITECTURE = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "dropout", "positional_encoding", "norm")


def card(spec: Spec, vocabulary: Vocabulary, scores: Mapping[str, Any], facts: Mapping[str, str]) -> str:
    """Markdown. `scores` are those of scores.json, `facts` those of the weights."""
    corpus, training = spec.corpus, spec.training
    return f"""# {spec.name}

{spec.description}

A Transformer as in "Attention Is All You Need" (Vaswani et al. 2017). It translates `{corpus.source}` to
`{corpus.target}`.

{_table(*_architecture(spec))}

Text is normalised as it was in training: control characters become spaces, and the rest is as Unicode's NFKC has it.
{_unknown(vocabulary)}

## Scores

{_scores(scores)}

## Training

{_weights(facts)} A step had at most {training.source_tokens:,} source and {training.target_tokens:,} target tokens,
padding counted. `spec.yaml` holds the whole recipe.

Trained on:

{_corpus(corpus)}

The weights follow from these texts: whoever passes them on has to keep to the licences of the texts, and to credit
their authors.

## Use

```python
import zoo

translator = zoo.load("{spec.name}")
translator.translate("...")
```

```sh
zoo decode --model {spec.name} < source.txt > target.txt
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


def _unknown(vocabulary: Vocabulary) -> str:
    if vocabulary.byte_fallback:
        return "Characters that have no word piece are read and written in bytes, so that none is lost."
    return (
        "Characters that have no word piece are unknown: the model reads a run of them as one piece, of which it has "
        "learned nothing, and writes whatever it takes that for. It cannot write them."
    )


def _scores(scores: Mapping[str, Any]) -> str:
    if not scores:
        return "Nobody had scored it when it was published."
    rows = [
        [
            name,
            f"{of['bleu']:.2f}",
            f"{of['perplexity']:.3f}",
            f"{of['sentences']:,}",
            "`" + str(of["signature"]).replace("|", r"\|") + "`",
        ]
        for name, of in scores.items()
    ]
    return _table(["set", "BLEU", "perplexity a piece", "sentences", "signature"], rows)


def _weights(facts: Mapping[str, str]) -> str:
    steps = facts.get("steps", "").split(",")
    if steps == [""]:
        return "The weights do not say of which steps they are."
    if len(steps) == 1:
        return f"The weights are those of step {steps[0]}."
    return f"The weights are the mean of {len(steps)} checkpoints, of the steps {steps[0]} to {steps[-1]}."


def _corpus(corpus: Corpus) -> str:
    lines = []
    for part in corpus.train:
        match part:
            case Grammar():
                lines.append(f"- {part.grammar:,} pairs of zoo's own grammar (no licence applies)")
            case Archive():
                lines.append(f"- <{part.archive}>: `{part.source}`, `{part.target}`")
            case Files():
                lines.append(
                    f"- files of the publisher: `{PurePath(part.source).name}`, `{PurePath(part.target).name}`"
                )
    return "\n".join(dict.fromkeys(lines))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, ["---"] * len(columns), *rows))
