"""HTML page of the beam search of one sentence: a drawing with a column for each step, and a table with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zoo.generation.search_tree import FATE_TITLES, Expansion, Fate, SearchTree
from zoo.visualization.page import asset, element, escape_text, page, table_cells, table_head, text, text_width

# All sizes are in pixels.
_FONT_SIZE, _BOX_HEIGHT, _ROW_HEIGHT, _COLUMN_GAP, _MIN_BOX, _TOP, _MARGIN = 14, 38, 50, 46, 62, 34, 8
_SYMBOLS: Mapping[Fate, str] = {"kept": "", "result": "★", "worse": "■", "pruned": "✕", "stopped": "…"}
_EXPLANATIONS: Mapping[Fate, str] = {
    "kept": "was in the beam, and was continued in the next step",
    "result": "has finished, and is the translation",
    "worse": "has finished, but its score is lower than that of the result",
    "pruned": "was removed from the beam",
    "stopped": "was still unfinished when the search stopped",
}
_COLUMNS = ("Hypothesis", "Token", "Log-probability>", "Total>", "Length penalty>", "Score>", "Outcome")


def search_page(tree: SearchTree, model: str) -> str:
    """Return an HTML page that draws the search of a sentence. The page needs no other file and no script.

    Args:
        tree: The search.
        model: The name of the model, for the heading.
    """
    sentences = (f"<p><bdi>{escape_text(each)}</bdi></p>" for each in (tree.text, tree.result.text))
    return page(
        f"Beam search of {model}: {tree.text}",
        f"<h1>Beam search of {escape_text(model)}</h1>",
        f"<blockquote>{''.join(sentences)}</blockquote>",
        f'<p class="quiet">Score {tree.result.score:.3f}, log-probability {tree.result.log_probability:.3f}; '
        f"{escape_text(tree.settings)}.</p>",
        f"<p>{escape_text(tree.summary)}</p>",
        '<h2 id="tree">Tree</h2>',
        "<p>Each column is a step of the search. Each box is a hypothesis: its last token, and the log-probability of "
        "all its tokens. The most probable hypotheses are at the top. The thick line leads to the result. Point at a "
        "box for its values and its outcome.</p>",
        *_key(),
        f'<figure tabindex="0" aria-labelledby="tree">\n{_drawing(tree)}\n</figure>',
        '<h2 id="steps">Steps</h2>',
        "<p>A score is the total log-probability divided by the length penalty. Hypotheses of a step have the same "
        "length, so the beam compares totals. Finished hypotheses compete by score.</p>",
        *_table(tree),
        style=asset("search_page.css"),
    )


def _key() -> Iterator[str]:
    yield '<ul class="key">'
    for fate, title in FATE_TITLES.items():
        symbol = f"{_SYMBOLS[fate]} " if _SYMBOLS[fate] else ""
        yield f"<li>{symbol}<b>{title}</b>: {_EXPLANATIONS[fate]}</li>"
    yield "</ul>"


def _drawing(tree: SearchTree) -> str:
    columns: list[list[Expansion]] = [[tree.root], *map(list, tree.steps)]
    places: dict[int, tuple[float, float, float]] = {}  # left, right and middle of each box
    boxes: list[str] = []
    lines: list[str] = []
    left = float(_MARGIN)
    for number, column in enumerate(columns):
        wide = max(_MIN_BOX, *(text_width(_label(each), _FONT_SIZE) + 16 for each in column))
        if number:
            boxes.append(text("step", left, 20, f"step {number}"))
        for row, each in enumerate(column):
            top = _TOP + row * _ROW_HEIGHT
            middle = top + _BOX_HEIGHT / 2
            places[id(each)] = left, left + wide, middle
            if each.parent is not None:
                lines.append(_line(each, places[id(each.parent)], left, middle))
            boxes.append(_box(each, left, top, wide))
        left += wide + _COLUMN_GAP
    height = _TOP + _ROW_HEIGHT * max(map(len, columns))
    total = left - _COLUMN_GAP + _MARGIN
    lines.sort(key=lambda line: 'class="best' in line)  # drawn last, so that no other line covers them
    title = "Hypotheses of each step. The table below has the same content."
    return "\n".join(
        [
            f'<svg class="search" role="img" aria-label="{title}" viewBox="0 0 {total:.0f} {height}" '
            f'width="{total:.0f}" height="{height}">',
            *lines,
            *boxes,
            "</svg>",
        ]
    )


def _line(each: Expansion, parent: tuple[float, float, float], x: float, y: float) -> str:
    _, start, middle = parent
    bend = (start + x) / 2
    kind = "best" if each.best else each.fate
    curve = f"M{start:.0f} {middle:.0f}C{bend:.0f} {middle:.0f} {bend:.0f} {y:.0f} {x:.0f} {y:.0f}"
    return element("path", kind=kind, d=curve)


def _label(each: Expansion) -> str:
    symbol = _SYMBOLS[each.fate]
    return f"{symbol} {each.token}" if symbol else each.token


def _box(each: Expansion, left: float, top: float, wide: float) -> str:
    values = (
        f"{_hypothesis(each)}\nlog-probability of the token {each.log_probability:.3f}\ntotal {each.total:.3f}\n"
        f"length penalty {each.penalty:.3f}\nscore {each.score:.3f}\n{each.outcome}"
    )
    if each.parent is None:
        values = "the beginning of every hypothesis"
    box = element("rect", x=left, y=top, width=wide, height=_BOX_HEIGHT, rx=6)
    token = element("text", escape_text(_label(each)), x=left + 8, y=top + 16)
    total = text("value", left + 8, top + 31, f"{each.total:.2f}")
    return element("g", element("title", escape_text(values)) + box + token + total, kind=_classes(each))


def _hypothesis(each: Expansion) -> str:
    return " ".join(part.token for part in each.path)


def _table(tree: SearchTree) -> Iterator[str]:
    yield f'<div class="wide"><table aria-labelledby="steps">{table_head(_COLUMNS)}'
    for number, step in enumerate(tree.steps, start=1):
        yield f'<tbody><tr><th colspan="{len(_COLUMNS)}" scope="rowgroup">Step {number}</th></tr>'
        yield from map(_row, step)
        yield "</tbody>"
    yield "</table></div>"


def _row(each: Expansion) -> str:
    before = each.path[:-1]
    words = (_hypothesis(before[-1]) if before else "", each.token)
    numbers: Sequence[float] = (each.log_probability, each.total, each.penalty, each.score)
    cells = [f"<bdi>{escape_text(word)}</bdi>" for word in words] + [f"{number:.3f}" for number in numbers]
    return f'<tr class="{_classes(each)}">{table_cells(_COLUMNS, [*cells, escape_text(each.outcome)])}</tr>'


def _classes(each: Expansion) -> str:
    return f"{each.fate} best" if each.best else each.fate
