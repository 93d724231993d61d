"""Entry point of the command `zoo`. It checks that packages with common names are the ones that belong to zoo."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """Run the command line, for `zoo` and for `python -m zoo`."""
    try:
        require_own_packages("specs", "compiler", "cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        import_module("cli.app").main()
    except KeyboardInterrupt:  # during imports; afterwards the command line handles it
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)


def require_own_packages(*names: str) -> None:
    """Raise ImportError if Python would import another package under one of these names than the one next to `zoo`."""
    root = Path(__file__).resolve().parents[1]
    for name in names:
        found = find_spec(name)
        origin = found.origin if found else None
        if origin is None or Path(origin).resolve().parents[1] != root:
            actual = f"Python finds `{origin}`" if origin else "Python does not find it"
            raise ImportError(
                f"zoo needs its package `{name}` in `{root}`, but {actual}\n\n"
                "hint: start Python in another folder, rename the other package, or remove it from PYTHONPATH",
                name=name,
            )
