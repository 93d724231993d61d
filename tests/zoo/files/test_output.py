"""Output files that the user names keep their kind: files, links, pipes and devices."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.refusals import refused
from zoo.files.output import open_output, require_different_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def write(path: Path | str, text: str = "new\n") -> None:
    with open_output(Path(path)) as stream:
        stream.write(text)


def names() -> list[str]:
    return sorted(os.listdir())


def test_a_file_appears_complete_or_not_at_all_and_keeps_its_permissions() -> None:
    def interrupted() -> None:
        with open_output(Path("out")) as stream:
            stream.write("half")
            raise KeyboardInterrupt

    with open_output(Path("out")) as stream:
        stream.write("new")
        assert not Path("out").exists()
    Path("out").chmod(0o600)
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (Path("out").read_text(), names()) == ("new", ["out"])
    write("out", "newer")
    assert (Path("out").read_text(), stat.S_IMODE(Path("out").stat().st_mode)) == ("newer", 0o600)


@pytest.mark.parametrize("exists", [True, False])
def test_links_are_followed_and_kept(exists: bool) -> None:
    Path("deep").mkdir()
    if exists:
        Path("deep/file").write_text("old")
    Path("deep/second").symlink_to("file")
    Path("first").symlink_to("deep/second")
    write("first")
    assert [Path(name).is_symlink() for name in ("first", "deep/second", "deep/file")] == [True, True, False]
    assert Path("deep/file").read_text() == Path("first").read_text() == "new\n"


@pytest.mark.parametrize("linked", [True, False])
def test_a_fifo_is_written_to_directly(linked: bool) -> None:
    os.mkfifo("pipe")
    Path("link").symlink_to("pipe")
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(Path("pipe").read_text()), daemon=True)
    reader.start()
    write("link" if linked else "pipe")
    reader.join(20)
    assert received == ["new\n"]
    assert stat.S_ISFIFO(Path("pipe").stat().st_mode)


@pytest.mark.integration
def test_a_descriptor_is_written_to_at_its_position() -> None:
    """This is what `>(cat)` and `--output /dev/stdout >> log` need."""
    script = "import sys; from pathlib import Path; from zoo.files.output import open_output\n"
    script += "for name in sys.argv[1:]:\n with open_output(Path(name)) as stream: print(name, file=stream)"
    Path("link").symlink_to("/dev/stdout")
    known = [name for name in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link") if Path(name).parent.exists()]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    Path("log").write_text("before\n")
    with Path("log").open("a") as log:
        subprocess.run([sys.executable, "-c", script, *known], stdout=log, check=True, env=environment)
        log.write("after\n")
    assert Path("log").read_text().splitlines() == ["before", *known, "after"]


def test_a_full_device_is_a_clear_error_and_stays_a_device() -> None:
    """The test creates a device like /dev/full."""
    try:
        os.mknod("full", 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        Path("full").write_bytes(b"")
    except (OSError, AttributeError):
        pytest.skip("only root can create devices")
    for text in ("new\n", "new\n" * 100_000):
        assert refused("`full` cannot be written: the disk is full", write, "full", text).exit_code == 1
    assert stat.S_ISCHR(Path("full").stat().st_mode)
    assert names() == ["full"]


def test_a_path_that_cannot_be_written_is_a_clear_error() -> None:
    error = refused("`new/out` cannot be written: there is no folder `new`", write, "new/out")
    assert (error.exit_code, names()) == (2, [])
    Path("link").symlink_to("gone/out")
    Path("round").symlink_to("round")
    Path("file").touch()
    refused(r"there is no folder `.*/folder/gone`", write, "link")
    refused("`file/out` cannot be written: ", write, "file/out")
    refused(r"`\.` cannot be written: it is a folder", write, ".")
    refused("`round` cannot be written: Too many levels", write, "round")
    refused("`/dev/fd/9999` cannot be written: Bad file descriptor", write, "/dev/fd/9999")


def test_an_input_cannot_be_the_output() -> None:
    for name in ("a", "b"):
        Path(name).touch()
    Path("link").symlink_to("a")
    os.link("a", "same")
    require_different_files(Path("a"), [Path("b"), Path("gone")])
    require_different_files(Path("gone"), [Path("gone")])
    problem = "`a` would be read and written at the same time"
    for other in ("a", "link", "same", "../folder/a"):
        assert refused(problem, require_different_files, Path("a"), [Path("b"), Path(other)]).exit_code == 2
    with Path("a").open() as opened, Path(os.devnull).open() as device:
        refused(problem, require_different_files, Path("a"), [opened.fileno()])
        require_different_files(device.fileno(), [device.fileno(), 10_000])  # not a regular file, and not open
