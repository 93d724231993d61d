"""A model in a folder: what a run ends with and what is published are opened alike."""

from __future__ import annotations

from pathlib import Path

from compiler import TRANSLATE, build, find_device
from compiler.assemble import PRECISIONS
from specs import ZooError
from zoo import manifest, weights
from zoo.data.vocabulary import Vocabulary
from zoo.decoding.translator import Translator
from zoo.report import Plain, Report
from zoo.shelf.find import SPEC
from zoo.training.run import Run


def open_model(
    folder: Path,
    *,
    device: str = "auto",
    precision: str = "float32",
    tokens: int | None = None,
    report: Report | None = None,
) -> Translator:
    """The translator that a run's or a bundle's folder holds; its warnings go to `report` (stderr without one).

    Raises ZooError where a file is missing or damaged, where weights, vocabulary and spec do not belong together, and
    where the device or the precision is not there.
    """
    if precision not in PRECISIONS:
        raise ZooError(f"`{precision}` is not a precision", hint=f"it is one of {', '.join(PRECISIONS)}")
    if (folder / manifest.NAME).is_file():
        # The weights carry a digest of their own, which covers the vocabulary, too.
        manifest.check(folder, [SPEC])
    spec = Run(folder).spec
    vocabulary = Vocabulary.load(folder)
    if (found := (vocabulary.size, vocabulary.shared)) != (wanted := (spec.vocabulary.size, spec.vocabulary.shared)):
        problem = f"the vocabulary in `{folder}` has {_said(*found)}, and its spec says {_said(*wanted)}"
        raise ZooError(problem, hint="restore it from where it came from", exit_code=1)
    device = find_device(device)
    file = folder / weights.NAME
    read = weights.read(file)
    try:
        program = build(spec, TRANSLATE, weights=read.tensors, device=device, precision=precision)
    except ZooError as error:
        raise ZooError(error.problem, where=error.where or str(file), hint=error.hint, exit_code=1) from None
    return Translator(
        program.eval(),
        vocabulary,
        spec,
        longest_source=read.longest_source,
        report=report or Plain(),
        device=device,
        tokens=tokens,
    )


def _said(size: int, shared: bool) -> str:
    return f"{size:,} pieces, {'shared' if shared else 'for each side'}"
