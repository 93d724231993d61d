"""Killed publishers and pulls leave complete models only, and concurrent publishers lose nothing."""

import hashlib
import random
import subprocess
import sys
import threading
import time

import pytest

from tests.paths import ROOT
from zoo.files import manifest, storage
from zoo.models import local_store
from zoo.models.registries.registry import INDEX, open_registry
from zoo.models.registries.revision import Reference
from zoo.report import Report

SIZE = 3_000_000


def start(*arguments):
    command = [sys.executable, "-m", "tests.zoo.models.registries.processes", *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill(process, max_delay, generator):
    """Kill a process at a random moment after its start. Return whether it was still working."""
    with process:
        assert process.stdout.readline() == "started\n"
        threading.Event().wait(generator.uniform(0, max_delay))  # the fixture `web` replaces time.sleep
        process.kill()
        return "\n" not in process.stdout.read()


def run(*arguments):
    """Run a process to its end. Return how many seconds it worked."""
    with start(*arguments) as process:
        assert process.stdout.readline() == "started\n"
        begin = time.perf_counter()
        assert process.wait() == 0
        return time.perf_counter() - begin


def count_complete_revisions(registry, name):
    """Return the number of revisions, after a check that all of their blobs are intact."""
    newest = registry.newest(name)
    for number in range(1, newest.revision + 1 if newest else 1):
        for file in registry.revision(name, number).files.values():
            content = registry.store.read(f"blobs/sha256/{file.sha256}", 10**8)
            assert (hashlib.sha256(content).hexdigest(), len(content)) == (file.sha256, file.bytes)
    return newest.revision if newest else 0


def check_killed_publishers(address, bundle, kills):
    registry, generator = open_registry(address), random.Random(1)
    duration = min(run("publish", address, bundle(-seed, SIZE), "other") for seed in (1, 2))
    killed = revisions = attempts = 0
    while killed < kills:
        attempts += 1
        folder = bundle(attempts, SIZE)
        killed += kill(start("publish", address, folder, "model"), duration, generator)
        now = count_complete_revisions(registry, "model")
        assert now - revisions in (0, 1)
        revisions = now
        assert [entry.name for entry in registry.entries(pytest.fail)] == ["model", "other"][not now :]
    run("publish", address, bundle(10**6, SIZE), "model")
    assert count_complete_revisions(registry, "model") == revisions + 1
    assert b'"model"' in registry.store.read(INDEX, 10**6)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_killed_pulls(web, bundle, tmp_path, monkeypatch):
    registry, generator = open_registry(str(web.folder)), random.Random(2)
    run("publish", registry.address, bundle(1, 10 * SIZE), "model")
    monkeypatch.setenv("ZOO_REGISTRIES", web.address)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "unbroken"))
    duration = run("pull", "model")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "killed"))
    killed = attempts = 0
    while killed < 20:
        attempts += 1
        killed += kill(start("pull", "model"), duration, generator)
        if (model := local_store.find(Reference("model"))) is not None:
            manifest.check(model.folder)
            monkeypatch.setenv("ZOO_HOME", str(tmp_path / f"killed-{attempts}"))
    run("pull", "model")
    manifest.check(local_store.find(Reference("model")).folder)
    assert [folder.name for folder in storage.models().iterdir()] == ["model"]


@pytest.mark.integration
def test_a_killed_publisher_leaves_complete_revisions_only(tmp_path, bundle, summary):
    check_killed_publishers(str(tmp_path / "registry"), bundle, 1)
    registry = open_registry(str(tmp_path / "registry"))
    registry.publish("model", bundle(2), summary, Report())
    registry.write_index(Report())
    assert [file.name for file in registry.store.folder.rglob("*partial*")] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_killed_publishers(registry, bundle):
    check_killed_publishers(registry.address, bundle, 20)
