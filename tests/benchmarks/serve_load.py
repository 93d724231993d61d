"""Load tests of a translation server with LibreTranslate's API, from an open-loop generator.

    python -m tests.benchmarks.serve_load compare LINES NAME=URL=PID NAME=URL=PID
    python -m tests.benchmarks.serve_load mixed LINES NAME=URL=PID SECONDS TRANSLATIONS

`compare` measures the capacity of each server, and then sends 0.5, 0.9 and 2 times as many requests per second for a
minute each, the servers in turn. Requests arrive at random (a Poisson process) and do not wait for each other. `mixed`
sends all kinds of requests, some of whose clients leave, compares the texts with given translations, and prints the
memory of the server each minute. LINES has sentences, one per line. PID is the process whose memory is measured. With
`--toy`, `compare` sends requests for less than a second, to test this script.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

import aiohttp

SOURCE, TARGET = "en", "de"
FACTORS = (0.5, 0.9, 2.0)
SECONDS, CAPACITY_SECONDS, CONNECTIONS = 60.0, 15.0, 32
MIXED_RATE, LEAVING = 15.0, 0.1
PAGE_BYTES = 4096


@dataclass
class Server:
    """A server that is measured: its name, address and process."""

    name: str
    url: str
    pid: int

    @property
    def megabytes(self) -> float:
        """The resident memory of the process."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


@dataclass
class Result:
    """Times and statuses of the requests."""

    seconds: list[float] = field(default_factory=list)
    """Time of each accepted request."""
    refusals: list[float] = field(default_factory=list)
    """Time of each refused request."""
    statuses: Counter[str] = field(default_factory=Counter)


async def send(session: aiohttp.ClientSession, server: Server, text: str, result: Result) -> None:
    """Send one sentence, and record the time until the answer."""
    started = time.perf_counter()
    try:
        body = {"q": text, "source": SOURCE, "target": TARGET}
        async with session.post(f"{server.url}/translate", json=body) as response:
            await response.read()
            status = str(response.status)
    except aiohttp.ClientError as error:
        status = type(error).__name__
    seconds = time.perf_counter() - started
    result.statuses[status] += 1
    (result.seconds if status == "200" else result.refusals).append(seconds)


async def capacity(server: Server, lines: list[str], seconds: float) -> float:
    """Return how many requests per second the server answers if there are always some waiting."""
    result, end = Result(), time.perf_counter() + seconds
    async with _session() as session:

        async def client(seed: int) -> None:
            draw = random.Random(seed)
            while time.perf_counter() < end:
                await send(session, server, draw.choice(lines), result)

        await asyncio.gather(*map(client, range(CONNECTIONS)))
    return len(result.seconds) / seconds


async def load(server: Server, lines: list[str], rate: float, seconds: float) -> Result:
    """Send requests at random times, `rate` per second on average."""
    draw, result, tasks = random.Random(1), Result(), []
    async with _session() as session:
        due = time.perf_counter()
        end = due + seconds
        while due < end:
            due += draw.expovariate(rate)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(send(session, server, draw.choice(lines), result)))
        await asyncio.gather(*tasks)
    return result


def percentiles(seconds: list[float]) -> tuple[float, float, float]:
    """Return the 50th, 95th and 99th percentile, or zeros if there are fewer than two values."""
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [0.0] * 99
    return cuts[49], cuts[94], cuts[98]


async def compare(servers: list[Server], lines: list[str], *, toy: bool = False) -> None:
    """Print a table of the servers at different loads."""
    seconds, capacity_seconds = (0.2, 0.1) if toy else (SECONDS, CAPACITY_SECONDS)
    capacities: dict[str, float] = {}
    for server in servers * 2:
        found = await capacity(server, lines, capacity_seconds)
        capacities[server.name] = max(capacities.get(server.name, 0.0), found)
    print("server | load | sent/s | answered/s | refused | p50 ms | p95 ms | p99 ms | p95 of refusals ms | MB")
    for factor in FACTORS:
        for server in servers:
            rate = factor * capacities[server.name]
            result = await load(server, lines, rate, seconds)
            p50, p95, p99 = percentiles(result.seconds)
            refusals = percentiles(result.refusals)[1]
            print(
                f"{server.name} | {factor} x {capacities[server.name]:.0f} | {rate:.0f} | "
                f"{len(result.seconds) / seconds:.0f} | {len(result.refusals)} {dict(result.statuses)} | "
                f"{1e3 * p50:.0f} | {1e3 * p95:.0f} | {1e3 * p99:.0f} | {1e3 * refusals:.0f} | "
                f"{server.megabytes:.0f}",
                flush=True,
            )


