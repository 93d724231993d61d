"""`zoo prepare`: from a corpus to tokens on disk."""

from __future__ import annotations

from cli import options

EXAMPLES = "zoo prepare tiny\n\nzoo prepare base vocabulary.size=32000\n\nZOO_MIRROR=/data/wmt zoo prepare base"


def command(spec: options.Reference, overrides: options.Overrides = None) -> None:
    """Fetch the corpus, learn the vocabulary, write the token store.

    Archives are verified. What is there already is not done again. ZOO_HOME says where it is kept, ZOO_MIRROR (a folder
    or an address) where archives are fetched from instead, and ZOO_OFFLINE=1 that nothing is.
    """
    import specs
    from cli.console import report
    from zoo.training.initial_model import prepare_corpus

    words = report()
    prepared = prepare_corpus(specs.load(spec, overrides or ()), words)
    words.say(f"train: {prepared.counts}")
    print(prepared.folder)
