"""One file over HTTP, with everything that can go wrong."""

import errno
import http.client
import random
import ssl

import pytest

from specs import ZooError
from zoo.files.transfer import Forbidden, NotThere, discard, transfer
from zoo.report import Report

CONTENT = random.Random(1).randbytes(20_000)
OTHER = random.Random(2).randbytes(20_000)


@pytest.fixture
def partial(tmp_path):
    return tmp_path / "file.tgz.partial"


def fetched(site, partial, report=None):
    transfer(f"{site.address}/a/file.tgz", partial, report or Report())
    return partial.read_bytes()


def ranges(site):
    return [headers.get("Range") for _, headers in site.asked]


def test_a_file_comes_in_one_piece(site, partial):
    site.content = CONTENT
    assert fetched(site, partial) == CONTENT
    assert [path for path, _ in site.asked] == ["/a/file.tgz"]
    assert ranges(site) == [None]


def test_it_goes_on_where_the_connection_broke(site, partial, report):
    site.content, site.breaks = CONTENT, [7_000, 1, 0, 5_000, 6_000]
    assert fetched(site, partial, report) == CONTENT
    begun = [7_000, 7_001, 7_001, 12_001, 18_001]
    assert ranges(site) == [None, *(f"bytes={start}-" for start in begun)]
    assert site.asked[1][1]["If-Range"] == '"one"'
    assert len(report.warnings) == 5
    assert "broke off after 7.0 kB of 20 kB; trying again in 1 s" in report.warnings[0]


def test_another_process_goes_on_too(site, partial):
    site.content, site.breaks = CONTENT, [9_000]
    site.statuses = [200, *[503] * 10]
    with pytest.raises(ZooError, match="503"):
        fetched(site, partial)
    assert partial.read_bytes() == CONTENT[:9_000]
    site.statuses = []
    assert fetched(site, partial) == CONTENT
    assert ranges(site)[-1] == "bytes=9000-"


def test_what_came_whole_is_not_fetched_again(site, partial):
    site.content = CONTENT
    fetched(site, partial)
    assert fetched(site, partial) == CONTENT
    assert ranges(site) == [None, "bytes=20000-"]


def test_a_server_without_ranges_starts_over(site, partial):
    site.content, site.ranges, site.breaks = CONTENT, False, [7_000, 3_000, 15_000]
    assert fetched(site, partial) == CONTENT


def test_without_a_tag_the_date_is_the_condition(site, partial):
    site.content, site.tag, site.date = CONTENT, None, "Mon, 01 Jan 2024 00:00:00 GMT"
    site.breaks = [5_000]
    assert fetched(site, partial) == CONTENT
    assert site.asked[1][1]["If-Range"] == site.date


def test_a_weak_tag_is_no_condition(site, partial):
    site.content, site.tag, site.breaks = CONTENT, 'W/"one"', [5_000]
    assert fetched(site, partial) == CONTENT
    assert "If-Range" not in site.asked[1][1]


def change(site, **to):
    def now():
        for name, value in to.items():
            setattr(site, name, value)

    return now


def test_two_versions_are_never_mixed(site, partial):
    site.content, site.breaks = CONTENT, [7_000]
    site.after = [change(site, content=OTHER, tag='"two"')]
    assert fetched(site, partial) == OTHER


def test_nor_are_they_where_the_server_does_not_know_the_condition(site, partial, report):
    site.content, site.breaks, site.heedless = CONTENT, [7_000], True
    site.after = [change(site, content=OTHER, tag='"two"')]
    assert fetched(site, partial, report) == OTHER
    assert "has changed" in report.warnings[1]


def test_a_version_of_another_size_is_not_mixed_in_either(site, partial):
    site.content, site.tag, site.breaks = CONTENT, None, [7_000]
    site.after = [change(site, content=OTHER + b"more")]
    assert fetched(site, partial) == OTHER + b"more"


def test_a_shorter_version_is_fetched_anew(site, partial):
    site.content, site.tag, site.breaks = CONTENT, None, [7_000]
    site.after = [change(site, content=OTHER[:500])]
    assert fetched(site, partial) == OTHER[:500]


def test_a_length_that_is_a_lie_is_told(site, partial):
    site.content, site.longer = CONTENT, 1_000
    with pytest.raises(ZooError, match="could not be fetched") as told:
        fetched(site, partial)
    assert told.value.exit_code == 1
    assert len(site.asked) < 20


