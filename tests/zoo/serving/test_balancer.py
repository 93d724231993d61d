"""Several servers behind the shipped configurations of nginx: every document can be downloaded from its address."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import yaml

from tests.conftest import missing
from tests.zoo.serving.conftest import PAIR, check_refused
from tests.zoo.serving.test_deepl import ask
from tests.zoo.serving.test_deepl import upload as upload_to_deepl
from tests.zoo.serving.test_documents import TEXT, upload
from tests.zoo.serving.test_limits import wait_until
from zoo.serving import Limits, deepl, libretranslate, native
from zoo.serving.documents import Documents

DOCS = Path(__file__).parents[3] / "docs" / "how-to"
DOCUMENTS = 12
PUBLIC = "http://translate.example.org:8080"
DOCUMENT_PATHS = ("/download_file/{secret}", "/v2/document/{document_id}", "/v2/document/{document_id}/result")


def shipped(page: str, title: str) -> str:
    """Return the code block with a title on a page."""
    text = (DOCS / page).read_text("utf-8")
    (block,) = re.findall(rf'^```\w+ title="{title}"\n(.*?)^```', text, re.DOTALL | re.MULTILINE)
    return block


def balancer() -> str:
    """Return the shipped configuration of the balancer, as Compose gives it to nginx."""
    configs = yaml.safe_load(shipped("several-machines.md", "compose.yaml"))["configs"]
    return configs["balancer"]["content"].replace("$$", "$")


@pytest.fixture
def nginx(url_of, tmp_path) -> Iterator[httpx2.Client]:
    """A client of nginx with the shipped configuration, in front of three servers."""
    program = shutil.which("nginx")
    if program is None:
        pytest.skip("nginx is not installed")
    servers = "".join(f"server {url_of().removeprefix('http://')};\n" for _ in range(3))
    text = balancer().replace("server zoo:5000 resolve;", servers).replace("listen 80;", "listen unix:socket;")
    text = re.sub(r"resolver .*;", "", text)
    folders = "".join(f"{each}_temp_path {each};\n" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    text = f"daemon off; master_process off; pid pid;\nevents {{}}\nhttp {{ access_log off;\n{folders}{text} }}\n"
    (tmp_path / "nginx.conf").write_text(text, encoding="utf-8")
    command = [program, "-p", str(tmp_path), "-c", "nginx.conf", "-e", "stderr"]
    with subprocess.Popen(command, cwd=tmp_path) as process:
        wait_until(lambda: (tmp_path / "socket").exists() or process.poll() is not None)
        assert process.poll() is None
        transport = httpx2.HTTPTransport(uds=str(tmp_path / "socket"))
        with httpx2.Client(transport=transport, base_url=PUBLIC, timeout=120) as client:
            yield client
        process.terminate()


def download(client: httpx2.Client, name: str) -> bytes:
    """Translate a document with the API of LibreTranslate, and download it."""
    url = upload(client, name).json()["translatedFileUrl"]
    assert url.startswith(f"{PUBLIC}/download_file/")
    answer = client.get(url)
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.integration
def test_every_document_can_be_downloaded_through_nginx_and_bodies_have_the_limit_of_the_server(nginx):
    assert len({download(nginx, f"{number}.txt") for number in range(DOCUMENTS)}) == 1
    handles = [upload_to_deepl(nginx, TEXT, f"{number}.txt").json() for number in range(DOCUMENTS)]
    for handle in handles:
        wait_until(lambda handle=handle: ask(nginx, handle).json()["status"] == "done")
        assert ask(nginx, handle, "/result").status_code == 200
    for path in ("/download_file/missing", "//download_file/missing"):
        check_refused(nginx.get(path), 404)
    rest = len(nginx.build_request("POST", "/translate_file", files={"file": ("a.pdf", b"")}, data=PAIR).read())
    for size, status in ((Limits().document_bytes, 400), (Limits().document_bytes + 1, 413)):
        answer = upload(nginx, "a.pdf", b"x" * (size - rest))
        assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    assert answer.json() == dict.fromkeys(("error", "message"), "the body is larger than 20 MB")
    assert nginx.get("/metrics").status_code == 403
    nginx.headers["X-Forwarded-Proto"] = "https"  # from a proxy before nginx
    assert upload(nginx).json()["translatedFileUrl"].startswith(PUBLIC.replace("http:", "https:"))


def test_the_balancer_asks_the_next_server_for_documents_only(service_of):
    location = re.search(r"location ~ (\S+) \{(.*?)\}", balancer(), re.S)
    assert "proxy_next_upstream error timeout http_404 non_idempotent;" in location[2]
    service = service_of()
    documents = Documents(service)
    routers = [module.router(service, documents) for module in (native, libretranslate, deepl)]
    paths = {route.path for router in routers for route in router.routes}
    assert {path for path in paths if re.match(location[1], path)} == set(DOCUMENT_PATHS)
    documents.close()


@pytest.mark.parametrize("name", ["balancer", "single"])
def test_shipped_configurations_pass_on_the_address_and_have_the_limits_of_the_server(name):
    text = balancer() if name == "balancer" else shipped("serve.md", "zoo.conf")
    assert re.findall(r"client_max_body_size (\S+);", text) == [f"{Limits().document_bytes}"]
    (seconds,) = re.findall(r"proxy_read_timeout (\d+)s;", text)
    assert int(seconds) > Limits().request_seconds
    assert re.search(r"proxy_set_header X-Forwarded-Proto \$(client_)?scheme;", text)
    lines = ("proxy_set_header Host $http_host;", "proxy_buffering off;", "location /metrics { deny all; }")
    assert missing(text, *lines) == []
    assert "error_page 413 @too_large;" in text


@pytest.mark.parametrize(("trusted", "scheme"), [(None, "https"), ("192.0.2.1", "http"), ("127.0.0.0/8", "https")])
def test_the_scheme_of_a_link_comes_from_trusted_proxies_only(url_of, monkeypatch, trusted, scheme):
    monkeypatch.delenv("FORWARDED_ALLOW_IPS", raising=False)
    if trusted is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", trusted)
    headers = {"Host": "translate.example.org", "X-Forwarded-Proto": "https"}
    with httpx2.Client(base_url=url_of(), headers=headers, timeout=120) as client:
        assert upload(client).json()["translatedFileUrl"].startswith(f"{scheme}://translate.example.org/download_file/")
