"""Arguments and options that several commands share.

Options:
    From CODE: Language of the input text, such as en, for a multilingual model. Required for a model that has more than
        two languages and a token for the source language. [default: the language other than --to, if the model has two
        languages; otherwise detected for each text]
    To CODE: Target language, such as de, for a multilingual model. [default: the language other than --from, if the
        model has two languages; otherwise required]
    Reference SPEC: Name of a shipped spec (such as `big`, or `a-h1` for `table3/a-h1`; `zoo list` prints all names), or
        a path ending in .yaml.
    Overrides KEY=VALUE: Fields of the spec to set, such as `training.steps=500`.
    Run RUN: Folder of the run, or name of its spec (`tiny` stands for `runs/tiny`).
    Name MODEL: Model to use: a published model or a run, as for --model.
    OfSpec SPEC: Use the newest trained run of this spec under runs/. If there is no such run, use the published model
        with the spec's name.
    Model NAME|RUN: Use this model: the name of a published model (NAME@2 for revision 2), the folder of a run, or the
        name of a run's spec.
    Models NAME|RUN: Use this model: the name of a published model (NAME@2 for revision 2), the folder of a run, or the
        name of a run's spec. Repeat the option to use an ensemble.
    Input FILE: Read UTF-8 text from this file, one sentence per line. [default: stdin]
    Output FILE: Write to this file. A regular file appears only when it is complete. After an error, FILE.partial
        contains the lines that were written before the error. A pipe or device receives each line immediately.
        [default: stdout]
    NBest N: Print the N best results for each line, best first, as line number, score and text separated by tabs.
        Results differ in their tokens, but two results may have the same text. If the results are sampled, print N
        samples in the order in which they are drawn.
    Device auto|cpu|cuda|cuda:N: Device to compute on. auto selects the GPU if there is one, otherwise the CPU.
    MaxBatchTokens N: Maximum number of source tokens in a batch, counting padding. A smaller number needs less memory.
        [default: 4096]
    Source FILE: Read the source texts from this file, one per line. Requires --target. [default: pairs from stdin]
    Target FILE: Read the translation or tree of each source text from this file. [default: pairs from stdin]
    Split dev|test: Use the dev set or the test set of the model's corpus. [default: test]
    Language CODE: Language of the files, such as de. It selects the tokeniser for the paper's BLEU. [default: the
        suffix of the reference file]
    Transcripts: The files contain transcripts of audio or recognised text: compute WER and CER instead of the metrics
        for translations.
    Json: Print JSON instead of text.
    NoProtect: Do not check whether translations preserve numbers, dates, links, placeholders and the like. By default,
        a sentence is translated again if its translation lacks one of these, and texts without letters are not changed.
    Yes: Remove without asking for confirmation.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, cast, get_args, get_origin, get_type_hints

import typer

import specs
import zoo
from specs import ZooError
from specs.catalogue import FOLDER

FILES_PANEL = "Files instead of models"
EXECUTION_PANEL = "Execution"
_DEFAULTS = {"device": "auto"}
"""Defaults of the options in `Execution` and `Batching`. All other defaults are None."""
_METAVARS = {"integer": "N", "number": "X", "boolean": ""}
_SPEC_SCHEMA: Any = json.loads((FOLDER / "schema.json").read_bytes())
_ITEM = re.compile(r"(\w+)(?: (.+?))?: (.+?)(?: \[default: (.+)\])?")


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
    """Return the spec fields, such as `training.steps=`, that begin with the typed text, for shell completion."""
    fields = (f"{key}=" for key in specs.field_names())
    return [field for field in fields if field.startswith(incomplete)]


def model_names(
    name: str | None, others: list[str] | None = None, hint: str = "text is read from stdin or from `--input FILE`"
) -> list[str] | None:
    """Join the argument MODEL (`name`) and the `--model` options (`others`). Return None if neither is given.

    `hint` tells the user how to pass a text or a file to the command.

    Raises:
        ZooError: `name` is not a model's name, but KEY=VALUE, a text to translate, or a file.
    """
    from zoo.models.folder import RUNS

    if name is None:
        return others
    is_folder = any(Path(parent, name).is_dir() for parent in (".", RUNS))
    if "=" in name and not is_folder:
        problem = f"`{name}`: the fields of a trained model cannot be changed"
        raise ZooError(problem, hint="omit KEY=VALUE; options such as `--beam` change how the model is used")
    if Path(name).is_file() or (" " in name and not is_folder):
        raise ZooError(f"`{name}` is not the name of a model", hint=hint)
    return [name, *(others or ())]


def _check_name(kind: str) -> Callable[[str | None], str | None]:
    """Return a callback for an option, which rejects unknown names before a model is loaded.

    Args:
        kind: Kind of name that the option accepts: "precision" or "backend".
    """

    def check(name: str | None) -> str | None:
        from compiler.options import check_names

        check_names(**{kind: name})
        return name

    return check


def _require_number(value: Any) -> Any:
    """Reject NaN, for which every comparison with a limit is false."""
    if isinstance(value, float) and math.isnan(value):
        raise typer.BadParameter("nan is not a number")
    return value


def _standard_stream(path: Path | None) -> Path | None:
    """Replace the path `-`, which stands for stdin or stdout, with None. Return any other path unchanged."""
    return None if path == Path("-") else path


def refuse(belongs_to: str, **options: object) -> None:
    """Raise ZooError if the user sets one of these options, which have no effect in the requested mode.

    Args:
        belongs_to: The mode in which the options have an effect, for the message: "models" or "`--search`".
        options: Name and value of each option.
    """
    if option := _first_given(options):
        raise ZooError(f"`{option}` applies to {belongs_to} only", hint=f"omit `{option}`")


def refuse_beside(given: str, **options: object) -> None:
    """Raise ZooError if the user passes one of these options together with the `given` option."""
    if option := _first_given(options):
        raise ZooError(f"`{given}` cannot be combined with `{option}`", hint="omit one of them")


def _first_given(options: Mapping[str, object]) -> str | None:
    for name, value in options.items():
        if value not in (None, False, _DEFAULTS.get(name)):
            return f"--{name.replace('_', '-')}"
    return None


def option(*names: str, shown: str | bool = True, panel: str | None = None, complete: Any = None, **more: Any) -> Any:
    """Declare a typer option. `describe` later adds the help text and, unless `metavar` is given, the placeholder.

    Args:
        names: Names such as "--output" and "-o". By default, the name of the parameter.
        shown: Description of the default in the help text. By default, the default itself.
        panel: Heading under which the help text lists the option.
        complete: Function that returns the shell completions of the text typed so far.
        more: Limits (`min` and `max`), `metavar`, and further parameters of `typer.Option`.
    """
    more = {"callback": _require_number, "metavar": "", "show_default": shown, **more}
    return typer.Option(*names, rich_help_panel=panel, autocompletion=complete, **more)


def field_option(field: str, *names: str, shown: str = "", panel: str | None = None) -> Any:
    """Declare an option that overrides a field of the spec, such as "decoding.beam".

    The field determines the choices, limits and help text. They are read from the JSON Schema of specs, because
    importing pydantic takes longer than printing the help.
    """
    section, _, name = field.partition(".")
    definition = _SPEC_SCHEMA["properties"][section]["$ref"].rpartition("/")[2]
    known = _SPEC_SCHEMA["$defs"][definition]["properties"][name]
    choices, limits = known.get("enum", ()), {"min": "minimum", "max": "maximum"}
    return option(
        *names,
        metavar="|".join(choices) or _METAVARS[known["type"]],
        help=re.sub(r" \(not in the paper[^)]*\)", "", known["description"]),
        shown=shown or f"the spec's {field}",
        panel=panel,
        complete=lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)],
        callback=_check_name(name) if section == "compilation" else _require_number,
        **{limit: known[key] for limit, key in limits.items() if key in known},
    )


def argument(*, complete: Any = None, **more: Any) -> Any:
    """Declare a positional argument. The parameters are the same as for `option`."""
    return typer.Argument(autocompletion=complete, **more)


def describe(command: Callable[..., Any], section: str) -> Callable[..., Any]:
    """Add help texts from the `Options` section of a docstring to a command's parameters, and return the command.

    An item such as `layer N: Layer to show. [default: the last]` contains the parameter, the placeholder for its value,
    the help text, and the description of the default. A parameter need not be declared with `option` or `argument`. By
    default, a Boolean becomes a switch, a parameter without a default an argument, and any other parameter an option.

    A `**how` parameter stands for all options in the `TypedDict` that annotates it, such as `Execution`.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = {each.name: each for parameter in signature.parameters.values() for each in _unpacked(parameter)}
    for name, texts in _read_items(section):
        parameter = parameters[name]
        is_annotated = get_origin(parameter.annotation) is Annotated
        kind, *given = get_args(parameter.annotation) if is_annotated else (parameter.annotation,)
        info = copy(given[0]) if given else _default_info(parameter)
        vars(info).update(texts)
        parameters[name] = parameter.replace(annotation=Annotated[kind, info])
    cast(Any, command).__signature__ = signature.replace(parameters=list(parameters.values()))
    return command


