"""A folder in use, and one that is being removed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from specs import ZooError
from zoo.files.atomic import remove_folder
from zoo.files.locks import hold_while_alive, try_exclusive


class User:
    pass


@pytest.mark.parametrize("removed", [True, False])
def test_whoever_begins_while_it_may_be_removed_waits_for_that(tmp_path: Path, removed: bool) -> None:
    folder, user, said = tmp_path / "prepared", User(), []
    folder.mkdir()

    def begins() -> None:
        try:
            hold_while_alive(user, folder)
            said.append("in use")
        except ZooError as error:
            said.append(error.problem)

    with try_exclusive(folder) as free:
        assert free
        thread = threading.Thread(target=begins)
        thread.start()
        thread.join(0.2)
        assert said == []
        if removed:
            remove_folder(folder)
    thread.join()
    assert said == [f"`{folder}` has just been removed by another process" if removed else "in use"]
    if not removed:
        with try_exclusive(folder) as free:
            assert not free


def test_what_is_not_there_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(ZooError, match="removed by another process"):
        hold_while_alive(User(), tmp_path / "gone")
