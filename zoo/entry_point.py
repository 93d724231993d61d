"""The command `zoo`: before packages are imported whose names are common, it sees that they are zoo's own."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path


def main() -> None:
    """The entry point, of `python -m zoo`, too."""
    try:
        require_neighbours("specs", "compiler", "cli")
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    try:
        import_module("cli.app").main()
    except KeyboardInterrupt:  # while packages are loaded; from then on the command line sees to it
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)


def require_neighbours(*names: str) -> None:
    """Raises ImportError unless what Python finds under these common names is what stands beside this folder."""
    here = Path(__file__).resolve().parents[1]
    for name in names:
        found = find_spec(name)
        origin = found.origin if found else None
        if origin is None or Path(origin).resolve().parents[1] != here:
            what = f"Python finds `{origin}`" if origin else "Python finds none"
            raise ImportError(
                f"zoo needs its own package `{name}`, in `{here}`, but {what}\n\n"
                "hint: start Python in another folder, rename what stands in the way, or take it off PYTHONPATH",
                name=name,
            )
