"""Clients that were written for other servers work unchanged, over a port of this machine."""

from __future__ import annotations

from urllib.error import HTTPError

import pytest

from tests.zoo.serving.conftest import TEXT, open_quietly
from zoo.serving.admission import hash_key

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def url(url_of, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return url_of(keys={hash_key("secret"): 1_000})


@pytest.fixture
def expected(url):
    return open_quietly().translate(TEXT)


def test_libretranslatepy(url, expected):
    client = pytest.importorskip("libretranslatepy").LibreTranslateAPI(url, "secret")
    assert client.languages() == [{"code": "en", "name": "English", "targets": ["de"]}]
    assert client.translate(TEXT, "en", "de") == expected
    assert client.detect(TEXT)[0]["language"] == "en"
    client.api_key = "wrong"
    with pytest.raises(HTTPError, match="403"):
        client.translate(TEXT, "en", "de")


def test_deep_translator(url, expected):
    library = pytest.importorskip("deep_translator")
    exceptions = pytest.importorskip("deep_translator.exceptions")

    def client(key: str, text: str) -> str:
        how = {"source": "en", "target": "de", "api_key": key, "custom_url": f"{url}/"}
        return library.LibreTranslator(**how).translate(text)

    assert client("secret", TEXT) == expected
    assert client("secret", "a\n" * 300).count("\n") == 300
    with pytest.raises(exceptions.AuthorizationException):
        client("wrong", TEXT)


def test_deepl(url, expected):
    library = pytest.importorskip("deepl")
    client = library.DeepLClient("secret", server_url=url)
    result = client.translate_text([TEXT, "we read"], source_lang="EN", target_lang="DE")
    assert (result[0].text, result[0].detected_source_lang, len(result)) == (expected, "EN", 2)
    assert client.translate_text(TEXT, target_lang="DE").text == expected
    assert [each.code for each in client.get_source_languages()] == ["EN"]
    assert [each.code for each in client.get_target_languages()] == ["DE"]
    assert client.get_usage().character.limit == 1_000
    with pytest.raises(library.QuotaExceededException):
        client.translate_text("x" * 1_000, source_lang="EN", target_lang="DE")
    marked = client.translate_text(f"<p>{TEXT}</p><x>", source_lang="EN", target_lang="DE", tag_handling="html")
    assert marked.text == f"<p>{expected}</p><x>"
    with pytest.raises(library.AuthorizationException):
        library.DeepLClient("wrong", server_url=url).get_usage()