async def mixed(server: Server, lines: list[str], seconds: float, expected: dict[str, str]) -> None:
    """Send all kinds of requests, and check the texts of the answers."""
    draw, counts, started = random.Random(1), Counter[str](), time.perf_counter()

    async def one(session: aiohttp.ClientSession, kind: str, text: str) -> None:
        body = {"q": text, "source": SOURCE, "target": TARGET}
        own = {"text": text, "source": SOURCE, "target": TARGET}
        try:
            if kind == "text":
                async with session.post(f"{server.url}/translate", json=body) as response:
                    right = (await response.json())["translatedText"] == expected[text]
            elif kind == "html":
                html = {**body, "q": f"<p>{text}</p><br><code>x</code>", "format": "html"}
                async with session.post(f"{server.url}/translate", json=html) as response:
                    answer = (await response.json())["translatedText"]
                    right = answer.startswith("<p>") and answer.endswith("</p><br><code>x</code>")
            elif kind == "stream":
                async with session.post(f"{server.url}/v1/translate", json={**own, "stream": True}) as response:
                    right = "event: done" in await response.text()
            elif kind == "file":
                form = aiohttp.FormData({"source": SOURCE, "target": TARGET})
                form.add_field("file", f"{text}\n".encode(), filename="a.txt")
                async with session.post(f"{server.url}/translate_file", data=form) as response:
                    link = (await response.json())["translatedFileUrl"]
                async with session.get(link) as response:
                    right = await response.text() == f"{expected[text]}\n"
            elif kind == "attention":
                given = {**own, "translation": expected[text] or "a"}
                async with session.post(f"{server.url}/v1/attention", json=given) as response:
                    right = "weights" in await response.json()
            elif kind == "score":
                given = {**own, "translation": expected[text]}
                async with session.post(f"{server.url}/v1/score", json=given) as response:
                    right = "log_probabilities" in await response.json()
            else:
                async with session.post(f"{server.url}/translate", data=b"\xff{" * 1000) as response:
                    right = response.status == 400
            counts[f"{kind} {'right' if right else 'WRONG'}"] += 1
        except (aiohttp.ClientError, KeyError, ValueError) as error:
            counts[f"{kind} {type(error).__name__}"] += 1

    kinds = ["text"] * 12 + ["html", "stream", "file", "attention", "score", "invalid"]
    async with _session() as session:
        due, minute, tasks = started, 0, set[asyncio.Task[None]]()
        while due < started + seconds:
            due += draw.expovariate(MIXED_RATE)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.create_task(one(session, draw.choice(kinds), draw.choice(lines)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            if draw.random() < LEAVING:
                asyncio.get_running_loop().call_later(draw.random() / 50, task.cancel)
            if (time.perf_counter() - started) // 60 > minute:
                minute += 1
                print(f"minute {minute}: {server.megabytes:.0f} MB, {dict(counts)}", flush=True)
        await asyncio.gather(*tasks, return_exceptions=True)
    print(f"{server.megabytes:.0f} MB at the end, {dict(counts)}")


def _session() -> aiohttp.ClientSession:
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=300)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


def _server(argument: str) -> Server:
    name, url, pid = argument.split("=")
    return Server(name, url, int(pid))


def main() -> None:
    toy = "--toy" in sys.argv
    match [argument for argument in sys.argv[1:] if argument != "--toy"]:
        case ["compare", file, *servers] if servers:
            asyncio.run(compare([_server(argument) for argument in servers], _lines(file), toy=toy))
        case ["mixed", file, server, seconds, translations]:
            expected = dict(zip(_lines(file), _lines(translations), strict=True))
            asyncio.run(mixed(_server(server), _lines(file), float(seconds), expected))
        case _:
            sys.exit(__doc__)


def _lines(file: str) -> list[str]:
    return Path(file).read_text("utf-8").splitlines()


if __name__ == "__main__":
    main()
