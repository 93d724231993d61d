"""Files of weights: the same content is the same bytes."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from specs import ZooError
from zoo.models.weights import Weights, read
from zoo.publishing import precedence


def test_the_same_weights_are_the_same_file(tmp_path: Path) -> None:
    """Whatever order a library would keep the facts in."""
    tensors = {name: torch.arange(3.0) for name in ("b", "a", "c")}
    facts = {key: key.upper() for key in ("steps", "longest_source", "one", "two", "three", "four")}
    files = [tmp_path / f"{number}.safetensors" for number in range(4)]
    for file in files:
        Weights(tensors, facts).write(file)
    assert len({file.read_bytes() for file in files}) == 1
    found = read(files[0])
    assert facts.items() <= found.facts.items()
    assert torch.equal(found.tensors["a"], tensors["a"])


def test_files_of_before_and_of_another_hand_are_read(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    save_file({"a": torch.ones(2)}, file, metadata={"format": "pt", "longest_source": "7"})
    assert read(file).longest_source == 7
    save_file({"a": torch.ones(2)}, file, metadata={"sha256": "0" * 64})
    with pytest.raises(ZooError, match="damaged"):
        read(file)


@pytest.fixture
def parsers(tmp_path: Path) -> Path:
    """Weights of a parser, beside its vocabulary."""
    (tmp_path / "vocabulary.source.model").write_bytes(b"tokens")
    (tmp_path / "vocabulary.target.json").write_bytes(b"NP VP")
    Weights({"a": torch.ones(2)}, {"steps": "3"}).write(tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


def test_brackets_that_were_changed_are_not_those_of_the_weights(parsers: Path) -> None:
    assert read(parsers).last_step == 3
    (parsers.parent / "vocabulary.target.json").write_bytes(b"VP NP")
    with pytest.raises(ZooError, match=r"is damaged, or not the one that `w.safetensors` was trained with"):
        read(parsers)


def test_weights_that_say_nothing_of_brackets_are_read_whatever_these_are(parsers: Path) -> None:
    """Those of before."""
    facts = {key: value for key, value in read(parsers).facts.items() if key != "brackets"}
    assert len(facts) == len(read(parsers).facts) - 1
    save_file({"a": torch.ones(2)}, parsers, metadata={"zoo": json.dumps(facts)})
    (parsers.parent / "vocabulary.target.json").write_bytes(b"VP NP")
    assert read(parsers).facts == facts


def test_weights_that_are_written_elsewhere_are_of_the_vocabulary_there(parsers: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "w.safetensors"
    other.parent.mkdir()
    read(parsers).write(other)
    assert read(other).facts.keys() == read(parsers).facts.keys() - {"brackets"}


def test_a_run_with_other_brackets_is_another_run(parsers: Path) -> None:
    earlier = read(parsers)
    before = Weights({}, {key: value for key, value in earlier.facts.items() if key != "brackets"})
    (parsers.parent / "vocabulary.target.json").write_bytes(b"VP NP")
    earlier.write(parsers)
    assert precedence._later(earlier, read(parsers)) == "is of another run: it has another vocabulary"
    assert not precedence._later(earlier, earlier)
    assert not precedence._later(before, read(parsers)), "of before it was written down"


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_who_may_read_them_is_said_by_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        Weights({"a": torch.ones(2)}).write(tmp_path / "w.safetensors")
    finally:
        os.umask(before)
    assert (tmp_path / "w.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask


ANOTHER = """
import os
import sys
from pathlib import Path
from specs import ZooError
from zoo.models import find
from zoo.models.contents import read_model
from zoo.models.weights import read
os.setgid(65534), os.setuid(65534)
for look in (lambda: read(Path(sys.argv[1])), lambda: read_model(find.model(sys.argv[2]))):
    try:
        look()
    except ZooError as error:
        print(error.summary, "|", error.hint)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only the superuser can be another user")
def test_what_another_user_keeps_private_is_not_called_missing(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    file, closed = tmp_path / "w.safetensors", tmp_path / "closed"
    Weights({"a": torch.ones(2)}).write(file)
    file.chmod(0o600)
    closed.mkdir(0o700)
    run = [sys.executable, "-c", ANOTHER, str(file), str(closed)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert told[0].startswith(f"`{file}` may not be read by this user | ask whoever owns it")
    assert told[1].startswith(f"`{closed}/manifest.json` may not be read by this user | ")


def test_a_limit_on_the_size_of_files_is_said_to_be_that(tmp_path: Path) -> None:
    """By the system's own word, though a library passes it on as an error of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(ZooError, match="larger than this process may write a file") as caught:
            Weights({"a": torch.zeros(10_000)}).write(tmp_path / "new" / "w.safetensors")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "ulimit -f" in caught.value.hint
    assert list((tmp_path / "new").iterdir()) == []


def test_a_hole_that_no_address_space_holds_is_told(tmp_path: Path) -> None:
    file = tmp_path / "w.safetensors"
    Weights({"a": torch.ones(2)}, {}).write(file)
    os.truncate(file, 1 << 40)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 39, limits[1]))
    try:
        with pytest.raises(ZooError, match=r"w.safetensors` cannot be read"):
            read(file)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
