"""Attacks on a server with little memory, and their effects.

`PYTHONPATH=tests python -m hostile.attacks` prints a row for each. Each attack starts a server of its own on this
machine, lasts some seconds, and ends with SIGTERM. Meanwhile, another client asks for the health of the server.
ZOO_ATTACKED selects another checkout of zoo than this one.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hostile.documents import archive, make_document

SECONDS = 20.0
"""Time for an attack."""
MEMORY = 4_000_000_000
"""Virtual memory that each process of the server may have."""
_DESCRIPTORS = 700
_MAX_END_SECONDS = 15.0
_KEY = "0" * 64


@dataclass
class Outcome:
    """Effects of an attack on a server.

    Attributes:
        health_seconds: The longest time until `/health` answered, or infinity if it did not.
        peak_bytes: The most memory that the server and its processes had together.
        end_seconds: Time from SIGTERM to the end, or infinity.
        log_bytes: Size of the log.
        text_seconds: Time to translate a text of 1,200 characters during the attack, or infinity.
        statuses: Status of each answer to the attack.
    """

    health_seconds: float = 0.0
    peak_bytes: int = 0
    end_seconds: float = float("inf")
    log_bytes: int = 0
    text_seconds: float = float("inf")
    statuses: list[object] = field(default_factory=list)


Answer = tuple[object, bytes]
Attack = Callable[["Server"], list[object]]


class Server:
    """Server of the included model in a process of its own, which reports to a file."""

    def __init__(self, options: list[str], log: Path) -> None:
        root = os.environ.get("ZOO_ATTACKED", str(Path(__file__).parents[2]))
        command = [sys.executable, "-m", "zoo", "serve", "--model", "everyday", "--port", "0", "--device", "cpu"]
        environment = {**os.environ, "PYTHONPATH": root}
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*command, *options], env=environment, cwd=log.parent, stderr=stream, preexec_fn=_limit
            )
        while b"http://" not in (shown := log.read_bytes()):
            assert self.process.poll() is None, shown
            time.sleep(0.05)
        self.port = int(shown.partition(b"http://")[2].partition(b";")[0].rpartition(b":")[2])

    def request(self, method: str, path: str, body: bytes = b"", kind: str = "", seconds: float = SECONDS) -> Answer:
        """Return status and body of an answer, or the name of an error."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)) as connection:
            try:
                connection.request(method, path, body or None, {"content-type": kind} if kind else {})
                answer = connection.getresponse()
                return answer.status, answer.read()
            except OSError as error:
                return type(error).__name__, b""

    def post(self, path: str, value: object) -> object:
        return self.request("POST", path, json.dumps(value).encode(), "application/json")[0]

    def upload(self, name: str, content: bytes) -> Answer:
        head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        field = '\r\n--x\r\nContent-Disposition: form-data; name="{}"\r\n\r\n{}'
        fields = field.format("source", "en") + field.format("target", "de")
        body = head + content + fields.encode() + b"\r\n--x--\r\n"
        return self.request("POST", "/translate_file", body, "multipart/form-data; boundary=x")


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, hard))


def run(name: str) -> Outcome:
    """Run the attack with a name, and return its outcome."""
    attack, options = ATTACKS[name]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        if options:
            (Path(folder) / "keys.txt").write_text(_KEY)
        log = Path(folder) / "log"
        server, outcome = Server(options, log), Outcome()
        stack.callback(server.process.wait)
        stack.callback(server.process.kill)
        assert server.request("GET", "/health")[0] == 200
        if not options:
            assert server.post("/v1/translate", _text("warm up")) == 200
            server.upload("a.txt", b"warm up")
        with _observed(server, outcome):
            outcome.statuses = attack(server)
            start = time.monotonic()
            if not options and server.post("/v1/translate", _text("The old dog sees a small house. " * 40)) == 200:
                outcome.text_seconds = time.monotonic() - start
        outcome.log_bytes = log.stat().st_size
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(_MAX_END_SECONDS)
            outcome.end_seconds = time.monotonic() - start
    return outcome


def _text(text: str) -> dict[str, object]:
    return {"text": text, "source": "en", "target": "de"}


