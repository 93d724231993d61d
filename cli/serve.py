"""`zoo serve`: answer translation requests over HTTP."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Unpack

import typer

import zoo
from cli import options
from cli.options import option
from specs import ZooError, install_hint
from zoo.serving import Limits

_LIMITS = "Limits"
_MAX = 1_000_000.0
_CPU_BATCH_TOKENS = 512
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _require(pattern: str, example: str) -> Callable[[list[str] | None], list[str] | None]:
    """Return an option callback that rejects values that do not match `pattern`. The error shows `example`."""

    def check(values: list[str] | None) -> list[str] | None:
        for value in values or ():
            if not re.fullmatch(pattern, value):
                raise typer.BadParameter(f"`{value}` is not valid; write a value such as {example}")
        return values

    return check


def serve(
    model: Annotated[list[str] | None, option(complete=options.complete_model_or_run)] = None,
    host: str = "127.0.0.1",
    port: Annotated[int, option(min=0, max=65535)] = 5000,
    keys: Annotated[Path | None, option(readable=False)] = None,
    new_key: str | None = None,
    cors: Annotated[
        list[str] | None, option(callback=_require(r"[a-z][a-z+.-]*://[^/\sA-Z]+|\*|null", "`https://example.org`"))
    ] = None,
    allow_host: Annotated[list[str] | None, option(callback=_require(r"[^/:\s]+", "`translate.example.org`"))] = None,
    max_memory: Annotated[float | None, option(min=0.01, max=_MAX)] = None,
    idle_minutes: Annotated[float, option(min=0.01, max=_MAX)] = 30.0,
    max_texts: Annotated[int, option(panel=_LIMITS, min=1)] = Limits.texts,
    max_characters: Annotated[int, option(panel=_LIMITS, min=1)] = Limits.text_characters,
    max_body_bytes: Annotated[int, option(panel=_LIMITS, min=1)] = Limits.body_bytes,
    max_queue: Annotated[int, option(panel=_LIMITS, min=1)] = Limits.queued_texts,
    max_wait: Annotated[float, option(panel=_LIMITS, min=0.0, max=_MAX)] = Limits.wait_seconds,
    timeout: Annotated[float, option(panel=_LIMITS, min=0.1, max=_MAX)] = Limits.request_seconds,
    max_batch_tokens: options.MaxBatchTokens = None,
    **how: Unpack[options.Execution],
) -> None:
    """Serve translations to other programs over HTTP.

    The server has zoo's own API under /v1, and the APIs of LibreTranslate and DeepL, so clients of these services can
    use the server. If a model reads audio, the server also has OpenAI's speech API. The server chooses a model for the
    languages of a request. Without --model, a model is loaded when it is first needed. A new revision of a model in the
    local model store is used without a restart.

    After SIGTERM or Ctrl-C, the server answers the requests that it has accepted, and exits.

    Options:
        model NAME|RUN: Load this model at startup, and serve it. Repeat the option to serve several models.
            [default: all published models on this machine]
        host ADDRESS: Listen on this address. With 0.0.0.0, other machines can connect.
        port N: Listen on this port.
        keys FILE: Accept only the API keys in this file, which is read again when it changes. Each line has the SHA-256
            of a key and, optionally, the maximum number of characters to translate for this key until the server is
            restarted.
            [default: no key is needed]
        new_key NAME: Create an API key with this name, add its SHA-256 and its name to the --keys file, print the key,
            and exit.
        cors ORIGIN: Permit web pages of this origin, such as https://example.org, to send requests. [default: none]
        allow_host NAME: Accept requests for this host name, such as the name that a reverse proxy passes on. Host
            names are checked only if the server listens on a loopback address without --keys. The check prevents
            attacks by web pages (DNS rebinding). [default: localhost]
        max_memory GB: Keep only as many models in memory as fit into GB gigabytes. [default: half of this machine's
            memory]
        idle_minutes X: Unload a model that has not been used for X minutes.
        max_texts N: Maximum number of texts per request.
        max_characters N: Maximum length of a text, in characters.
        max_body_bytes N: Maximum size of a request in bytes.
        max_queue N: Maximum number of texts that are waiting or being translated. Further requests get status 429.
        max_wait SECONDS: Maximum time until a translation begins. If a request would probably wait longer, it gets
            status 429.
        timeout SECONDS: Maximum time per request.
        max_batch_tokens N: Maximum number of source tokens in a batch, counting padding. Smaller batches make
            responses faster under load. [default: 512 on a CPU, 4096 on a GPU]

    Examples:
        zoo serve
        zoo serve --model transformer-tiny-ende --port 8080
        zoo serve --new-key alice --keys keys.txt && zoo serve --keys keys.txt --host 0.0.0.0
    """
    try:
        from zoo.serving.admission import Keys, Settings
        from zoo.serving.admission import new_key as create_key
        from zoo.serving.app import open_socket, run_server
        from zoo.serving.pool import ModelPool
        from zoo.serving.service import Service
    except ModuleNotFoundError as error:
        raise ZooError(f"`zoo serve` requires the `{error.name}` package", hint=install_hint("serve")) from None
    from cli.console import report
    from compiler.host import may_have_gpu
    from zoo.generation.loading import open_model
    from zoo.report import SILENT
    from zoo.system.memory import machine_memory

    if new_key is not None:
        if keys is None:
            hint = "add `--keys FILE`: the key's SHA-256 is added to this file"
            raise ZooError("`--new-key` needs `--keys FILE`", hint=hint)
        print(create_key(keys, new_key))
        return
    limits = Limits(
        body_bytes=max_body_bytes,
        text_characters=max_characters,
        texts=max_texts,
        queued_texts=max_queue,
        wait_seconds=max_wait,
        request_seconds=timeout,
    )
    if max_batch_tokens is None and (how["device"] == "cpu" or (how["device"] == "auto" and not may_have_gpu())):
        max_batch_tokens = _CPU_BATCH_TOKENS
    checks_names = host in _LOOPBACK and keys is None
    hosts = (*_LOOPBACK, *(name.lower() for name in allow_host or ())) if checks_names else ()
    settings = Settings(limits, Keys(file=keys), tuple(cors or ()), hosts)
    messages = report()
    pool = ModelPool(
        model or zoo.names(),
        memory_bytes=machine_memory() // 2 if max_memory is None else int(max_memory * 1e9),
        idle_seconds=60 * idle_minutes,
        open_translator=lambda folder: open_model(
            folder,
            **how,
            max_batch_tokens=max_batch_tokens,
            report=SILENT,  # warnings contain excerpts of the users' texts
        ),
        report=messages,
    )
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("zoo.serving").setLevel(logging.INFO)
    # Clients could fill the disk with warnings about wrong requests and, from asyncio, about closed connections.
    for name in ("asyncio", "uvicorn", "python_multipart"):
        logging.getLogger(name).setLevel(logging.ERROR)
    listener = open_socket(host, port)
    if host not in _LOOPBACK and not settings.keys.needed:
        messages.warn("other machines can use this server without a key: add `--keys FILE`, or use `--host 127.0.0.1`")
    shown = f"[{host}]" if ":" in host else host
    models = "1 model" if len(pool.models) == 1 else f"{len(pool.models)} models"
    messages.info(f"serving {models} on http://{shown}:{listener.getsockname()[1]}; Ctrl-C stops")
    run_server(Service(settings, pool), listener, model or ())
