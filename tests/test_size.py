"""The size of the packages stays within the budgets of CONTRIBUTING.md, and the reading path names files that exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.paths import ROOT

BUDGETS = re.findall(
    r"^\| `([\w/]+)/` \|.*\| ([\d,]+) \| (\d+) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M
)
READING_PATH = ROOT / "docs/explanation/reading-path.md"
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


@cache
def code_lines(path: Path) -> int:
    """Return the number of lines with code: without blank lines, comments, docstrings and imports."""
    text, left_out = path.read_text("utf-8"), set[int]()
    for node in ast.walk(ast.parse(text)):
        value = getattr(node.value, "value", None) if isinstance(node, ast.Expr) else None
        if isinstance(value, str) or isinstance(node, (ast.Import, ast.ImportFrom)):
            left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = {line for each in tokens if each.type not in NO_CODE for line in range(each.start[0], each.end[0] + 1)}
    return len(found - left_out)


def test_every_package_has_a_budget() -> None:
    packages = {"cli", "compiler", "specs", "zoo", *(path.parent.name for path in (ROOT / "zoo").glob("*/__init__.py"))}
    assert {name for name, *_ in BUDGETS} == packages


@pytest.mark.parametrize(("name", "lines", "modules"), BUDGETS)
def test_a_package_is_within_its_budget(name: str, lines: str, modules: str) -> None:
    """If a change needs more, it raises the budget in CONTRIBUTING.md, and its commit says why."""
    folder = ROOT / name if (ROOT / name).is_dir() else ROOT / "zoo" / name
    files = list(folder.rglob("*.py"))
    found = sum(map(code_lines, files))
    assert found <= int(lines.replace(",", "")), f"{name} has {found:,} lines of code"
    assert len(files) <= int(modules), f"{name} has {len(files)} modules"


def test_the_reading_path_names_files_that_exist() -> None:
    names = re.findall(r"^\| `([\w/.]+\.py)`", READING_PATH.read_text("utf-8"), re.M)
    assert len(names) > 20
    assert [name for name in names if not (ROOT / name).is_file()] == []
