"""Whether the files of a corpus are on this machine, and what a corpus is called; nothing is fetched or read."""

from __future__ import annotations

import os
from pathlib import Path

from specs import Archive, Corpus, Files, Grammar, HeldOut, Spec, Treebank
from zoo.files.archive import extracted
from zoo.files.download import recorded_sha256


def absent(spec: Spec) -> str | None:
    """The first part of its corpus that is not here, in words; None where all of them are, or none is needed."""
    if not spec.corpus.train:
        return "it has no corpus to train on"
    for part in spec.corpus.parts:
        if isinstance(part, Archive):
            known = part.sha256 or recorded_sha256(part.archive)
            if known is None or extracted(known, (part.source, part.target)) is None:
                return f"its corpus is not here: {_stem(part.archive)} has not been fetched"
        elif isinstance(part, Files | Treebank):
            written = (part.source, part.target) if isinstance(part, Files) else (part.trees,)
            for path in (place(spec.corpus, each) for each in written):
                if not path.exists():
                    return f"its corpus is not here: there is no `{path}`"
    return None


def called(corpus: Corpus) -> str:
    """What the text to train on is called: by its folder, else by its first part."""
    if not corpus.train:
        return "no corpus"
    first, *rest = corpus.train
    if isinstance(first, Grammar):
        return f"the built-in corpus ({sum(part.grammar for part in corpus.train if isinstance(part, Grammar)):,})"
    folder = Path(corpus.folder).name
    if not isinstance(first, Archive) and folder:
        return folder
    name = {Archive: "archive", Files: "source", Treebank: "trees"}
    assert not isinstance(first, HeldOut)
    return _stem(getattr(first, name[type(first)])) + (f" and {len(rest)} more" if rest else "")


def _stem(path: str) -> str:
    return os.path.basename(path)


def place(corpus: Corpus, path: str) -> Path:
    """Where a file of a corpus is, as its spec writes it. What is no user's folder stays as it is written."""
    return Path(os.path.expanduser(corpus.folder)) / os.path.expanduser(path)
