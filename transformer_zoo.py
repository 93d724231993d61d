"""The command `zoo`: before its packages are imported, whose names are common, it sees that they are its own."""

from __future__ import annotations

import sys
from importlib import import_module

_COMMON = ("specs", "compiler", "cli")


def main() -> None:
    """The entry point, of `python -m zoo`, too."""
    try:
        import_module("zoo").check_neighbours("cli")
    except ImportError as error:
        if error.name not in _COMMON:
            raise
        print(f"error: {error}", file=sys.stderr)  # another package stands in the way: zoo says which, and what to do
        sys.exit(2)
    import_module("cli.app").main()
