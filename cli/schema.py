"""`zoo schema`: what may stand in a spec's file, for editors."""

from __future__ import annotations

import json

EXAMPLES = "zoo schema > schema.json"


def command() -> None:
    """JSON Schema of a spec, for editors."""
    import specs

    print(json.dumps(specs.schema(), indent=2, ensure_ascii=False))
