"""SIGKILL at random moments, and two publishers at once: what anybody sees is whole, and nothing is lost."""

import hashlib
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from zoo.files import manifest, storage
from zoo.models import local_store
from zoo.models.registries.registry import INDEX, open_registry
from zoo.models.registries.revision import parse_reference
from zoo.report import Report

ROOT = Path(__file__).parents[3]
PROOFS = Path(__file__).with_name("proofs.py")
SIZE = 3_000_000


def begin(*arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(PROOFS), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def killed(process, longest, moments):
    """Kills it at a moment after it has begun; whether it had not ended by then."""
    with process:
        assert process.stdout.readline() == "begun\n"
        threading.Event().wait(moments.uniform(0, longest))  # the web's fixture takes sleep away
        process.kill()
        return "\n" not in process.stdout.read()


def lasting(*arguments):
    """The seconds that it takes when nobody kills it."""
    with begin(*arguments) as process:
        assert process.stdout.readline() == "begun\n"
        start = time.perf_counter()
        assert process.wait() == 0
        return time.perf_counter() - start


def whole(place, name):
    """The revisions that anybody can see, each of them with all its blobs, as they were published."""
    newest = place.newest(name)
    for number in range(1, newest.revision + 1 if newest else 1):
        for file in place.revision(name, number).files.values():
            content = place.place.read(f"blobs/sha256/{file.sha256}", 10**8)
            assert content is not None
            assert (hashlib.sha256(content).hexdigest(), len(content)) == (file.sha256, file.bytes)
    return newest.revision if newest else 0


def publishing_is_killed(address, bundle, kills):
    place, moments = open_registry(address), random.Random(1)
    longest = min(lasting("publish", address, bundle(-seed, SIZE), "other") for seed in (1, 2))
    count = seen = attempts = 0
    while count < kills:
        attempts += 1
        made = bundle(attempts, SIZE)
        count += killed(begin("publish", address, made, "model"), longest, moments)
        now = whole(place, "model")
        assert now - seen in (0, 1)
        seen = now
        assert [each.name for each in place.entries()] == ["model", "other"][not now :]
    last = bundle(10**6, SIZE)
    lasting("publish", address, last, "model")
    assert whole(place, "model") == seen + 1
    assert b'"model"' in place.place.read(INDEX, 10**6)
    print(f"{kills} publishers killed in {attempts} attempts, {seen} of them after their revision was there")


def pulling_is_killed(served, bundle, tmp_path, monkeypatch, kills):
    place, moments = open_registry(str(served.folder)), random.Random(2)
    made = bundle(1, 10 * SIZE)
    lasting("publish", place.address, made, "model")
    monkeypatch.setenv("ZOO_REGISTRIES", served.address)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "unbroken"))
    longest = lasting("pull", "model")
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "killed"))
    count = attempts = ended = 0
    while count < kills:
        attempts += 1
        count += killed(begin("pull", "model"), longest, moments)
        if (folder := local_store.find_revision(parse_reference("model"))) is not None:
            manifest.check(folder)
            ended += 1
            monkeypatch.setenv("ZOO_HOME", str(tmp_path / f"killed-{attempts}"))
    lasting("pull", "model")
    manifest.check(local_store.find_revision(parse_reference("model")))
    assert [each.name for each in storage.models().iterdir()] == ["model"]
    continued = sum(1 for path, wanted in served.asked if wanted and not wanted.startswith("bytes=0"))
    print(f"{kills} pulls killed in {attempts} attempts, {ended} of them ended, {continued} went on from where one was")


def two_meet(address, tmp_path, rounds):
    processes = [begin("meet", address, tmp_path / "bundles", seed, rounds) for seed in (1, 2)]
    taken = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    pins = [f"model@{number}" for number in range(1, 2 * rounds + 1)]
    assert sorted(taken[0] + taken[1], key=lambda pin: int(pin.partition("@")[2])) == pins
    place = open_registry(address)
    assert whole(place, "model") == 2 * rounds
    digests = {place.revision("model", number).digest for number in range(1, 2 * rounds + 1)}
    published = {hashlib.sha256(file.read_bytes()).hexdigest() for file in tmp_path.glob("bundles/*/manifest.json")}
    assert digests == published
    assert len(published) == 2 * rounds
    turns = sum(one != other for one, other in zip(ordered(taken), ordered(taken)[1:], strict=False))
    print(
        f"{rounds} rounds of two publishers: {2 * rounds} revisions, none lost, {turns} changes from one to the other"
    )
    return turns


def ordered(taken):
    """Whose each revision is, in their order."""
    return [whose for _, whose in sorted((int(pin[6:]), whose) for whose in (0, 1) for pin in taken[whose])]


def test_a_publisher_that_is_killed_leaves_nothing_half(tmp_path, bundle):
    publishing_is_killed(str(tmp_path / "registry"), bundle, 2)


def test_a_pull_that_is_killed_leaves_nothing_half(web, bundle, tmp_path, monkeypatch):
    pulling_is_killed(web, bundle, tmp_path, monkeypatch, 2)


def test_two_publishers_lose_nothing(tmp_path):
    assert two_meet(str(tmp_path / "registry"), tmp_path, 5) > 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_publishers_that_are_killed_leave_nothing_half(tmp_path, bundle):
    publishing_is_killed(str(tmp_path / "registry"), bundle, 20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_publishers_to_s3_that_are_killed_leave_nothing_half(bucket, bundle):
    publishing_is_killed(bucket, bundle, 20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twenty_pulls_that_are_killed_leave_nothing_half(web, bundle, tmp_path, monkeypatch):
    pulling_is_killed(web, bundle, tmp_path, monkeypatch, 20)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_two_publishers_lose_nothing_in_fifty_rounds(place, tmp_path):
    assert two_meet(place.address, tmp_path, 50) > 0


def test_what_a_killed_publisher_left_is_swept(tmp_path, bundle, summary):
    from zoo.models.registries import publishing

    place = open_registry(str(tmp_path / "registry"))
    longest = lasting("publish", place.address, bundle(0, SIZE), "other")
    killed(begin("publish", place.address, bundle(1, SIZE), "model"), longest, random)
    publishing.publish(place, "model", bundle(2), summary, Report())
    publishing.write_index(place, str)
    left = [file.name for file in place.place.folder.rglob("*partial*")]
    assert left == []