def test_without_a_length_the_end_is_the_end(site, partial):
    site.content, site.length = CONTENT, False
    assert fetched(site, partial) == CONTENT


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_server_is_asked_again(site, partial, status):
    site.content, site.statuses = CONTENT, [status, status]
    assert fetched(site, partial) == CONTENT
    assert len(site.asked) == 3


def test_waits_grow_and_the_server_may_name_them(site, partial, monkeypatch):
    waits = []
    monkeypatch.setattr("zoo.files.transfer.time.sleep", waits.append)
    site.statuses = [503] * 10
    with pytest.raises(ZooError):
        fetched(site, partial)
    assert waits == [1, 2, 4, 8]
    waits.clear()
    site.statuses, site.headers, site.content = [503, 503], {"Retry-After": "7"}, CONTENT
    fetched(site, partial)
    assert waits == [7, 7]
    discard(partial)
    site.statuses, site.headers = [503], {"Retry-After": "86400"}
    fetched(site, partial)
    assert waits[-1] == 60


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_told_at_once(site, partial, status):
    site.statuses = [status]
    with pytest.raises(ZooError, match=rf"/a/file.tgz` cannot be fetched: the server answers {status}") as told:
        fetched(site, partial)
    assert told.value.exit_code == 1
    assert len(site.asked) == 1
    assert not partial.exists()


def test_no_server_is_told(site, partial):
    address = site.address.rpartition(":")[0] + ":9/x"
    with pytest.raises(ZooError, match=r"could not be fetched: .*refused"):
        transfer(address, partial, Report())


def test_a_full_disk_is_told_before(site, partial, monkeypatch):
    site.content = CONTENT
    monkeypatch.setattr("zoo.files.files.shutil.disk_usage", lambda path: type("Usage", (), {"free": 100}))
    with pytest.raises(ZooError, match=r"`file\.tgz` needs 20 kB"):
        fetched(site, partial)


def test_progress_begins_where_the_file_does(site, partial):
    class Counting(Report):
        def __init__(self):
            self.seen = []

        def progress(self, label, total, unit):
            self.seen.append([label, total, unit])
            return self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def advance(self, n=1, **_):
            self.seen[-1].append(n)

    site.content, site.breaks = CONTENT, [7_000]
    counting = Counting()
    fetched(site, partial, counting)
    assert [each[:3] for each in counting.seen] == [["fetching file.tgz", 20_000, "bytes"]] * 2
    assert [sum(each[3:]) for each in counting.seen] == [7_000, 20_000]
    assert counting.seen[1][3] == 7_000


@pytest.mark.parametrize("length", [True, False])
def test_what_has_more_than_it_may_is_refused(site, partial, length):
    site.content, site.length = CONTENT, length
    transfer(f"{site.address}/file", partial, Report(), len(CONTENT))
    discard(partial)
    with pytest.raises(ZooError, match="has more than the 20 kB that it may have"):
        transfer(f"{site.address}/file", partial, Report(), len(CONTENT) - 1)
    assert not partial.exists()


def test_a_body_without_end_is_not_read_to_its_end(site, partial):
    site.content, site.length = CONTENT * 1000, False
    with pytest.raises(ZooError, match="has more than"):
        transfer(f"{site.address}/file", partial, Report(), 1000)


@pytest.mark.parametrize(("status", "kind"), [(404, NotThere), (410, NotThere), (403, Forbidden), (401, ZooError)])
def test_what_is_not_there_is_told_from_what_is_refused(site, partial, status, kind):
    site.statuses = [status]
    with pytest.raises(ZooError) as told:
        transfer(f"{site.address}/file", partial, Report())
    assert type(told.value) is kind


def test_so_many_tries_and_no_more(site, partial):
    site.statuses = [503] * 9
    with pytest.raises(ZooError, match="503"):
        transfer(f"{site.address}/file", partial, Report(), tries=2)
    assert len(site.asked) == 2


@pytest.mark.parametrize("error", [ssl.SSLError(1, "bad record mac"), OSError(errno.EHOSTUNREACH, "No route to host")])
def test_whatever_breaks_on_the_way_is_tried_again(site, partial, report, monkeypatch, error):
    site.content, failing = CONTENT, iter([error])

    def read(response, count):
        if broken := next(failing, None):
            raise broken
        return received(response, count)

    received = http.client.HTTPResponse.read
    monkeypatch.setattr(http.client.HTTPResponse, "read", read)
    assert fetched(site, partial, report) == CONTENT
    assert "the connection broke off: " in report.warnings[0]
