"""HTTP downloads are resumed, never mix two versions of a file, and fail with clear errors."""

import errno
import http.client
import itertools
import random
import socketserver
import ssl
from threading import Thread
from types import SimpleNamespace

import pytest

from specs import ZooError
from tests.refusals import refused
from zoo.files import transfer as transfer_module
from zoo.files.transfer import ForbiddenError, NotFoundError, discard, transfer
from zoo.report import Report

CONTENT = random.Random(1).randbytes(20_000)
OTHER = random.Random(2).randbytes(20_000)


@pytest.fixture
def partial(tmp_path):
    return tmp_path / "file.tgz.partial"


def fetch(web, partial, report=None):
    transfer(f"{web.address}/a/file.tgz", partial, report or Report())
    return partial.read_bytes()


def test_a_download_is_resumed_where_the_connection_broke(web, partial, report):
    web.content, web.breaks = CONTENT, [7_000, 1, 0, 5_000, 6_000]
    assert fetch(web, partial, report) == CONTENT
    resumed = [f"bytes={start}-" for start in (7_000, 7_001, 7_001, 12_001, 18_001)]
    assert web.asked == [("/a/file.tgz", wanted) for wanted in (None, *resumed)]
    assert web.requests[1]["If-Range"] == '"one"'
    assert len(report.warnings) == 5
    assert "lost after 7.0 kB of 20 kB; trying again in 1 s" in report.warnings[0]


def test_the_next_call_resumes_and_a_complete_file_is_not_downloaded_again(web, partial):
    web.content, web.breaks, web.statuses = CONTENT, [9_000], [200, *[503] * 10]
    refused("503", fetch, web, partial)
    assert partial.read_bytes() == CONTENT[:9_000]
    web.statuses = []
    for start in (9_000, 20_000):
        assert fetch(web, partial) == CONTENT
        assert web.asked[-1] == ("/a/file.tgz", f"bytes={start}-")


def test_servers_with_fewer_features_are_supported(web, partial):
    web.content, web.ranges, web.breaks = CONTENT, False, [7_000, 3_000, 15_000]
    assert fetch(web, partial) == CONTENT
    discard(partial)
    web.length = False
    assert fetch(web, partial) == CONTENT


DATE = "Mon, 01 Jan 2024 00:00:00 GMT"


@pytest.mark.parametrize(("tag", "date", "condition"), [(None, DATE, DATE), ('W/"one"', None, None)])
def test_the_condition_is_a_date_without_a_tag_and_never_a_weak_tag(web, partial, tag, date, condition):
    web.content, web.tag, web.date, web.breaks = CONTENT, tag, date, [5_000]
    assert fetch(web, partial) == CONTENT
    assert web.requests[1].get("If-Range") == condition


TAGGED = {"content": OTHER, "tag": '"two"'}
VERSIONS = [({}, TAGGED), ({"ignores_if_range": True}, TAGGED)]
VERSIONS += [({"tag": None}, {"content": content}) for content in (OTHER + b"more", OTHER[:500])]


@pytest.mark.parametrize(("before", "changed"), VERSIONS)
def test_two_versions_are_never_mixed(web, partial, before, changed):
    vars(web).update(before, content=CONTENT, breaks=[7_000], after=[lambda: vars(web).update(changed)])
    assert fetch(web, partial) == changed["content"]


def test_a_wrong_length_is_an_error(web, partial):
    web.content, web.longer = CONTENT, 1_000
    assert refused("could not be downloaded", fetch, web, partial).exit_code == 1
    assert len(web.requests) < 20


def test_a_busy_server_is_asked_again_after_growing_waits(web, partial, monkeypatch):
    waits = []
    monkeypatch.setattr("zoo.files.transfer.time.sleep", waits.append)
    web.content, web.statuses = CONTENT, [408, 429, 500, 502]
    assert fetch(web, partial) == CONTENT
    assert waits == [1, 2, 4, 8]
    discard(partial)
    web.statuses = [503] * 10
    refused("503", fetch, web, partial)
    assert waits[4:] == [1, 2, 4, 8]
    for announced, expected in (("7", [7, 7]), ("86400", [60, 60])):
        waits.clear()
        web.statuses, web.headers = [503, 504], {"Retry-After": announced}
        fetch(web, partial)
        assert waits == expected
        discard(partial)


