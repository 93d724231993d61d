"""Hostile registries, in a folder or behind a web server: wrong files, redirects, and answers without end."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from time import monotonic
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import unquote

from hostile import judge, values
from hostile.judge import check
from hostile.trial import Trial, regular_content
from hostile.world import GOOD, OTHER
from zoo.files import transfer

_MAX_WAIT = 300
"""Seconds that zoo may wait for a server in all."""
Damage = Callable[[Random, Path, Trial], bool | None]
"""Damages a registry. Returns True if a pull of GOOD must be refused."""
Answer = tuple[int, dict[str, str], bytes, bool]
"""Status, headers, body, and whether the body repeats without end."""
Trick = Callable[[str, Answer], Answer]
"""Changes the answer for a path."""


def run(random: Random, trial: Trial) -> None:
    """Pull from a damaged registry: the result is what was published, or nothing; the store is otherwise unchanged."""
    folder = trial.folder / "registry"
    shutil.copytree(trial.world.registry, folder)
    on_web, trick = random.random() < 0.5, None
    if on_web and random.random() < 0.6:
        trick, must_refuse = _trick(random, trial)
    else:
        damage = values.weighted(random, _DAMAGES)
        trial.log(damage.__name__)
        must_refuse = damage(random, folder, trial)
    installed = trial.install(OTHER) if random.random() < 0.3 else None
    before = _files(folder)
    trial.guard.forget()
    with _configured(folder, trick, on_web):
        _pull(random, trial, must_refuse)
        if random.random() < 0.3:
            trial.zoo("list", "--published", *(["--json"] if random.random() < 0.3 else []))
    trial.check_secret()
    check(_files(folder) == before, "reading a registry has changed it")
    if installed is not None:
        check(_files(installed) == _files(trial.world.store / OTHER), "another model in the store has changed")
    if not on_web and random.random() < 0.3:
        _publish(trial, folder)


@contextmanager
def _configured(folder: Path, trick: Trick | None, on_web: bool) -> Iterator[None]:
    """Set ZOO_REGISTRIES to the registry, and count the seconds that zoo would wait, instead of waiting."""
    waits: list[float] = []
    time = SimpleNamespace(sleep=waits.append, monotonic=monotonic)
    with mock.patch.object(transfer, "time", time), _served(folder, trick) if on_web else nullcontext(folder) as place:
        settings = {"ZOO_REGISTRIES": str(place), "no_proxy": "*", "ZOO_OFFLINE": "" if on_web else "1"}
        with mock.patch.dict(os.environ, settings):
            yield
    check(sum(waits) < _MAX_WAIT, f"it waits {sum(waits):.0f} s")


def _pull(random: Random, trial: Trial, must_refuse: bool) -> None:
    revision = random.choice(("", "", "", "@1", "@2", "@3"))
    done = trial.zoo("pull", f"{GOOD}{revision}")
    judge.check_printable(done.out)
    check(done.status != 0 or revision or not must_refuse, f"it is pulled: {done.out}")
    stored = {path.name for path in trial.store.iterdir()} - {OTHER} if trial.store.exists() else set()
    check(len(stored) <= (done.status == 0), f"the status is {done.status}, and the store has {stored}")
    for name in stored:
        check(trial.zoo("verify", str(trial.store / name)).status == 0, "it is pulled, but not valid")


def _files(folder: Path) -> dict[str, bytes | None]:
    """Return the content of each regular file, None for others."""
    paths = (path for path in sorted(folder.rglob("*")) if path.name != "origin.json")
    return {str(path.relative_to(folder)): regular_content(path) for path in paths}


def _publish(trial: Trial, folder: Path) -> None:
    """Publish one more revision, which must not change the others."""
    before = {name: content for name, content in _files(folder).items() if name.startswith("models/")}
    shutil.copytree(trial.world.store / GOOD, trial.folder / "copy")
    os.environ["ZOO_REGISTRIES"] = ""
    trial.zoo("publish", "./copy", "--to", str(folder))
    after = _files(folder)
    changed = {name for name, content in before.items() if content is not None and after.get(name) != content}
    check(not changed, f"revisions have changed: {changed}")


# Damaged files


def _revision_file(folder: Path, number: int = 2) -> Path:
    return folder / "models" / GOOD / f"{number}.json"


def _damaged_file(random: Random, folder: Path, trial: Trial) -> None:
    """Damage a list, a revision or a blob, or copy a revision to another number."""
    files = [folder / "index.json", folder / "registry.json", *(_revision_file(folder, number) for number in (1, 2, 2))]
    trial.log(values.damage(random, random.choice((*files, *sorted((folder / "blobs" / "sha256").iterdir())))))
    if random.random() < 0.2 and (file := _revision_file(folder)).is_file():
        names = ("3.json", "999999999.json", "01.json", "-1.json", "٣.json")
        shutil.copyfile(file, file.with_name(random.choice(names)))


def _wrong_revision(random: Random, folder: Path, trial: Trial) -> bool:
    """Give a revision another number, name or digest, or its files names outside of the folder or wrong content."""
    file = _revision_file(folder)
    good = json.loads(file.read_text())
    name, other = random.sample(sorted(good["files"].keys() - {"manifest.json"}), 2)
    entry, any_value = good["files"][name], values.value(random)
    names = (
        *("../x", "../../../../pwned.txt", "/etc/x.y", "a/b.c", "..", ".x", "x", "", "a\0b", "\x1b[2J.x"),
        *("x.y" * 10_000, "weights.safetensors.partial", "new.txt", "origin.json"),
    )
    wrong: dict[tuple[str, ...], Any] = {
        ("format",): (any_value,),
        ("name",): ("../x", OTHER, "/etc/x", "..", "", "a/b", "x" * 1000, "\x1b[2J", "good\n", any_value),
        ("revision",): (1, 3, 0, -1, 10**9, 10**30, 1e300, "2", True, 2.5, any_value),
        ("digest",): ("0" * 64, "", "g" * 64, "A" * 64, "../../x", good["digest"][:-1], 5, any_value),
        ("files", random.choice(names)): (entry,),
        ("files", name, "bytes"): (-1, 0, entry["bytes"] + 1, 10**14, 10**15, 10**30, 1.5, None, "5", True),
        ("files", name, "sha256"): ("0" * 64, "", "../../x", entry["sha256"].upper() + "\n", 5),
        ("files", name): (values.DELETED, good["files"][other]),
    }
    trial.log(values.edit_json(random, file, wrong))
    return bool(json.loads(file.read_text()) != good)


def _damaged_blob(random: Random, folder: Path, trial: Trial) -> bool:
    """Remove or change a file of GOOD, or make it longer: only its beginning is read, whose hash is correct."""
    files = json.loads(_revision_file(folder).read_text())["files"]
    blob = folder / "blobs" / "sha256" / files[random.choice(sorted(files))]["sha256"]
    content = blob.read_bytes()
    at, is_longer = random.randrange(len(content)), random.random() < 0.3
    flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    longer = (content + b"x", content * 2, content + bytes(1 << 22))
    blob.write_bytes(random.choice(longer if is_longer else (content[:at], flipped, random.randbytes(len(content)))))
    return not is_longer


_DAMAGES: dict[Damage, int] = {_damaged_file: 6, _wrong_revision: 4, _damaged_blob: 2}

# A web server, and its tricks


@contextmanager
def _served(folder: Path, trick: Trick | None) -> Iterator[str]:
    """Serve a folder with tricks, and yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path).lstrip("/")
            exists = ".." not in path.split("/") and (folder / path).is_file()
            body = (folder / path).read_bytes() if exists else b""
            plain = (200 if exists else 404, {"Content-Length": str(len(body))}, body, False)
            status, headers, body, endless = trick(path, plain) if trick else plain
            with suppress(OSError):  # the client may have closed the connection
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for _ in range(100_000 if endless else 1):
                    self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignore invalid requests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


