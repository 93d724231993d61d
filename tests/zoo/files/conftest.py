"""A web server with faults."""

import http.server
import threading
from dataclasses import dataclass, field

import pytest


@dataclass
class Site:
    """What the server does; every answer takes the next fault of each list, as long as there are any."""

    content: bytes = b""
    tag: str | None = '"one"'
    date: str | None = None
    ranges: bool = True
    heedless: bool = False
    """Whether it sends the rest of a file that is another by now."""
    length: bool = True
    statuses: list[int] = field(default_factory=list)
    """Answered in place of the file."""
    headers: dict[str, str] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    """Bytes of the body after which the connection ends."""
    longer: int = 0
    """Bytes that are announced and never come."""
    after: list[object] = field(default_factory=list)
    """Called after an answer."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    address: str = ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        site = self.server.site
        site.asked.append((self.path, dict(self.headers)))
        self.close_connection = True
        if site.statuses and (status := site.statuses.pop(0)) != 200:
            self.send_response(status)
            for name, value in site.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.answer(site)
        if site.after:
            site.after.pop(0)()

    def answer(self, site):
        start, whole = self.start(site), len(site.content)
        if start is not None and start >= whole:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{whole}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = site.content[start or 0 :]
        self.send_response(200 if start is None else 206)
        if start is not None:
            self.send_header("Content-Range", f"bytes {start}-{whole - 1}/{whole + site.longer}")
        for name, value in (("ETag", site.tag), ("Last-Modified", site.date)):
            if value:
                self.send_header(name, value)
        if site.length:
            self.send_header("Content-Length", str(len(body) + site.longer))
        self.end_headers()
        self.wfile.write(body[: site.breaks.pop(0)] if site.breaks else body)

    def start(self, site):
        """The first byte asked for, or None for the whole file."""
        asked, unchanged = self.headers["Range"], self.headers["If-Range"]
        changed = unchanged and unchanged not in (site.tag, site.date) and not site.heedless
        if not site.ranges or not asked or changed:
            return None
        return int(asked.removeprefix("bytes=").rstrip("-"))


@pytest.fixture
def site(monkeypatch):
    """A server on this machine, reached without waiting; nothing is in it yet."""
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    monkeypatch.setattr("zoo.files.transfer.time.sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "*")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.site = Site(address=f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.site
    server.shutdown()
    thread.join()
    server.server_close()
