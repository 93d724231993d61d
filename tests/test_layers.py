"""Imports between the packages go down only, and importing a light package does not load a heavy one."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.integration

PACKAGES = ("specs", "compiler", "zoo", "cli")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)


def test_import_contracts_hold() -> None:
    process = run_python("from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))")
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import compiler, specs; compiler.parameters(specs.load('big')); str(compiler.emit([]))",
        "import zoo, cli.app; zoo.spec('big'); zoo.names()",
    ],
)
def test_light_work_does_not_import_torch(code: str) -> None:
    process = run_python(f"import sys; {code}; raise SystemExit('torch' in sys.modules)")
    assert process.returncode == 0, process.stderr


def test_only_commands_backends_and_lazy_packages_import_inside_functions() -> None:
    lazy = {"compiler/__init__.py", "zoo/__init__.py", "zoo/text/trees/tree.py"}
    for package in PACKAGES:
        files = list((ROOT / package).rglob("*.py"))
        assert len(files) > 5
        for file in files:
            name = file.relative_to(ROOT).as_posix()
            if name in lazy or name.startswith(("cli/", "compiler/backends/", "zoo/features/")):
                continue
            text = file.read_text(encoding="utf-8")
            if not re.search(r"^\s+(import|from) ", text, re.MULTILINE):
                continue
            for function in ast.walk(ast.parse(text)):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    imports = [node for node in ast.walk(function) if isinstance(node, ast.Import | ast.ImportFrom)]
                    assert not imports, f"{name}: {function.name}"


def test_no_module_is_a_collection_of_helpers() -> None:
    for package in PACKAGES:
        names = {path.stem for path in (ROOT / package).rglob("*")}
        assert not names & {"utils", "helpers", "common", "misc", "util", "helper"}
