"""Tricks of a web server: bodies without end, headers that lie, ways to somewhere else."""

from __future__ import annotations

import json
from random import Random

from hostile.server import Answer, Trick
from hostile.trial import Trial
from hostile.world import GOOD

_REVISION = f"models/{GOOD}/2.json"
_MUCH = b"x" * (1 << 20)


def plain(path: str, answer: Answer) -> Answer:
    """None."""
    return answer


def drawn(draw: Random, trial: Trial) -> tuple[Trick, bool]:
    """One, and whether a pull of GOOD must be refused with it."""
    where = draw.choice(("models/", _REVISION, "blobs/", "index.json", "forward.json"))
    made, refused = draw.choice((_endless, _status, _lengths, _ranges, _elsewhere, _numbered, _other))(draw, where)
    trial.tell(f"a server: {where}, {made.__qualname__}")
    return made, refused and where in ("models/", "blobs/")


def _endless(draw: Random, where: str) -> tuple[Trick, bool]:
    said = draw.choice(({}, {"Content-Length": str(10**12)}, {"Content-Length": "5"}))

    def trick(path: str, answer: Answer) -> Answer:
        return (200, said, _MUCH, True) if where in path else answer

    return trick, True


def _status(draw: Random, where: str) -> tuple[Trick, bool]:
    status = draw.choice((100, 201, 204, 206, 300, 304, 400, 401, 403, 416, 418, 429, 500, 503, 599, 999))
    waits = draw.choice(("0", "5", "99999999999", "-1", "²", "9" * 5000, "Wed, 21 Oct 2065 07:28:00 GMT"))

    def trick(path: str, answer: Answer) -> Answer:
        return (status, {"Content-Length": "2", "Retry-After": waits}, b"{}", False) if where in path else answer

    return trick, True


def _lengths(draw: Random, where: str) -> tuple[Trick, bool]:
    """What is announced is not what comes."""
    length = draw.choice(("0", "1", "-5", "²", "1e3", "9" * 5000, "99999999999999", "", "5, 5", "\xb2\xb3"))
    tag = draw.choice(("x", '"x"', 'W/"x"', "x" * 5000))

    def trick(path: str, answer: Answer) -> Answer:
        return (answer[0], {"Content-Length": length, "ETag": tag}, answer[2], False) if where in path else answer

    return trick, False


def _ranges(draw: Random, where: str) -> tuple[Trick, bool]:
    """Parts that nobody has asked for."""
    of = draw.choice(
        ("bytes 0-1/2", "bytes 5-9/10", "bytes x", f"bytes {'9' * 5000}-9/*", "bytes 0-0/" + "9" * 5000, "")
    )

    def trick(path: str, answer: Answer) -> Answer:
        return (206, {"Content-Range": of}, answer[2][:10], False) if where in path else answer

    return trick, False


def _elsewhere(draw: Random, where: str) -> tuple[Trick, bool]:
    """To files, to nowhere, in a circle."""
    to = draw.choice(
        (
            *(
                "file:///etc/passwd",
                "file:secret",
                "/dev/zero",
                "../../secret",
                "http://[::1",
                "http://",
                "http://x:y/",
            ),
            *(
                "data:text/plain,x",
                "ftp://127.0.0.1:1/x",
                "javascript:x",
                "\xff\xfe",
                "http://127.0.0.1:1/x",
                "x" * 60_000,
            ),
            *("http://127.0.0.1:99999/", "http://\x01/", "gopher://x", f"/{where}"),
        )
    )

    def trick(path: str, answer: Answer) -> Answer:
        return (302, {"Location": to, "Content-Length": "0"}, b"", False) if where in path else answer

    return trick, True


def _numbered(draw: Random, where: str) -> tuple[Trick, bool]:
    """A server that has every revision that it is asked for."""
    most = draw.choice((10**4, 10**9, 10**30))

    def trick(path: str, answer: Answer) -> Answer:
        number = path.removeprefix(f"models/{GOOD}/").removesuffix(".json")
        if not number.isdecimal() or int(number) > most:
            return answer
        digest = "0" * 64
        files = {name: {"sha256": digest, "bytes": 5} for name in ("manifest.json", "spec.yaml")}
        words = dict.fromkeys(("task", "source", "target", "metric", "description", "published", "zoo"), "x")
        summary = {**words, "parameters": 1, "dev": None, "test": None}
        made = {
            "format": 1,
            "name": GOOD,
            "revision": int(number),
            "digest": digest,
            "files": files,
            "summary": summary,
        }
        body = json.dumps(made).encode()
        return 200, {"Content-Length": str(len(body))}, body, False

    return trick, True


def _other(draw: Random, where: str) -> tuple[Trick, bool]:
    """A page in place of what was asked for, as of who wants a password."""
    body = draw.choice((b"<html>" + _MUCH, b"", b"\x1f\x8b" + bytes(100), b"[" * 500_000, b"{}"))
    headers = {
        "Content-Length": str(len(body)),
        "Content-Encoding": draw.choice(("gzip", "br", "identity", "x" * 1000)),
    }

    def trick(path: str, answer: Answer) -> Answer:
        return (200, headers, body, False) if where in path else answer

    return trick, True
