"""The house stands: imports go down only, and nothing light waits for something heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("specs", "compiler", "zoo", "cli")


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)


def test_the_contracts_hold() -> None:
    command = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))"
    done = _python(command)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "code",
    [
        "import specs; specs.load('big').yaml()",
        "import compiler, specs; compiler.parameters(specs.load('big')); str(compiler.emit([]))",
        "import zoo; zoo.spec('big'); zoo.names()",
        "import cli.app",
    ],
)
def test_light_things_load_no_torch(code: str) -> None:
    done = _python(f"import sys; {code}; raise SystemExit('torch' in sys.modules)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("room", ROOMS)
def test_no_function_imports_to_dodge_a_contract(room: str) -> None:
    """Imports inside functions are for command files, optional backends and lazy packages alone."""
    allowed = {"compiler/__init__.py", "zoo/__init__.py"}
    files = list((ROOT / room).rglob("*.py"))
    assert len(files) > 5
    for file in files:
        name = file.relative_to(ROOT).as_posix()
        if name in allowed or name.startswith(("cli/", "compiler/backends/")):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        inside = [n for function in functions for n in ast.walk(function) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not inside, f"{name}:{inside[0].lineno}"


def test_one_noun_a_file() -> None:
    """No drawer for what found no place."""
    drawers = {"utils", "helpers", "common", "misc", "util", "helper"}
    for room in ROOMS:
        names = {file.stem for file in (ROOT / room).rglob("*.py")} | {p.name for p in (ROOT / room).rglob("*")}
        assert not names & drawers
