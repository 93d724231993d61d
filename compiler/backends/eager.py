"""Runs the emitted code as it stands."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Mapping
from typing import Any

from compiler.emit import Code
from compiler.graph import Purpose
from compiler.program import Function


def eager(code: Code) -> Mapping[Purpose, Function]:
    """The function of each purpose, executed by Python line by line."""
    namespace = execute(code)
    return {Purpose(purpose): namespace[purpose] for purpose in code.main}


def execute(code: Code) -> dict[str, Any]:
    """The names that the code defines. Its lines are known to tracebacks, debuggers and torch.compile."""
    text = str(code)
    file = f"<zoo {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "zoo.emitted"}
    exec(compile(text, file, "exec"), namespace)
    return namespace
