"""Measure how a vocabulary shortlist changes translation speed and BLEU.

    python -m tests.benchmarks.shortlist MODEL --pairs train.en train.de --test dev.en dev.de
    python -m tests.benchmarks.shortlist SPEC [KEY=VALUE ...]

The first command estimates a shortlist from the sentence pairs, and translates the test set without and with the
shortlist. If the model is multilingual, the pairs are used in both directions. The second command translates random
sentences of 23 to 27 tokens with random weights and a random shortlist.

The script alternates between translating 50 sentences without and with the shortlist, using one worker.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu

import zoo
from specs import EOS
from tests.benchmarks.arguments import create_parser, load_spec, parse_translation
from tests.benchmarks.in_turn import in_turn, random_program
from zoo.generation.config import GenerationConfig
from zoo.generation.engine import Engine
from zoo.generation.translation import SearchInput
from zoo.models.shortlist import Shortlist
from zoo.system.processors import host
from zoo.training.alignment import BEST, FREQUENT, estimate_shortlist
from zoo.training.benchmarks import LENGTH, random_sources

WITH_SHORTLIST = (False, True)


def main() -> None:
    parser = create_parser(__doc__, "model")
    parser.add_argument("--pairs", nargs=2, type=Path, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--test", nargs=2, type=Path, metavar=("SOURCE", "REFERENCE"))
    given = parse_translation(parser, batch=32)
    result = _trained(given) if given.test else _random(given)
    print(json.dumps({**vars(given), "processor": host().processor, **result}, default=str))


def _trained(given: argparse.Namespace) -> dict[str, Any]:
    translator = zoo.load(given.model, backend="native", precision=given.precision)
    source, target = translator.spec.default_direction
    translator.shortlist = _shortlist(given, translator)
    texts, references = (file.read_text(encoding="utf-8").splitlines()[: given.sentences] for file in given.test)
    lists = [len(translator.shortlist.tokens_of(translator.vocabulary.encode(text))) for text in texts]
    # Sentences of Tatoeba have about 10 tokens, and shorter ones count as 16.
    tokens = 16 * given.batch if given.batch > 1 else 1
    options: Any = {"source": source, "target": target, "split": False, "protect": False, "workers": 1}
    options |= {"beam": given.beam, "max_batch_tokens": tokens}

    def translate(on: bool, part: Sequence[str]) -> list[str]:
        return translator.translate(part, shortlist=on, **options)

    seconds, outputs = in_turn(translate, WITH_SHORTLIST, texts, warm=WITH_SHORTLIST)
    bleu = [sacrebleu.corpus_bleu(output, [references]).score for output in outputs.values()]
    changed = np.mean([one != other for one, other in zip(*outputs.values(), strict=True)])
    return {**_figures(seconds, lists), "bleu": bleu, "changed": changed}


def _shortlist(given: argparse.Namespace, translator: Any) -> Shortlist:
    vocabulary = translator.vocabulary
    one, other = (vocabulary.source.encode_all(file.read_text(encoding="utf-8").splitlines()) for file in given.pairs)
    pairs = [*zip(one, other, strict=True), *(zip(other, one, strict=True) if translator.spec.languages else ())]
    return estimate_shortlist(vocabulary, pairs)


def _random(given: argparse.Namespace) -> dict[str, Any]:
    spec, draw = load_spec(given.model, given.overrides, toy=given.toy), np.random.default_rng(0)
    size, target_size = spec.vocabulary.sizes
    lists = [draw.integers(EOS + 1, target_size, BEST) for _ in range(size)]
    shortlist = Shortlist.from_lists(range(EOS, EOS + FREQUENT), lists)
    sources = random_sources(spec, given.sentences)
    configs = [GenerationConfig.from_spec(spec, {"shortlist": on}) for on in WITH_SHORTLIST]
    strategies = [config.strategy(shortlist=shortlist) for config in configs]
    tokens = given.batch * (LENGTH + 1) if given.batch > 1 else 1
    with Engine(random_program(spec, given.precision), max_batch_tokens=tokens) as engine:

        def translate(on: bool, part: Sequence[list[int]]) -> list[Any]:
            rows = [SearchInput(index, {"source": tuple(row)}, LENGTH - 1) for index, row in enumerate(part)]
            return engine.submit(rows, strategies[on]).result()

        seconds, _ = in_turn(translate, WITH_SHORTLIST, sources, warm=WITH_SHORTLIST)
    return _figures(seconds, [len(shortlist.tokens_of(source)) for source in sources])


def _figures(seconds: Mapping[bool, float], lists: Sequence[int]) -> dict[str, Any]:
    ratio = seconds[False] / seconds[True]
    return {"seconds": [*seconds.values()], "ratio": ratio, "mean_list": float(np.mean(lists))}


if __name__ == "__main__":
    main()
