"""Names of the backends. This module does not import the backends, which need torch."""

from __future__ import annotations

from specs import ZooError, nearest

BACKEND_NAMES = ("eager", "inductor", "native", "aot", "onnx", "tensorrt")


def check_backend_name(name: str) -> None:
    """Raise ZooError unless the name is `auto` or a backend. The backend may be unavailable on this machine."""
    if name != "auto" and name not in BACKEND_NAMES:
        near = nearest(name, list(BACKEND_NAMES))
        hint = f"did you mean `{near}`?" if near else f"the backends are {', '.join(BACKEND_NAMES)}"
        raise ZooError(f"`{name}` is not a backend", hint=hint)