def _unpacked(parameter: inspect.Parameter) -> Iterator[inspect.Parameter]:
    """Yield the parameter itself or, for `**how`, one parameter for each option in its `TypedDict`."""
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
        yield parameter
        return
    for name, annotation in get_type_hints(get_args(parameter.annotation)[0], include_extras=True).items():
        default = _DEFAULTS.get(name)
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _read_items(section: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Parse an `Options` section. Yield the name of each option, and its attributes for typer, such as `help`."""
    for item in filter(None, re.split(r"(?:^|\n) {4}(?=\S)", section)):
        found = _ITEM.fullmatch(" ".join(item.split()))
        assert found is not None, item
        name, metavar, text, shown = found.groups()
        yield name, {"help": text, "show_default": shown or True} | ({"metavar": metavar} if metavar else {})


def _default_info(parameter: inspect.Parameter) -> Any:
    if parameter.annotation is bool:
        return option(f"--{parameter.name.replace('_', '-')}")
    return argument() if parameter.default is inspect.Parameter.empty else option()


_TEXTS = defaultdict[str, Any](dict, _read_items(str(__doc__).partition("\n\nOptions:\n")[2].rstrip()))
"""Attributes of the shared options: the texts in the docstring of this module, by the name of the option below.

With `python -OO`, there are no docstrings, so the options have no texts.
"""
From = Annotated[str | None, option("--from", **_TEXTS["From"])]
To = Annotated[str | None, option("--to", **_TEXTS["To"])]
Reference = Annotated[str, argument(complete=complete_spec, **_TEXTS["Reference"])]
Overrides = Annotated[list[str] | None, argument(complete=complete_override, **_TEXTS["Overrides"])]
Run = Annotated[str, argument(complete=complete_run, **_TEXTS["Run"])]
Name = Annotated[str | None, argument(complete=complete_model_or_run, **_TEXTS["Name"])]
OfSpec = Annotated[str | None, option("--spec", complete=complete_spec, **_TEXTS["OfSpec"])]
Model = Annotated[str | None, option("--model", complete=complete_model_or_run, **_TEXTS["Model"])]
Models = Annotated[list[str] | None, option("--model", complete=complete_model_or_run, **_TEXTS["Models"])]
Input = Annotated[Path | None, option("--input", "-i", callback=_standard_stream, **_TEXTS["Input"])]
Output = Annotated[Path | None, option("--output", "-o", callback=_standard_stream, **_TEXTS["Output"])]
Beam = Annotated[int | None, field_option("decoding.beam")]
Alpha = Annotated[float | None, field_option("decoding.alpha")]
Shortlist = Annotated[bool | None, field_option("decoding.shortlist", "--shortlist/--no-shortlist")]
NBest = Annotated[int | None, option("--n-best", min=1, max=10_000, **_TEXTS["NBest"])]
Source = Annotated[Path | None, option("--source", **_TEXTS["Source"])]
Target = Annotated[Path | None, option("--target", **_TEXTS["Target"])]
Split = Annotated[Literal["dev", "test"] | None, option("--set", **_TEXTS["Split"])]
Language = Annotated[str | None, option("--language", panel=FILES_PANEL, **_TEXTS["Language"])]
Transcripts = Annotated[bool, option("--transcripts", panel=FILES_PANEL, **_TEXTS["Transcripts"])]
Json = Annotated[bool, option("--json", **_TEXTS["Json"])]
NoProtect = Annotated[bool, option("--no-protect", **_TEXTS["NoProtect"])]
Yes = Annotated[bool, option("--yes", **_TEXTS["Yes"])]
Device = Annotated[str, option("--device", panel=EXECUTION_PANEL, **_TEXTS["Device"])]
Precision = Annotated[str | None, field_option("compilation.precision", panel=EXECUTION_PANEL)]
Backend = Annotated[str | None, field_option("compilation.backend", panel=EXECUTION_PANEL)]
MaxBatchTokens = Annotated[
    int | None, option("--max-batch-tokens", min=1, panel=EXECUTION_PANEL, **_TEXTS["MaxBatchTokens"])
]


class Execution(TypedDict, total=False):
    """Options that select device, precision and backend."""

    device: Device
    precision: Precision
    backend: Backend


class Batching(Execution, total=False):
    """Options that select device, precision, backend and the maximum batch size."""

    max_batch_tokens: MaxBatchTokens
