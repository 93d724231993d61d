"""What stands where a file should: devices, pipes, links, folders, holes."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from random import Random

KINDS = ("zero", "random", "full", "mem", "fifo", "folder", "circle", "nowhere", "hole", "empty", "socket", "null")


def put(draw: Random, path: Path) -> str:
    """Puts one of them at a path, where a file may be, and says which."""
    kind = draw.choice(KINDS)
    good = path.read_bytes() if path.is_file() else b""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    targets = {"zero": "/dev/zero", "random": "/dev/urandom", "full": "/dev/full", "null": "/dev/null"}
    targets |= {"mem": "/proc/self/mem", "circle": path.name, "nowhere": "nowhere"}
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "empty":
            path.touch()
        case "hole":
            path.write_bytes(good)
            os.truncate(path, 1 << 43)  # more than any disk has
        case "socket":
            with socket.socket(socket.AF_UNIX) as opened:
                opened.bind(os.path.relpath(path))  # a path of 108 characters at most
        case _:
            path.symlink_to(targets[kind])
    return f"{path.name} is {kind}"
