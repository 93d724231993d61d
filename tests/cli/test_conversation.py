"""`zoo run`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import specs
import zoo as library
from cli.conversation import HELP, Conversation
from compiler.backends import BACKENDS
from tests.conftest import Trained, missing
from tests.refusals import refused
from zoo.publishing.publish import publish
from zoo.report import Report

PART = {"source": "pairs.en", "target": "pairs.de"}
MULTILINGUAL = {
    "languages": {"codes": ["en", "de", "fr"], "source_token": "source", "target_token": "target"},
    "corpus": {"train": [{**PART, "source_language": "de", "target_language": "fr"}, PART]},
}


def conversation(fields: dict[str, Any], *languages: str | None) -> Conversation:
    """Return a conversation with a model whose translation is its arguments."""

    def translate(text: str, **options: Any) -> list[str]:
        return [f"{options.get('source')} {options.get('target')} {text}"] * options["n_best"]

    model = SimpleNamespace(spec=specs.load("tiny", fields), report=Report(), translate=translate)
    return Conversation(model, *languages)  # type: ignore[arg-type]


def test_the_first_direction_is_the_default_and_commands_change_it() -> None:
    talk = conversation(MULTILINGUAL)
    assert list(talk.answer("  a text\n")) == ["de fr a text"]
    for command, direction in (("/to en", "de en"), ("/swap", "en de"), ("/from fr", "fr de")):
        assert list(talk.answer(command)) == []
        assert list(talk.answer("x")) == [f"{direction} x"]
        assert talk.prompt.split() == [direction.split()[0], ">", f"{direction.split()[1]}:"]
    assert list(talk.answer("/best 3")) == []
    assert list(talk.answer("x")) == ["fr de x"] * 3
    assert list(talk.answer("/help")) == [HELP]
    assert list(talk.answer(" \n")) == []
    assert list(conversation(MULTILINGUAL, "fr", "en").answer("x")) == ["fr en x"]
    assert list(conversation({}).answer("x")) == ["en de x"]


def test_a_guessed_source_language_cannot_be_swapped() -> None:
    talk = conversation({"languages": {"codes": ["en", "de", "fr"]}, "corpus": {"train": [PART]}}, None, "en")
    assert talk.prompt == "any language > en: "
    refused("needs a source language", list, talk.answer("/swap"))


@pytest.mark.parametrize("line", ["/to", "/to it", "/to en de", "/best 0", "/best -1", "/best x", "/tto en", "/"])
def test_wrong_commands_change_nothing(line: str) -> None:
    talk = conversation(MULTILINGUAL)
    refused(None, list, talk.answer(line))
    assert list(talk.answer("x")) == ["de fr x"]


def test_a_pipe_is_refused(zoo: Callable[..., Any], trained: Trained) -> None:
    trained("runs/tiny")
    assert "zoo decode tiny" in zoo("run", "tiny", stdin="we read\n").refusal


@pytest.mark.integration
def test_a_dialogue_in_a_terminal(trained: Trained) -> None:
    name = publish(trained("runs/tiny").folder).name
    backend = "eager" if BACKENDS["native"].unavailable_reason() else "native"  # which starts without torch
    expected = library.load(name, device="cpu", backend=backend).translate("we read")
    controller, terminal = os.openpty()
    os.write(controller, b"we read\n/swap\n/exit\n")
    command = [sys.executable, "-m", "zoo", "run", name, "--device", "cpu", "--backend", backend]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, stdin=terminal, capture_output=True, text=True, env=environment)
    os.close(controller)
    os.close(terminal)
    assert done.returncode == 0, done.stderr
    error = "error: `transformer-tiny-ende` translates from `en` to `de` only"
    assert not missing(done.stdout, f"en > de: {expected}\n", error)
