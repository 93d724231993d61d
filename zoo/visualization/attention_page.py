"""HTML page that shows attention weights as lines between words, as in the paper, and as matrices."""

from __future__ import annotations

import zlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from zoo.generation.attention import Attention
from zoo.visualization.attention_view import ATTENTIONS, View
from zoo.visualization.page import escape_text, json_element, page, replace_unprintable

STEPS = 255
"""Weights are stored in the page as multiples of 1 / STEPS, with one byte for each weight."""
_FOLDER = Path(__file__).parent
_SCRIPT, _STYLE = ((_FOLDER / f"attention_page.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))


def attention_page(attention: Attention, view: View, model: str, *, caption: str = "") -> str:
    """Return an HTML page that shows the attention weights of every layer and head. The page needs no other file.

    Args:
        attention: The attention weights for one sentence and its translation.
        view: The selection that the page shows first.
        model: The name of the model, for the heading.
        caption: A text below the heading. Empty for none.
    """
    available = {name: kind for name, kind in ATTENTIONS.items() if len(kind.read(attention)[0])}
    units = {"words": attention.by_words(), "tokens": attention}
    kinds: list[dict[str, object]] = []
    packed = b""
    for name, kind in available.items():
        layers, heads = kind.read(attention)[0].shape[:2]
        titles = {"name": name, "title": kind.title, "rowsTitle": kind.rows_title, "columnsTitle": kind.columns_title}
        entry: dict[str, object] = {**titles, "layers": layers, "heads": heads}
        for unit, source in units.items():
            weights, rows, columns = kind.read(source)
            labels = {"rows": list(map(replace_unprintable, rows)), "columns": list(map(replace_unprintable, columns))}
            entry[unit] = {"offset": len(packed), **labels}
            packed += weights.mul(STEPS).round().to(torch.uint8).numpy().tobytes()
        kinds.append(entry)
    first = {"kind": view.kind, "layer": view.layer, "heads": [head - 1 for head in view.heads], "word": view.word}
    max_heads = max(kind.read(attention)[0].shape[1] for kind in available.values())
    return page(
        f"Attention of {model}: {attention.text}",
        *_header(attention, model, caption),
        *_body({name: kind.title for name, kind in available.items()}, max_heads),
        json_element("data", {"kinds": kinds, "first": first}),
        f'<script type="text/plain" id="weights">{b64encode(zlib.compress(packed)).decode()}</script>',
        style=_STYLE,
        script=_SCRIPT,
        series_count=max_heads,
    )


def _header(attention: Attention, model: str, caption: str) -> Iterator[str]:
    translation = "the given translation" if attention.forced else "the model's own translation"
    yield f"<h1>Attention of {escape_text(model)}</h1>"
    if caption:
        yield f"<p>{escape_text(caption)}</p>"
    sentences = (f"<p><bdi>{escape_text(each)}</bdi></p>" for each in (attention.text, attention.translation))
    yield f"<blockquote>{''.join(sentences)}</blockquote>"
    yield (
        f'<p class="quiet">The page shows attention for the sentence and {translation}, whose log-probability is '
        f"{attention.log_probability:.2f}. The weights were computed by the backend {escape_text(attention.backend)} "
        f"in {escape_text(attention.precision)} and are rounded to 1/{STEPS}.</p>"
    )


def _body(kinds: Mapping[str, str], heads: int) -> Iterator[str]:
    yield "<noscript><p>This page needs JavaScript to draw the attention.</p></noscript>"
    yield '<div id="view" hidden>\n<form class="screen" aria-label="Selection">'
    yield _group("Attention", (_choice("kind", name, escape_text(title)) for name, title in kinds.items()))
    yield '<label><span class="legend">Layer</span> <select id="layer"></select></label>'
    head_boxes = (
        f'<label class="head"><input type="checkbox" name="head" value="{head}" aria-label="head {head + 1}">'
        f'<i style="background: var(--series-{head})"></i>{head + 1}</label>'
        for head in range(heads)
    )
    yield _group("Heads", [*head_boxes, *(f'<button type="button" id="{id}">{id}</button>' for id in ("all", "none"))])
    yield _group("Unit", (_choice("unit", unit, unit) for unit in ("words", "tokens")))
    yield "</form>"
    yield '<h2>Lines</h2>\n<p id="summary" role="status"></p>'
    yield (
        '<p class="quiet screen">The colour of a line shows its head, its opacity the weight. Weights below 1.6 % are '
        "not drawn. Choose a word on either side. With the keyboard, use the arrow keys in a list, Enter to choose, "
        "and Escape to clear.</p>"
    )
    columns = (f'<ul id="{side}" role="listbox" tabindex="0"></ul>' for side in ("rows", "columns"))
    lines = '<svg id="lines" aria-hidden="true" preserveAspectRatio="none"></svg>'
    yield f'<div class="pair">{lines.join(columns)}</div>\n<div id="table" class="wide"></div>'
    yield '<h2>Matrices</h2>\n<p id="cell" class="quiet screen"></p>\n<div id="matrices"></div>\n</div>'


def _group(title: str, content: Iterator[str] | list[str]) -> str:
    return f"<fieldset><legend>{title}</legend>{''.join(content)}</fieldset>"


def _choice(name: str, value: str, label: str) -> str:
    return f'<label><input type="radio" name="{name}" value="{value}"> {label}</label>'
