"""Import and export of other toolkits' models.

Importing this package reads only the list of formats, because `zoo --help` needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml


def documents() -> Iterator[Any]:
    """Yield the YAML documents in `toolkits.yaml`: the list of formats, then the tables of settings and tensors."""
    content = Path(__file__).with_name("toolkits.yaml").read_text("utf-8")
    yield from yaml.load_all(content, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


FORMATS: Mapping[str, Mapping[str, Mapping[str, str]]] = next(documents())
"""Formats of `import` and `export`, keyed by name. `families` are the formats of transformers' models."""
