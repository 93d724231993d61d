"""A model all the way: from a run to a registry of each kind, to a clean home, and offline into a second process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zoo
from zoo.publishing.publish import publish
from zoo.publishing.upload import upload
from zoo.publishing.verify import verify

NAME = "transformer-tiny-ende"
ROOT = Path(__file__).parents[3]
LOADS = f"import zoo; print(zoo.load('{NAME}', device='cpu').translate('we read', beam=1))"


@pytest.fixture(params=["folder", "web", "s3"])
def addresses(request, tmp_path):
    """Where is published to, and where is pulled from."""
    if request.param == "s3":
        return (request.getfixturevalue("bucket"),) * 2
    folder = str(tmp_path / "registry")
    return folder, request.getfixturevalue("web").address if request.param == "web" else folder


def test_it_translates_there_as_it_did_here(trained, addresses, tmp_path, monkeypatch):
    publish(trained().folder)
    assert upload(NAME, addresses[0]).pin == f"{NAME}@1"
    wanted = zoo.load(NAME, device="cpu").translate("we read", beam=1)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "another"))
    monkeypatch.setenv("ZOO_REGISTRIES", addresses[1])
    assert zoo.load(f"{NAME}@1", device="cpu").translate("we read", beam=1) == wanted
    assert verify(NAME).difference == 0
    stand = sorted(folder.name.partition("@")[0] for folder in (tmp_path / "another" / "shelf").iterdir())
    assert stand == [NAME, NAME]
    environment = {**os.environ, "ZOO_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", LOADS], env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (wanted, "")
