"""Arguments and options that several commands share."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

import specs
import zoo
from specs import ZooError
from specs.limits import MAX_ALPHA, MAX_BEAM, MAX_TOKENS

SPEC_DEFAULT = "the spec's"
FILES_PANEL = "Comparing files"
EXECUTION_PANEL = "Execution"


def complete_spec(incomplete: str) -> list[str]:
    """Return the shipped specs whose names begin with the text typed so far, for shell completion."""
    return [name for name in specs.names() if name.startswith(incomplete)]


def complete_model(incomplete: str) -> list[str]:
    """Return the published models whose names begin with the text typed so far, for shell completion."""
    with suppress(ZooError, OSError):  # a shell cannot show errors during completion
        return [name for name in zoo.names() if name.startswith(incomplete)]
    return []


def complete_run(incomplete: str) -> list[str]:
    """Return the runs under runs/ whose names begin with the text typed so far, for shell completion."""
    from zoo.models.find import run_names

    with suppress(OSError):
        return [name for name in run_names() if name.startswith(incomplete)]
    return []


def complete_model_or_run(incomplete: str) -> list[str]:
    """Return the published models and runs whose names begin with the text typed so far, for shell completion."""
    return list(dict.fromkeys([*complete_model(incomplete), *complete_run(incomplete)]))


def complete_override(incomplete: str) -> list[str]:
    """Return the fields, such as `training.steps=`, that begin with the text typed so far, for shell completion."""
    fields = (f"{key}=" for key in specs.field_names())
    return [field for field in fields if field.startswith(incomplete)]


def complete_backend(incomplete: str) -> list[str]:
    """Return the backends whose names begin with the text typed so far, for shell completion."""
    from compiler.options import BACKEND_NAMES

    return [name for name in ("auto", *BACKEND_NAMES) if name.startswith(incomplete)]


def model_names(name: str | None, others: list[str] | None) -> list[str] | None:
    """Return the names of models from the argument MODEL (`name`) and the options `--model` (`others`), or None.

    Raises:
        ZooError: `name` is not a model's name, but KEY=VALUE, a text to translate, or a file.
    """
    if name is None:
        return others
    if "=" in name and not Path(name).is_dir():
        hint = "leave KEY=VALUE out; options such as `--beam` change how the model is used"
        raise ZooError(f"`{name}`: the fields of a trained model cannot be changed", hint=hint)
    if Path(name).is_file() or " " in name:
        hint = "text is read from stdin or from `--input FILE`"
        raise ZooError(f"`{name}` is not the name of a model", hint=hint)
    return [name, *(others or ())]


def check_backend(backend: str | None) -> str | None:
    """Return `backend`, or raise ZooError if it is unknown. This check precedes the search for the model."""
    if backend is not None:
        from compiler.options import check_backend_name

        check_backend_name(backend)
    return backend


def require_number(value: float | None) -> float | None:
    """Refuse NaN, which satisfies no limit of an option and violates none."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


def _standard_stream(path: Path | None) -> Path | None:
    """Return None for `-`, which stands for stdin or stdout."""
    return None if path == Path("-") else path


def refuse(belongs_to: str, **options: object) -> None:
    """Raise ZooError if the user gives one of these options, which have no effect in the requested mode.

    Args:
        belongs_to: The mode in which the options have an effect, for the message: "models" or "`--search`".
        options: Name and value of each option.
    """
    for name, value in options.items():
        if value not in (None, False) and (name, value) != ("device", "auto"):
            option = f"--{name.replace('_', '-')}"
            raise ZooError(f"`{option}` applies to {belongs_to} only", hint=f"leave `{option}` out")


