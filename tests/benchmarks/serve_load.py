"""Run load tests of translation servers that have LibreTranslate's API, with an open-loop load generator.

    python -m tests.benchmarks.serve_load LINES NAME=URL=PID NAME=URL=PID

The script first measures the capacity of each server in requests per second. It then sends requests to one server after
the other for a minute each, at 0.5, 0.9 and 2 times the server's capacity. The requests are sent at random times (a
Poisson process), without waiting for earlier answers. LINES is a file with one sentence per line. PID is the process ID
of the server, whose memory is measured. With `--toy`, the script sends requests for less than a second, to test itself.
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
PAGE_BYTES = 4096


@dataclass
class Server:
    """Server to measure: its name, URL and process ID."""

    name: str
    url: str
    pid: str

    @property
    def megabytes(self) -> float:
        """Resident memory of the server process in megabytes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * PAGE_BYTES / 1e6


@dataclass
class Result:
    """Times in seconds and HTTP statuses of the requests that were sent to a server."""

    seconds: list[float] = field(default_factory=list)
    """Time of each accepted request."""
    refusals: list[float] = field(default_factory=list)
    """Time of each refused request."""
    statuses: Counter[str] = field(default_factory=Counter)


async def send(session: aiohttp.ClientSession, server: Server, text: str, result: Result) -> None:
    """Send one sentence to the server, and add the response time and the HTTP status to `result`."""
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
    """Return how many requests per second the server answers if requests are always waiting."""
    result, end = Result(), time.perf_counter() + seconds
    async with _session() as session:

        async def client(seed: int) -> None:
            draw = random.Random(seed)
            while time.perf_counter() < end:
                await send(session, server, draw.choice(lines), result)

        await asyncio.gather(*map(client, range(CONNECTIONS)))
    return len(result.seconds) / seconds


async def load(server: Server, lines: list[str], rate: float, seconds: float) -> Result:
    """Send requests at random times for `seconds` seconds, `rate` per second on average. Return the result."""
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
    """Return the 50th, 95th and 99th percentiles of response times, or zeros if there are fewer than two values."""
    cuts = quantiles(seconds, n=100) if len(seconds) > 1 else [0.0] * 99
    return cuts[49], cuts[94], cuts[98]


async def compare(servers: list[Server], lines: list[str], *, toy: bool = False) -> None:
    """Measure the servers at different loads. Print a table with one row per load and server."""
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
            times = (*percentiles(result.seconds), percentiles(result.refusals)[1])
            row = [server.name, f"{factor} x {capacities[server.name]:.0f}", f"{rate:.0f}"]
            row += [f"{len(result.seconds) / seconds:.0f}", f"{len(result.refusals)} {dict(result.statuses)}"]
            row += [*(f"{1e3 * each:.0f}" for each in times), f"{server.megabytes:.0f}"]
            print(" | ".join(row), flush=True)


def _session() -> aiohttp.ClientSession:
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=300)
    return aiohttp.ClientSession(connector=connector, timeout=timeout)


def main() -> None:
    file, *servers = [argument for argument in sys.argv[1:] if argument != "--toy"] or [""]
    if not servers:
        sys.exit(__doc__)
    lines = Path(file).read_text("utf-8").splitlines()
    asyncio.run(compare([Server(*argument.split("=")) for argument in servers], lines, toy="--toy" in sys.argv))


if __name__ == "__main__":
    main()
