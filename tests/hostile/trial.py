"""What the making of a case has at hand: a folder, the world, and two ways to ask for an answer."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hostile import judge, terminal
from hostile.judge import Wrong
from hostile.terminal import Done, Stream
from hostile.world import World
from specs import ZooError

T = TypeVar("T")


class Trial:
    """Of one case, in its own folder, which is the current one; ZOO_HOME is `home` in it."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self.home = folder / "home"
        self.told: list[str] = []
        self.answered = self.refused = 0

    def tell(self, what: object) -> None:
        """Keeps what was done, to be shown where the case fails."""
        self.told.append(str(what)[:1000])

    def shelve(self, *names: str) -> Path:
        """Puts copies of the world's published models on the shelf, and returns where the first is."""
        for name in names:
            shutil.copytree(self.world.shelf / name, self.home / "models" / name)
        return self.home / "models" / names[0]

    def answer(self, action: Callable[[], T]) -> T | ZooError:
        """What the action gives, or the error of the house that it ends in. Raises Wrong for another."""
        try:
            found = action()
        except ZooError as error:
            judge.of_the_house(error)
            self.refused += 1
            return error
        self.answered += 1
        return found

    def zoo(
        self,
        *arguments: str,
        stdin: Stream = b"",
        stdout: Stream = b"",
        stderr: Stream = b"",
        allowed: tuple[int, ...] = (0, 1, 2),
    ) -> Done:
        """What a command line does. Raises Wrong where it does not end as the house's commands do."""
        self.tell(f"zoo {' '.join(repr(argument)[:200] for argument in arguments)}")
        done = terminal.called(arguments, stdin, stdout, stderr)
        try:
            if stderr == b"":
                judge.ended(done.status, done.out, done.err, allowed)
            else:
                judge.right(done.status in allowed, f"the exit status is {done.status!r}")
        except Wrong as wrong:
            if done.fault is None or isinstance(done.fault, ZooError):
                raise
            where = "".join(traceback.format_exception(done.fault))
            raise Wrong(f"{wrong}\n{where}") from None
        self.answered += done.status == 0
        self.refused += done.status != 0
        return done
