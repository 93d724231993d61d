"""The page of an attention: as the paper draws it, in every layer and head, and as matrices."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from zoo.generation.attention import Attention
from zoo.visualization.page import data, page, showable, text
from zoo.visualization.view import KINDS, View

STEPS = 255
"""Into so many the page rounds weights: a byte each."""
_SCRIPT, _STYLE = ((Path(__file__).parent / f"attention.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))


def attention_page(found: Attention, view: View, model: str, *, said: str = "") -> str:
    """A page of its own, which needs no other file. `view` is chosen first; `said` stands under its heading."""
    present = {name: kind for name, kind in KINDS.items() if len(kind.of(found)[0])}
    units = {"words": found.by_words(), "tokens": found}
    known: list[dict[str, object]] = []
    packed = b""
    for name, kind in present.items():
        layers, heads = kind.of(found)[0].shape[:2]
        told = {"name": name, "title": kind.title, "looks": kind.looks, "seen": kind.seen}
        known.append({**told, "layers": layers, "heads": heads})
        for unit, each in units.items():
            weights, rows, columns = kind.of(each)
            sides = {"rows": list(map(showable, rows)), "columns": list(map(showable, columns))}
            known[-1][unit] = {"at": len(packed), **sides}
            packed += weights.mul(STEPS).round().to(torch.uint8).numpy().tobytes()
    first = {"kind": view.kind, "layer": view.layer, "heads": [head - 1 for head in view.heads], "word": view.word}
    most = max(kind.of(found)[0].shape[1] for kind in present.values())
    return page(
        f"Attention of {model}: {found.text}",
        *_head(found, model, said),
        *_body({name: kind.title for name, kind in present.items()}, most),
        data("data", {"kinds": known, "first": first}),
        f'<script type="text/plain" id="weights">{b64encode(zlib.compress(packed)).decode()}</script>',
        style=_STYLE,
        script=_SCRIPT,
        many=most,
    )


def _head(found: Attention, model: str, said: str) -> Iterator[str]:
    """What was attended, and by whom."""
    whose = "the translation that was given" if found.forced else "the model's own translation"
    yield f"<h1>Attention of {text(model)}</h1>"
    if said:
        yield f"<p>{text(said)}</p>"
    yield f"<blockquote><p><bdi>{text(found.text)}</bdi></p><p><bdi>{text(found.translation)}</bdi></p></blockquote>"
    yield (
        f'<p class="quiet">Attended: the sentence and {whose}, whose log-probability is {found.log_probability:.2f}. '
        f"Weights by the backend {text(found.backend)} in {text(found.precision)}, here in steps of 1/{STEPS}.</p>"
    )


def _body(kinds: Mapping[str, str], heads: int) -> Iterator[str]:
    """What is chosen, and where it is drawn."""
    yield "<noscript><p>The attention is drawn by the script of this page, which is switched off.</p></noscript>"
    yield '<div id="view" hidden>\n<form class="screen" aria-label="What is drawn">'
    yield _group("Attention", (_choice("radio", "kind", name, text(title)) for name, title in kinds.items()))
    yield '<label><span class="legend">Layer</span> <select id="layer"></select></label>'
    coloured = (
        f'<label class="head"><input type="checkbox" name="head" value="{head}" aria-label="head {head + 1}">'
        f'<i style="background: var(--series-{head})"></i>{head + 1}</label>'
        for head in range(heads)
    )
    yield _group("Heads", [*coloured, *(f'<button type="button" id="{id}">{id}</button>' for id in ("all", "none"))])
    yield _group("Of", (_choice("radio", "unit", unit, unit) for unit in ("words", "tokens")))
    yield "</form>"
    yield '<h2>Lines</h2>\n<p id="told" role="status"></p>'
    yield (
        '<p class="quiet screen">The colour of a line is its head, its opacity the weight; under 1.6 % none is drawn. '
        "Choose a word on either side. With the keyboard, arrows move in a list, Enter chooses, Escape lets go.</p>"
    )
    columns = (f'<ul id="{side}" role="listbox" tabindex="0"></ul>' for side in ("rows", "columns"))
    lines = '<svg id="lines" aria-hidden="true" preserveAspectRatio="none"></svg>'
    yield f'<div class="pair">{lines.join(columns)}</div>\n<div id="table" class="wide"></div>'
    yield '<h2>Matrices</h2>\n<p id="cell" class="quiet screen"></p>\n<div id="matrices"></div>\n</div>'


def _group(title: str, inside: Iterator[str] | list[str]) -> str:
    return f"<fieldset><legend>{title}</legend>{''.join(inside)}</fieldset>"


def _choice(kind: str, name: str, value: str, words: str) -> str:
    return f'<label><input type="{kind}" name="{name}" value="{value}"> {words}</label>'
