"""JSON Schema of a spec's file, by which editors complete and check the YAML."""

from typing import Any

from specs.history import FIRST, FORMAT
from specs.spec import Spec


def schema() -> dict[str, Any]:
    """The schema of a file: fields may come from the spec that it `extends`, so none is required."""
    whole = Spec.model_json_schema()
    choices = (each for section in whole["properties"].values() for each in (section, *section.get("oneOf", ())))
    sections = {each["$ref"].rpartition("/")[2] for each in choices if "$ref" in each}
    for part in (whole, *(whole["$defs"][name] for name in sorted(sections))):
        part.pop("required", None)
    extends = {
        "type": "string",
        "description": "Spec that this one changes: a shipped name, or a path from this file on.",
    }
    written = {
        "type": "integer",
        "minimum": FIRST,
        "maximum": FORMAT,
        "description": "Format that this file is written in; a file that says none is of today's.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "properties": {"extends": extends, "format": written, **whole["properties"]},
    }
