"""A web server that can fail in many ways."""

import http.server
import threading
from dataclasses import dataclass, field

import pytest


@dataclass
class Site:
    """Behaviour of the server. Each answer takes the next item of each list, if there is one."""

    content: bytes = b""
    tag: str | None = '"one"'
    date: str | None = None
    ranges: bool = True
    ignores_if_range: bool = False
    """Whether it sends the rest of a file that has changed."""
    length: bool = True
    statuses: list[int] = field(default_factory=list)
    """Status codes to answer instead of the file."""
    headers: dict[str, str] = field(default_factory=dict)
    breaks: list[int] = field(default_factory=list)
    """Numbers of bytes of the body after which the connection ends."""
    longer: int = 0
    """Number of bytes that are announced but not sent."""
    after: list[object] = field(default_factory=list)
    """Functions to call after an answer."""
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    address: str = ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        site = self.server.site
        site.requests.append((self.path, dict(self.headers)))
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
        """Return the first requested byte. None for the whole file."""
        requested, unchanged = self.headers["Range"], self.headers["If-Range"]
        changed = unchanged and unchanged not in (site.tag, site.date) and not site.ignores_if_range
        if not site.ranges or not requested or changed:
            return None
        return int(requested.removeprefix("bytes=").rstrip("-"))


@pytest.fixture
def site(monkeypatch):
    """An empty server on this machine, and a client that does not wait between attempts."""
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
