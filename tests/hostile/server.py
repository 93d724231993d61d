"""A web server of this process that serves a folder, and does not always mean well."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

Answer = tuple[int, dict[str, str], bytes, bool]
"""Status, headers, body, and whether the body has no end: it comes again and again."""
Trick = Callable[[str, Answer], Answer]
"""What is answered in place of the file at a path."""
_CHUNKS = 100_000


@contextmanager
def served(folder: Path, trick: Trick) -> Iterator[str]:
    """The folder's address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = unquote(self.path).lstrip("/")
            file = folder / path
            there = ".." not in path.split("/") and file.is_file()
            body = file.read_bytes() if there else b""
            status, headers, body, endless = trick(
                path, (200 if there else 404, {"Content-Length": str(len(body))}, body, False)
            )
            with suppress(OSError):  # who asked may have gone
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for _ in range(_CHUNKS if endless else 1):
                    self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Of a request that is none, nothing is said."""

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