From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="CODE",
        show_default="the other language, if the model has two",
        help="Language of the input text, such as en, for a multilingual model. Not needed if the model reads only "
        "the token of the target language.",
    ),
]
To = Annotated[
    str | None,
    typer.Option(
        "--to",
        metavar="CODE",
        show_default="the other language, if the model has two",
        help="Target language, such as de, for a multilingual model.",
    ),
]
Reference = Annotated[
    str,
    typer.Argument(
        metavar="SPEC",
        show_default=False,
        autocompletion=complete_spec,
        help="Spec: a shipped name (such as `big`, or `a-h1` for `table3/a-h1`; `zoo list` prints them), or a path "
        "ending in .yaml.",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KEY=VALUE",
        show_default=False,
        autocompletion=complete_override,
        help="Fields of the spec to set, such as `training.steps=500`.",
    ),
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        show_default=False,
        autocompletion=complete_run,
        help="Run: its folder, or the name of its spec (`tiny` stands for `runs/tiny`).",
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL",
        show_default=False,
        autocompletion=complete_model_or_run,
        help="Model to use: a published model or a run, as for --model.",
    ),
]
OfSpec = Annotated[
    str | None,
    typer.Option(
        "--spec",
        metavar="SPEC",
        autocompletion=complete_spec,
        help="Use the newest trained run of this spec under runs/. If there is none, use the published model that has "
        "the name in this spec.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|RUN",
        autocompletion=complete_model_or_run,
        help="Use this model: the name of a published model (NAME@2 for revision 2), the folder of a run, or the name "
        "of a run's spec.",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME|RUN",
        autocompletion=complete_model_or_run,
        help="Use this model: the name of a published model (NAME@2 for revision 2), the folder of a run, or the name "
        "of a run's spec. Repeat the option to use an ensemble.",
    ),
]
Input = Annotated[
    Path | None,
    typer.Option(
        "--input",
        "-i",
        metavar="FILE",
        show_default="stdin",
        callback=_standard_stream,
        help="Read UTF-8 text from this file, one sentence per line.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        show_default="stdout",
        callback=_standard_stream,
        help="Write to this file. A regular file appears only when it is complete. After an error, FILE.partial has "
        "the lines that were written before it. A pipe or device receives each line immediately.",
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        max=MAX_BEAM,
        show_default=SPEC_DEFAULT,
        help="Beam size: number of hypotheses that are kept at each step. 1 is greedy search.",
    ),
]
Alpha = Annotated[
    float | None,
    typer.Option(
        metavar="X", min=0.0, max=MAX_ALPHA, show_default=SPEC_DEFAULT, help="Exponent of the length penalty."
    ),
]
Shortlist = Annotated[
    bool | None,
    typer.Option(
        "--shortlist/--no-shortlist",
        show_default=SPEC_DEFAULT,
        help="Compute only the logits of the tokens in the model's vocabulary shortlist. This is faster, and needs the "
        "backend native.",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda|cuda:N",
        rich_help_panel=EXECUTION_PANEL,
        help="Device to compute on. auto selects the GPU if there is one, otherwise the CPU.",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(
        metavar="float32|bfloat16|int8",
        show_default=SPEC_DEFAULT,
        rich_help_panel=EXECUTION_PANEL,
        help="Data type of weights and matrix products. bfloat16 and int8 change the results slightly.",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(
        callback=check_backend,
        autocompletion=complete_backend,
        metavar="NAME",
        show_default=SPEC_DEFAULT,
        rich_help_panel=EXECUTION_PANEL,
        help="Backend that runs the model: auto, or one that `zoo doctor` lists.",
    ),
]
MaxBatchTokens = Annotated[
    int | None,
    typer.Option(
        "--max-batch-tokens",
        metavar="N",
        min=1,
        max=MAX_TOKENS,
        show_default="4096",
        rich_help_panel=EXECUTION_PANEL,
        help="Maximum number of source tokens in a batch, counting padding. A smaller number needs less memory.",
    ),
]
Language = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        show_default="the extension of the references' file name",
        rich_help_panel=FILES_PANEL,
        help="Language of the files, such as de. It selects the tokeniser of the paper's BLEU.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

NoProtect = Annotated[
    bool,
    typer.Option(
        "--no-protect",
        help="Do not check whether numbers, dates, links, placeholders and the like are kept. By default, a sentence "
        "that loses one of them is translated again, and texts without a letter stay as they are.",
    ),
]