@contextmanager
def _observed(server: Server, outcome: Outcome) -> Iterator[None]:
    ended = threading.Event()

    def ask() -> None:
        while not ended.wait(0.1):
            start = time.monotonic()
            status, _ = server.request("GET", "/health", seconds=2 * SECONDS)
            taken = time.monotonic() - start if status == 200 else float("inf")
            outcome.health_seconds = max(outcome.health_seconds, taken)

    def measure() -> None:
        while not ended.wait(0.05):
            outcome.peak_bytes = max(outcome.peak_bytes, _memory(server.process.pid))

    with ThreadPoolExecutor() as threads:
        tasks = [threads.submit(ask), threads.submit(measure)]
        try:
            yield
        finally:
            ended.set()
    assert [task.result() for task in tasks] == [None, None], "neither failed"


def _memory(pid: int) -> int:
    """Return the memory of a process and its children, in bytes. Memory that they share counts once."""
    total = 0
    with suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total = 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(_memory, map(int, (task / "children").read_text().split())))
    return total


def _uploads(description: str, megabytes: int = 1) -> Attack:
    def attack(server: Server) -> list[object]:
        name, content = make_document(description)
        document = name, content * megabytes
        with ThreadPoolExecutor(8) as threads:
            answers = [threads.submit(server.upload, *document) for _ in range(8)]
        return [answer.result()[0] for answer in answers]

    return attack


def _posts(path: str, value: object) -> Attack:
    return lambda server: [server.post(path, value)]


def _readers(server: Server) -> list[object]:
    text = '<w:document xmlns:w="http://w"><w:p><w:r><w:t>one</w:t></w:r></w:p></w:document>'
    status, answer = server.upload("a.docx", archive(".docx", text, {"image": os.urandom(13_000_000)}))
    path = "/download_file/" + json.loads(answer)["translatedFileUrl"].rpartition("/")[2]
    with ExitStack() as stack:
        for _ in range(250):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            client.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        time.sleep(SECONDS)
    return [status]


def _idle(server: Server) -> list[object]:
    with ExitStack() as stack:
        for _ in range(800):
            with suppress(OSError):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 1))
        time.sleep(SECONDS)
    return []


_WORDS = "a b " * 4_900
_WITH_KEYS = ["--keys", "keys.txt"]
_AMPERSANDS = ("POST", "/v2/document", b"&" * 19_000_000, "application/x-www-form-urlencoded")
ATTACKS: dict[str, tuple[Attack, list[str]]] = {
    "8 Word documents of 60,000 nested elements": (_uploads("Word, nested elements"), []),
    "8 pages of unclosed tags, 1 MB": (_uploads("HTML, unclosed tags"), []),
    "8 pages of unclosed CDATA, 1 MB": (_uploads("HTML, unclosed CDATA"), []),
    "8 pages of inline elements, 1 MB": (_uploads("HTML, many inline elements"), []),
    "8 Markdown documents of 19 MB": (_uploads("Markdown, many inline elements", 19), []),
    "50 texts of 19,900 spaces": (_posts("/v1/translate", {**_text(""), "text": [f"a{' ' * 19_900}b"] * 50}), []),
    "8 pages of text in 125,000 nested elements, 1 MB": (_uploads("HTML, text in each of nested inline elements"), []),
    "8 Word documents of 30 MB of tags, 150 KB": (_uploads("Word, many tags"), []),
    "scores of 24 pairs of 20,000 characters": (
        _posts("/v1/score", {**_text(""), "text": [_WORDS] * 24, "translation": [_WORDS] * 24}), []
    ),
    "350,000 wrong items, without a key": (_posts("/v1/translate", {**_text(""), "text": [1] * 330_000}), _WITH_KEYS),
    "19 MB of `&`, without a key": (lambda server: [server.request(*_AMPERSANDS)[0]], _WITH_KEYS),
    "250 clients that do not read 13 MB": (_readers, []),
    "800 idle connections, 700 file descriptors": (_idle, []),
}  # fmt: skip
"""The attack and the options of the server, by a description."""


def main() -> None:
    """Print a row for each attack."""
    for name in sys.argv[1:] or ATTACKS:
        found = run(name)
        statuses = ", ".join(sorted(set(map(str, found.statuses))))
        sizes = f"{found.peak_bytes / 1e6:,.0f} MB | {found.end_seconds:.1f} s | {found.text_seconds:.1f} s"
        log = f"{found.log_bytes / 1e3:,.0f} kB"
        print(f"| {name} | {found.health_seconds:.2f} s | {sizes} | {log} | {statuses} |", flush=True)


if __name__ == "__main__":
    main()
