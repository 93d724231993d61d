"""Two places that exchange what stands there, at once: whoever looks finds one or the other, and never nothing."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_HERE = -100  # AT_FDCWD: paths are as for `open`
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_UNKNOWN = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def exchange(one: Path, other: Path) -> bool:
    """Whether it was done: False where the system or the file system does not know how. Raises OSError otherwise."""
    call = _call()
    if call is None:
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    arguments = (first, second, _EXCHANGE) if sys.platform == "darwin" else (_HERE, first, _HERE, second, _EXCHANGE)
    if call(*arguments) == 0:
        return True
    if (code := ctypes.get_errno()) in _UNKNOWN:
        return False
    raise OSError(code, os.strerror(code), str(other))


@cache
def _call() -> Any:
    """`renameat2` of Linux, `renamex_np` of macOS; None where the C library has neither."""
    name = {"linux": "renameat2", "darwin": "renamex_np"}.get(sys.platform)
    if name is None:
        return None
    path, number = ctypes.c_char_p, ctypes.c_int
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is not None:
        function.argtypes = (
            [path, path, ctypes.c_uint] if name == "renamex_np" else [number, path, number, path, ctypes.c_uint]
        )
        function.restype = number
    return function
