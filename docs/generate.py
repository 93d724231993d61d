"""Generate the reference of spec fields, commands and formats, the catalogue, the plots, and copies of root files.

MkDocs loads this file as a hook. Generated content exists only while the site is built. A comment such as
`<!-- generated: commands -->` marks its place in a page. So the pages, and links to them, also work on code hosts.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from specs import Spec
from specs.section import Section
from zoo.interop import FORMATS

sys.path.insert(0, str(Path(__file__).parent))
import catalogue  # MkDocs hooks are not a package, so these modules are imported by path
from plots import plots

ROOT = Path(__file__).parents[1]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the model catalogue to the navigation."""
    (section,) = (entry["Catalogue"] for entry in config.nav or () if "Catalogue" in entry)
    section += [path for path in catalogue.pages() if path not in section]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the plots, the catalogue and the files of the root folder to the site."""
    pages = {f"images/{name}.svg": content for name, content in plots().items()}
    pages |= catalogue.pages()
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (ROOT / f"{name}.md").read_text(encoding="utf-8")
        pages[f"{name.lower()}.md"] = text.replace("](docs/", "](")
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Insert the generated content into a page. Search results show pages with a generated reference last."""

    def content(match: re.Match[str]) -> str:
        kind, _, argument = match[1].partition(" ")
        if kind == "plot":
            name, _, description = argument.partition(": ")
            return f"![{description}](../images/{name}.svg)"
        if kind == "formats":
            return formats(argument)
        page.meta["search"] = {"boost": 0.2}
        return {"spec-fields": spec_fields, "commands": commands}[kind]()

    return re.sub("<!-- generated: (.+?) -->", content, markdown)


def spec_fields() -> str:
    """Return Markdown tables that describe all spec fields."""
    base = yaml.safe_load((ROOT / "specs" / "base.yaml").read_text(encoding="utf-8"))
    sections = {name: field for name, field in Spec.model_fields.items() if _models(field.annotation)}
    general = [name for name in Spec.model_fields if name not in sections]
    lines = ["## General\n", *_table(Spec, base, general)]
    for name, field in sections.items():
        lines += _section(name, field, base.get(name))
    return "\n".join(lines)


def formats(command: str) -> str:
    """Return a Markdown table of the formats that `zoo import` or `zoo export` supports."""
    rows = (f"| `{name}` | {_cell(format['files'])} |" for name, format in FORMATS[command].items())
    return "\n".join(["| Format | Files |", "|---|---|", *rows])


def _section(name: str, field: Any, value: Any) -> Iterator[str]:
    models = _models(field.annotation)
    yield f"## `{name}`\n\n{Spec.describe(name)}\n"
    values = value if isinstance(value, dict) else {}
    for model in models:
        if len(models) > 1:
            yield f"### `{_kind(model)}`\n\n{_summary(model)}\n"
        yield from _table(model, values)
        for key, each in model.model_fields.items():
            for part in _models(each.annotation):
                yield f"### `{name}.{key}`: `{_kind(part)}`\n\n{_summary(part)}\n"
                yield from _table(part)


def _table(model: type[Section], values: Any = None, keys: Iterable[str] = ()) -> Iterator[str]:
    yield "| field | type | " + ("" if values is None else "in `base` | ") + "description |"
    yield "|---|---|" + ("" if values is None else "---|") + "---|"
    for key in keys or model.model_fields:
        shown = "" if values is None else f" {_cell(_value(values.get(key)))} |"
        yield f"| `{key}` | {_cell(_type(model.model_fields[key].annotation))} |{shown} {_cell(model.describe(key))} |"
    yield ""


def _models(annotation: Any) -> list[type[Section]]:
    """Return the pydantic models in a type annotation, including models inside optionals, unions and tuples."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    found = (model for part in get_args(annotation) for model in _models(part))
    return list(dict.fromkeys(found))


def _kind(model: type[Section]) -> str:
    field = model.model_fields.get("kind")
    return str(get_args(field.annotation)[0]) if field is not None else model.__name__.lower()


def _summary(model: type[Section]) -> str:
    return (model.__doc__ or "").split("\n\n")[0].replace("\n", " ").strip()


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{each}`" for each in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_type(each) for each in arguments))
    if origin in (tuple, list):
        return f"list of {_type(arguments[0])}"
    if annotation is type(None):
        return "`null`"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return f"`{_kind(annotation)}`"
    names = {int: "integer", float: "number", bool: "`true` or `false`", str: "text"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _value(value: Any) -> str:
    if isinstance(value, (dict, list)):
        text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip()
        return f"`{text}`" if len(text) < 100 else "(see `specs/base.yaml`)"
    return "" if value is None else f"`{yaml.safe_dump(value).splitlines()[0]}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def commands() -> str:
    """Return the command reference as Markdown, which typer generates from the help texts."""
    import typer.main
    from typer.cli import get_docs_for_click

    from cli.app import build_app

    command = typer.main.get_command(build_app())
    with command.make_context("zoo", [], resilient_parsing=True) as context:
        text: str = get_docs_for_click(obj=command, ctx=context, name="zoo")
    text = re.sub(r"\[(?:bold|dim|red|green|yellow)[^\]]*\]|\[/[a-z]*\]", "", text)
    text = re.sub(r"(?m)^Examples:\n\n((?:[^*#\n].*\n\n?)+)", _example_block, text)
    head, separator, sections = text.partition("\n## ")
    head = head.partition("\n")[2]  # the page has its own title
    for name, each in command.commands.items():
        entry = f"* [`{name}`](#zoo-{name}): {each.get_short_help_str(200)}"
        head = re.sub(rf"(?m)^\* `{name}`: .*$", lambda _, entry=entry: entry, head)
    return head + separator + sections


def _example_block(match: re.Match[str]) -> str:
    """Return the examples in a command's help text as one Markdown code block."""
    lines = [line for line in match[1].splitlines() if line]
    return "Examples:\n\n```sh\n" + "\n".join(lines) + "\n```\n\n"
