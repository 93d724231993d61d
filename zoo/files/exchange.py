"""Exchange two files or folders in one step, so that both paths exist at all times."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

_CURRENT_FOLDER = -100  # AT_FDCWD: relative paths start at the current folder
_EXCHANGE = 2  # RENAME_EXCHANGE on Linux, RENAME_SWAP on macOS
_UNSUPPORTED = {errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM}


def exchange(first: Path, second: Path) -> bool:
    """Exchange two files or folders of one file system atomically.

    Python has no function for this system call. With two renames, one of the paths would not exist for a moment.

    Returns:
        Whether the paths were exchanged. False if the operating system or the file system cannot do it.

    Raises:
        OSError: The exchange failed for another reason.
    """
    call = _system_call()
    if call is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    if sys.platform == "darwin":
        failed = call(*paths, _EXCHANGE)
    else:
        failed = call(_CURRENT_FOLDER, paths[0], _CURRENT_FOLDER, paths[1], _EXCHANGE)
    if not failed:
        return True
    if (code := ctypes.get_errno()) in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))


@cache
def _system_call() -> Any:
    """Return `renameat2` on Linux, `renamex_np` on macOS, or None if the C library has neither."""
    name = {"linux": "renameat2", "darwin": "renamex_np"}.get(sys.platform)
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None) if name else None
    if function is not None:
        path, number, flags = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint
        function.argtypes = [path, path, flags] if name == "renamex_np" else [number, path, number, path, flags]
        function.restype = number
    return function
