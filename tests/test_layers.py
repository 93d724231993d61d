"""Imports are at the top of a module. `lint-imports` checks that they go down only between the packages."""

from __future__ import annotations

import ast

from tests.paths import ROOT

PACKAGES = ("specs", "compiler", "zoo", "cli")


def test_only_commands_backends_and_lazy_packages_import_inside_functions() -> None:
    lazy = {"compiler/__init__.py", "zoo/__init__.py", "zoo/models/find.py", "zoo/text/trees/tree.py"}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            name = file.relative_to(ROOT).as_posix()
            if name in lazy or name.startswith(("cli/", "compiler/backends/", "zoo/features/")):
                continue
            for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    imports = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
                    assert not imports, f"{name}: {function.name}"


def test_no_module_is_a_collection_of_helpers() -> None:
    for package in PACKAGES:
        names = {path.stem for path in (ROOT / package).rglob("*")}
        assert not names & {"utils", "helpers", "common", "misc", "util", "helper"}
