"""Operation: keys change while the server runs, models are loaded at the start, and the log counts requests."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import httpx2
import pytest

from tests.zoo.serving.conftest import RUN, running
from tests.zoo.serving.test_balancer import shipped
from tests.zoo.serving.test_limits import BODY, metric, send, wait_until
from zoo.serving import Limits, app
from zoo.serving.admission import Keys, hash_key


@pytest.fixture(autouse=True)
def _log(caplog):
    caplog.set_level(logging.INFO, logger="zoo.serving")


@pytest.fixture
def file(tmp_path) -> Path:
    """A file with a key."""
    file = tmp_path / "keys.txt"
    file.write_text(f"{hash_key('first')} 500  # alice\n")
    return file


def change(file: Path, text: str) -> None:
    """Write a file as `sed -i` does, so that its version certainly differs."""
    other = file.with_name("other")
    other.write_text(text)
    os.replace(other, file)


@pytest.mark.parametrize("damage", ["secret\n", None])
def test_a_damaged_file_keeps_the_keys_and_a_file_without_keys_does_not(file, caplog, damage):
    known = Keys(file=file)
    before = dict(known)
    file.unlink() if damage is None else change(file, damage)
    for _ in range(3):
        known.refresh()
    assert dict(known) == before
    assert [record.levelname for record in caplog.records] == ["ERROR"]  # once
    assert "secret" not in caplog.text
    change(file, "# no keys\n")
    known.refresh()
    assert (dict(known), known.needed) == ({}, True)


def test_a_running_server_accepts_new_keys_and_refuses_revoked_ones(url_of, file):
    url = url_of(keys=Keys(file=file))

    def status(key: str) -> int:
        return httpx2.post(f"{url}/v1/score", headers={"authorization": f"Bearer {key}"}, json={}).status_code

    assert (status("first"), status("second")) == (400, 403)
    change(file, f"{hash_key('second')}\n")
    wait_until(lambda: status("second") == 400)
    assert status("first") == 403


def test_named_models_are_loaded_at_the_start_as_far_as_they_fit(service_of, trained, caplog):
    trained(folder="runs/second")
    opening, names = threading.Event(), [RUN, "runs/second"]
    memory = service_of().pool.models[RUN].memory_bytes() * 3 // 2
    service = service_of(names, memory_bytes=memory)
    load = service.pool._open
    service.pool._open = lambda folder: (opening.wait(120), load(folder))[1]
    with running(service, names) as url:
        assert httpx2.get(f"{url}/health").json() == {"status": "ok", "ready": False}
        assert httpx2.get(f"{url}/health/ready").status_code == 503
        opening.set()
        wait_until(lambda: httpx2.get(f"{url}/health/ready").status_code == 200)
        assert metric(url, "zoo_loaded_models") == 1
        assert [name for name, model in service.pool.models.items() if model.loaded] == [RUN]
    assert "model runs/second is loaded when it is needed: it does not fit" in caplog.text


def test_the_log_counts_requests_by_status(url_of, monkeypatch, caplog):
    monkeypatch.setattr(app, "_LOG_SECONDS", 0.2)
    url = url_of()
    for _ in range(3):
        assert httpx2.get(f"{url}/health").status_code == 200
    assert send(url).status_code == 200
    assert send(url, {**BODY, "target": "fr"}).status_code == 400

    def counted() -> list[str]:
        return [record.getMessage() for record in caplog.records if "with status" in record.getMessage()]

    wait_until(lambda: sum(int(line.split()[0]) for line in counted()) == 2)
    assert all(f"1 with status {status}" in " ".join(counted()) for status in (200, 400))


def test_the_shipped_unit_of_systemd_is_valid(tmp_path):
    unit = shipped("serve.md", "zoo.service")
    assert int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]) > Limits().request_seconds
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    file = tmp_path / "zoo.service"
    file.write_text(unit.replace("/opt/zoo/bin/zoo", shutil.which("true")), encoding="utf-8")
    result = subprocess.run([program, "verify", file], capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
