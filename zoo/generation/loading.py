"""Functions that open training runs and published models as translators or parsers."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

from compiler import TRANSLATE, Purpose, build, find_device
from specs import Parsing, Task
from zoo.generation.alignment import AlignmentHead
from zoo.generation.compilation import build_with_message
from zoo.generation.parser import Parser
from zoo.generation.translator import Translator
from zoo.models.loading import read_model
from zoo.report import Report, WarningsReport

ATTENTION_BACKEND = "eager"
"""Backend that computes attention weights, even if the model translates with a different backend.

Compiling a program for one text would take too long.
"""


def translator_class(task: Task) -> type[Translator]:
    """Return the translator class for a task: `Parser` for parsing, otherwise `Translator`."""
    return Parser if isinstance(task, Parsing) else Translator


def open_model(
    folder: Path,
    *,
    device: str = "auto",
    precision: str | None = None,
    backend: str | None = None,
    max_batch_tokens: int | None = None,
    report: Report | None = None,
) -> Translator:
    """Open the model in the folder of a training run or of a published model.

    Compiled artefacts are stored in `storage.compiled()`.

    Args:
        folder: Folder of the training run or published model.
        device: auto, cpu, cuda or cuda:N.
        precision: float32, bfloat16 or int8. None for the precision in the spec.
        backend: auto, or a name that `zoo doctor` lists. None for the backend in the spec.
        max_batch_tokens: Maximum number of source tokens in a batch. None for the default.
        report: Receives warnings. If None, warnings are issued with Python's module `warnings`.

    Raises:
        ZooError: The folder has no valid model, or the device, precision or backend is not available.
    """
    device = find_device(device)
    model = read_model(folder)
    report = report or WarningsReport()
    weights = model.weights.tensors
    program = build_with_message(
        model.spec, TRANSLATE, weights, report, device=device, precision=precision, backend=backend
    )
    translator = translator_class(model.spec.task)(
        program,
        model.vocabulary,
        model.spec,
        longest_source=model.weights.longest_source,
        report=report,
        device=device,
        max_batch_tokens=max_batch_tokens,
    )
    translator.backend, translator.shortlist = program.backend, model.shortlist
    translator.alignment_head = AlignmentHead.parse(model.weights.facts.get("alignment_head"))
    translator.attention_program = cache(
        partial(
            build,
            model.spec,
            [Purpose.ATTEND],
            weights=weights,
            device=device,
            precision=precision,
            backend=ATTENTION_BACKEND,
        )
    )
    translator.reopen = partial(
        open_model,
        folder.absolute(),
        device=device,
        precision=precision,
        backend=backend,
        max_batch_tokens=max_batch_tokens,
    )
    return translator
