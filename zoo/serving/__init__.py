"""Translation server: a pool of models behind zoo's own HTTP API and the APIs of LibreTranslate, DeepL and OpenAI.

The limits are in this module, because `zoo serve --help` shows them even if the packages for the server are missing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits for requests and the queue. A request that exceeds a limit is rejected immediately.

    Attributes:
        body_bytes: Maximum size of a request's body in bytes.
        document_bytes: Maximum size of a request with a document, in bytes.
        audio_seconds: Maximum length of an audio file, in seconds.
        held_bytes: Maximum total size of the bodies of all open requests, in bytes.
        text_characters: Maximum length of a text, in characters.
        texts: Maximum number of texts in a request.
        beam: Maximum beam size, and maximum number of translations per text.
        queued_texts: Maximum number of texts that are waiting or being translated, across all requests.
        queued_characters: Maximum total number of characters in the queued texts.
        wait_seconds: Maximum time until the translation of a request begins, in seconds. A request that would probably
            wait longer is rejected with status 429.
        requests: Maximum number of requests that are open at the same time.
        request_seconds: Maximum time to answer a request, in seconds.
        body_seconds: Maximum time for a client to send the body of a request, in seconds.
    """

    body_bytes: int = 1_000_000
    document_bytes: int = 20_000_000
    audio_seconds: float = 600.0
    held_bytes: int = 200_000_000
    text_characters: int = 20_000
    texts: int = 100
    beam: int = 16
    queued_texts: int = 2_000
    queued_characters: int = 1_000_000
    wait_seconds: float = 0.5
    requests: int = 500
    request_seconds: float = 120.0
    body_seconds: float = 20.0
