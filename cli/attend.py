"""`zoo attend` and `zoo search`: show the attention weights for a sentence, and its beam search as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, flag, option
from specs import ZooError

if TYPE_CHECKING:
    from zoo.generation.attention import Attention
    from zoo.generation.compilation import BackendOptions
    from zoo.generation.config import GenerationOptions
    from zoo.generation.search_tree import Expansion, SearchTree
    from zoo.visualization.attention import View


_VIEW_PANEL = "Initial view"

_SENTENCE = argument("SENTENCE", "Sentence to translate or parse.")
_OUTPUT = option(
    "FILE.html", "Write an interactive page to this file. It needs no other files and no network.", "--output", "-o"
)
_SVG = option(
    "FILE.svg",
    "Write an SVG drawing to this file. It shows the attention, layer, heads and word that the options select.",
)
_TARGET = option(
    "TEXT",
    "Show the attention weights for this translation (or tree), whether or not the model would choose it.",
    shown="the model's own translation",
)
_FIGURE = option(
    "3|4|5", "Show the sentence of this figure of the paper, with the figure's layer, heads and word.", min=3, max=5
)
_ATTENTION_KIND = option(
    "encoder|decoder|encoder-decoder",
    "Attention to show: the encoder's or decoder's self-attention, or the cross-attention.",
    shown="encoder",
    panel=_VIEW_PANEL,
)
_LAYER = option("N", "Layer to show, counted from 1.", shown="the last but one", min=1, panel=_VIEW_PANEL)
_HEAD = option(
    "N", "Head to show, counted from 1. Repeat the option to show several.", shown="all heads", min=1, panel=_VIEW_PANEL
)
_WORD = option("WORD", "Show only the attention weights of this word.", shown="all words", panel=_VIEW_PANEL)


def attend(
    sentence: Annotated[str | None, _SENTENCE] = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    target: Annotated[str | None, _TARGET] = None,
    figure: Annotated[int | None, _FIGURE] = None,
    output: Annotated[Path | None, _OUTPUT] = None,
    svg: Annotated[Path | None, _SVG] = None,
    attention: Annotated[str | None, _ATTENTION_KIND] = None,
    layer: Annotated[int | None, _LAYER] = None,
    head: Annotated[list[int] | None, _HEAD] = None,
    word: Annotated[str | None, _WORD] = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
) -> None:
    """Show what every head of every layer attends to.

    Select a model with either --spec or --model. The page shows self-attention of the encoder and of the decoder, and
    cross-attention: as lines in the style of the paper's Figures 3 to 5, and as matrices. The attention weights are
    those for the model's own translation, or for the translation in --target.

    --backend selects the backend that translates. The attention weights are always computed by `eager`.

    Examples:
        zoo attend --spec tiny "the old dog sees a small house" -o attention.html
        zoo attend --model transformer-base-ende --figure 3 -o figure3.html --svg figure3.svg
        zoo attend --spec tiny "the dog sleeps" --target "der Hund schläft" --attention encoder-decoder --svg dog.svg
    """
    from cli.console import report
    from zoo.files.output import open_output
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.visualization.attention import attention_page, attention_svg

    text = _sentence(sentence, figure)
    _check_files(output, svg)
    messages = report()
    how: BackendOptions = {"device": device, "precision": precision, "backend": backend}
    with ExitStack() as files:
        page, drawing = (files.enter_context(open_output(path)) if path else None for path in (output, svg))
        translator = open_model(from_options(spec, model, messages), **how, report=messages)
        weights = translator.attention(text, target, source=from_, target=to)
        view, caption = _initial_view(weights, figure, attention=attention, layer=layer, heads=head or (), word=word)
        origin = "the given translation" if weights.forced else "the model's own translation"
        messages.info(
            f"attention for {origin}, `{weights.translation}`, computed by {weights.backend} in {weights.precision}"
        )
        if page:
            page.write(attention_page(weights, view, translator.spec.name, caption=caption))
        if drawing:
            drawing.write(attention_svg(weights, view))


def _sentence(sentence: str | None, figure: int | None) -> str:
    from zoo.visualization.attention import FIGURES

    if (sentence is None) == (figure is None):
        problem = "give either a sentence or `--figure`, not both" if figure else "the sentence is missing"
        raise ZooError(problem, hint='write `zoo attend --spec SPEC "a sentence"`, or `--figure 3`')
    return FIGURES[figure].sentence if figure else str(sentence)


def _check_files(output: Path | None, svg: Path | None) -> None:
    from zoo.files.output import require_html, require_svg

    if output is not None:
        require_html(output)
    if svg is not None:
        require_svg(svg)
    if output is None and svg is None:
        raise ZooError(
            "no output file is given", hint="write a page with `-o FILE.html`, or a drawing with `--svg FILE.svg`"
        )


def _initial_view(
    weights: Attention,
    figure: int | None,
    *,
    attention: str | None,
    layer: int | None,
    heads: Sequence[int],
    word: str | None,
) -> tuple[View, str]:
    """Return the initial view of the page and its caption.

    If a figure of the paper is given, the view has the figure's layer, heads and word, unless the options select
    others.
    """
    from zoo.visualization.attention import FIGURE_ATTENTION, FIGURES, View, figure_caption, figure_view

    if figure is None:
        return View.of(weights, attention, layer, heads, word), ""
    if attention not in (None, FIGURE_ATTENTION):  # the figure's layer, heads and word belong to another attention
        view = View.of(weights, attention, layer, heads, word)
    else:
        default = figure_view(FIGURES[figure], weights)
        view = View.of(weights, default.kind, layer or default.layer, heads or default.heads, word)
        view = replace(view, word=default.word) if word is None else view
    return view, figure_caption(FIGURES[figure], weights, view)


_STYLES = {"kept": "", "result": "bold green", "worse": "yellow", "pruned": "dim", "stopped": "yellow"}

_SEARCH_OUTPUT = option(
    "FILE.html",
    "Write a page with a drawing of the tree to this file. It needs no other files and no network.",
    "--output",
    "-o",
    shown="print the tree",
)
_NO_SPLIT = flag(
    "Translate the text as a whole. By default, a text that `zoo decode` would split into several sentences is "
    "refused, because each sentence has its own search.",
    "--no-split",
)


def search(
    sentence: Annotated[str, _SENTENCE],
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    output: Annotated[Path | None, _SEARCH_OUTPUT] = None,
    beam: options.Beam = None,
    alpha: options.Alpha = None,
    shortlist: options.Shortlist = None,
    no_split: Annotated[bool, _NO_SPLIT] = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
) -> None:
    """Show the beam search of one sentence as a tree, and why each hypothesis was kept or lost.

    Select a model with either --spec or --model. The search is the one that `zoo decode` or `zoo parse` runs with the
    same options, and the result is the same. If the spec's decoding method is sampling, beam search is used instead.

    Each line of the tree is a hypothesis, named by its last token. It shows the token's log-probability, the total
    log-probability of the hypothesis, the length penalty, and the score, which is the total divided by the penalty.

    Examples:
        zoo search --spec tiny "the old dog sees a small house"
        zoo search --spec tiny "the dog sleeps" --beam 2 -o search.html
        zoo search --model multilingual --to de "the dog sleeps"
    """
    from contextlib import nullcontext

    from cli.console import report
    from zoo.files.output import open_output, require_html
    from zoo.generation.loading import open_model
    from zoo.generation.parser import Parser
    from zoo.generation.search_tree import record_search
    from zoo.models.find import from_options
    from zoo.visualization.search_page import search_page

    if output is not None:
        require_html(output)
    messages = report()
    how: BackendOptions = {"device": device, "precision": precision, "backend": backend}
    with open_output(output) if output else nullcontext() as page:
        translator = open_model(from_options(spec, model, messages), **how, report=messages)
        if isinstance(translator, Parser):
            sentence = translator.tokenize(sentence)
        choice: GenerationOptions = {"beam": beam, "alpha": alpha, "shortlist": shortlist}
        tree = record_search(translator, sentence, source=from_, target=to, split=not no_split, **choice)
        if page is None:
            _print_tree(tree)
        else:
            page.write(search_page(tree, translator.spec.name))
            messages.info(f"search for `{tree.result.text}`, with {tree.settings}")


def _print_tree(tree: SearchTree) -> None:
    from rich.text import Text

    from cli.console import show_table
    from zoo.report import escape_control_characters

    print(escape_control_characters(tree.result.text))
    print(f"score {tree.result.score:.3f}, log-probability {tree.result.log_probability:.3f}; {tree.settings}\n")
    rows: list[Sequence[str | Text]] = []
    for guide, each in _lines(tree.root):
        style = "bold" if each.best and each.fate == "kept" else _STYLES[each.fate]
        name = Text.assemble((guide, "dim"), (escape_control_characters(each.token), style))
        if each.parent is None:
            rows.append((name, "", f"{each.total:.2f}" if each.length else "", "", "", Text()))
            continue
        numbers = (f"{number:.2f}" for number in (each.log_probability, each.total, each.penalty, each.score))
        rows.append((name, *numbers, Text(each.outcome, style)))
    show_table(("hypothesis", "log p>", "total>", "penalty>", "score>", "outcome…"), rows)
    print(f"\n{tree.summary}")


def _lines(root: Expansion) -> Iterator[tuple[str, Expansion]]:
    """Yield the hypotheses of a tree from top to bottom, each with the lines that connect it to its parent."""
    waiting = [("", "", root)]
    while waiting:
        guide, indent, each = waiting.pop()
        yield guide, each
        for child in reversed(each.children):
            corner, line = ("└ ", "  ") if child is each.children[-1] else ("├ ", "│ ")
            waiting.append((indent + corner, indent + line, child))