_LARGE = b"x" * (1 << 20)
_MANY_DIGITS = "9" * 5000
_CHUNKS = (
    *(b"-5\r\nhello\r\n0\r\n\r\n", b"x\r\nhello\r\n", b"\r\n", b"9" * 30 + b"\r\n", b"-0\r\n"),
    b"5;" + b"x" * 10**5,
)
_LOCATIONS = (
    *("file:///etc/passwd", "file:secret", "/dev/zero", "../../secret", "http://[::1", "http://", "http://x:y/"),
    *("data:text/plain,x", "ftp://127.0.0.1:1/x", "javascript:x", "\xff\xfe", "http://127.0.0.1:1/x", "x" * 60_000),
    *("http://127.0.0.1:99999/", "http://\x01/", "gopher://x"),
)


def _trick(random: Random, trial: Trial) -> tuple[Trick, bool]:
    """Return a trick, and whether a pull of GOOD must be refused because of it."""
    where = random.choice(("models/", f"models/{GOOD}/2.json", "blobs/", "index.json"))
    kind = random.choice(("endless", "status", "length", "range", "redirect", "revisions", "page", "chunks", "little"))
    trial.log(f"server: {where}, {kind}")
    if kind == "revisions":
        return _every_revision(random.choice((10**4, 10**9, 10**30))), where in ("models/", "blobs/")
    length = random.choice(("0", "1", "-5", "²", "1e3", _MANY_DIGITS, "99999999999999", "", "5, 5", "\xb2\xb3"))
    tag = random.choice(("x", '"x"', 'W/"x"', "x" * 5000))
    ranges = ("bytes 0-1/2", "bytes 5-9/10", "bytes x", f"bytes {_MANY_DIGITS}-9/*", f"bytes 0-0/{_MANY_DIGITS}", "")
    waits = random.choice(("0", "5", "99999999999", "-1", "²", _MANY_DIGITS, "Wed, 21 Oct 2065 07:28:00 GMT"))
    statuses = (100, 201, 204, 206, 300, 304, 400, 401, 403, 416, 418, 429, 500, 503, 599, 999)
    body = random.choice((b"<html>" + _LARGE, b"", b"\x1f\x8b" + bytes(100), b"[" * 500_000, b"{}"))
    encoding = random.choice(("gzip", "br", "identity", "x" * 1000))
    answers: dict[str, Answer] = {
        "endless": (200, random.choice(({}, {"Content-Length": str(10**12)}, {"Content-Length": "5"})), _LARGE, True),
        "status": (random.choice(statuses), {"Content-Length": "2", "Retry-After": waits}, b"{}", False),
        "redirect": (302, {"Location": random.choice((*_LOCATIONS, f"/{where}")), "Content-Length": "0"}, b"", False),
        "chunks": (200, {"Transfer-Encoding": "chunked"}, random.choice(_CHUNKS), False),
        "little": (206, {}, b"x", False),
        "page": (200, {"Content-Length": str(len(body)), "Content-Encoding": encoding}, body, False),
    }
    content_range = random.choice(ranges)
    served: list[bytes] = []

    def trick(path: str, answer: Answer) -> Answer:
        if where not in path:
            return answer
        if kind == "length":
            return answer[0], {"Content-Length": length, "ETag": tag}, answer[2], False
        if kind == "little":  # one byte for each connection, from where the client goes on
            served.append(b"x")
            first = len(served) - 1
            return 206 if first else 200, {"Content-Range": f"bytes {first}-{10**6}/{10**6 + 1}"}, b"x", False
        if kind == "range":
            return 206, {"Content-Range": content_range}, answer[2][:10], False
        return answers[kind]

    return trick, kind in answers and where in ("models/", "blobs/")


def _every_revision(last: int) -> Trick:
    """Return a trick: the server has every revision up to the last, none of which has valid files."""
    digest = "0" * 64
    files = {name: {"sha256": digest, "bytes": 5} for name in ("manifest.json", "spec.yaml")}
    texts = dict.fromkeys(("task", "source", "target", "metric", "description", "published", "zoo"), "x")
    summary = {**texts, "parameters": 1, "dev": None, "test": None}

    def trick(path: str, answer: Answer) -> Answer:
        number = path.removeprefix(f"models/{GOOD}/").removesuffix(".json")
        if not number.isdecimal() or int(number) > last:
            return answer
        revision = {"format": 1, "name": GOOD, "revision": int(number), "digest": digest}
        body = json.dumps({**revision, "files": files, "summary": summary}).encode()
        return 200, {"Content-Length": str(len(body))}, body, False

    return trick
