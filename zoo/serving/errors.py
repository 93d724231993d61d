"""Errors that a request can end with, and the responses for them."""

from __future__ import annotations

from fastapi.responses import JSONResponse

DEEPL_PATH = "/v2/"
"""Beginning of the paths of DeepL's API, whose errors have the key `message` instead of `error`."""


class ServingError(Exception):
    """Error that a client receives as JSON.

    Attributes:
        status: HTTP status code.
        message: What is wrong, and what the client can do.
        reason: Label of the metric that counts rejected requests.
        retry_after: Seconds after which the client should try again. None if a repetition cannot succeed.
    """

    def __init__(self, status: int, message: str, reason: str = "invalid", retry_after: int | None = None) -> None:
        self.status, self.message, self.reason, self.retry_after = status, message, reason, retry_after
        super().__init__(message)


class ClientGone(Exception):
    """The client has closed the connection before it received the response."""


def error_response(path: str, error: ServingError) -> JSONResponse:
    """Return the response for an error, in the form that the clients of this path expect."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    key = "message" if path.startswith(DEEPL_PATH) else "error"
    return JSONResponse({key: error.message}, error.status, headers)