def test_a_server_that_always_sends_a_little_is_not_asked_for_ever(web, partial):
    web.content, web.breaks = bytes(100_000), [1] * 1_000
    refused("the connection was lost", fetch, web, partial)
    assert len(web.requests) == 50
    assert partial.stat().st_size == 50, "what has arrived is kept"


def test_a_connection_that_is_too_slow_counts_as_broken(web, partial, monkeypatch):
    web.content, clock = bytes(100_000), itertools.count(step=20)
    monkeypatch.setattr(transfer_module, "time", SimpleNamespace(sleep=lambda _: None, monotonic=lambda: next(clock)))
    monkeypatch.setattr(http.client.HTTPResponse, "read1", lambda response, count: response.read(100))
    refused("sends less than 16 kB in 30 s", fetch, web, partial)


@pytest.mark.parametrize("size", ["-5", "x", "", "9" * 30])
def test_chunks_of_impossible_sizes_are_an_error(partial, size):
    answer = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nhello\r\n0\r\n\r\n".encode()

    class Chunked(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.recv(10_000)
            self.request.sendall(answer)

    with socketserver.TCPServer(("127.0.0.1", 0), Chunked) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/a"
        refused("could not be downloaded: ", transfer, address, partial, Report(), max_bytes=1_000, max_failures=2)
        server.shutdown()


KINDS = {404: NotFoundError, 410: NotFoundError, 403: ForbiddenError, 401: ZooError}


@pytest.mark.parametrize(("status", "kind"), KINDS.items())
def test_a_refusal_is_an_error_at_once(web, partial, status, kind):
    web.statuses = [status]
    error = refused(rf"/a/file.tgz` cannot be downloaded: the server returned {status}", fetch, web, partial)
    assert (type(error), error.exit_code, len(web.requests)) == (kind, 1, 1)
    assert not partial.exists()


def test_no_server_and_a_full_disk_are_errors(web, partial, monkeypatch):
    address = web.address.rpartition(":")[0] + ":9/x"
    refused("could not be downloaded: .*refused", transfer, address, partial, Report())
    web.content = CONTENT
    monkeypatch.setattr("zoo.files.storage.shutil.disk_usage", lambda path: SimpleNamespace(free=100))
    refused(r"`file\.tgz` needs 20 kB", fetch, web, partial)


def test_progress_starts_at_the_resumed_byte(web, partial, report):
    web.content, web.breaks = CONTENT, [7_000]
    fetch(web, partial, report)
    assert [call[:3] for call in report.progresses] == [["downloading file.tgz", 20_000, "bytes"]] * 2
    assert [sum(call[3:]) for call in report.progresses] == [7_000, 20_000]
    assert report.progresses[1][3] == 7_000


@pytest.mark.parametrize("length", [True, False])
def test_a_file_above_the_limit_is_refused_without_reading_all_of_it(web, partial, length):
    web.content, web.length = CONTENT, length
    transfer(f"{web.address}/file", partial, Report(), len(CONTENT))
    discard(partial)
    web.content = CONTENT * 100
    refused("is larger than the limit of 20 kB", transfer, f"{web.address}/file", partial, Report(), len(CONTENT) - 1)
    assert not partial.exists()


@pytest.mark.parametrize("error", [ssl.SSLError(1, "bad record mac"), OSError(errno.EHOSTUNREACH, "No route to host")])
def test_an_error_of_the_network_is_not_one_of_the_disk(web, partial, report, monkeypatch, error):
    web.content, read = CONTENT, http.client.HTTPResponse.read1

    def fail_once(response, count):
        monkeypatch.setattr(http.client.HTTPResponse, "read1", read)
        raise error

    monkeypatch.setattr(http.client.HTTPResponse, "read1", fail_once)
    assert fetch(web, partial, report) == CONTENT
    assert "the connection was lost: " in report.warnings[0]
