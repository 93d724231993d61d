"""`zoo attend`: what a model looks at, as a page and as a drawing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options

if TYPE_CHECKING:
    from zoo.generation.attention import Attention
    from zoo.generation.opening import How
    from zoo.visualization.view import View

EXAMPLES = (
    'zoo attend --spec tiny "the old dog sees a small house" -o attention.html'
    "\n\nzoo attend --model transformer-base-ende --figure 3 -o figure3.html --svg figure3.svg"
    '\n\nzoo attend --spec tiny "the dog sleeps" --target "der Hund schläft" --attention encoder-decoder --svg dog.svg'
)

_FIRST = "What is chosen first"

_Sentence = Annotated[
    str | None, typer.Argument(metavar="SENTENCE", show_default=False, help="What is translated, or parsed.")
]
_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE.html", show_default=False, help="The page, whole in one file."),
]
_Svg = Annotated[
    Path | None,
    typer.Option(metavar="FILE.svg", show_default=False, help="A drawing of what is chosen first, for print."),
]
_Target = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        show_default="the model's own",
        help="The translation that is attended, or the tree; forced, as `zoo score` does.",
    ),
]
_Figure = Annotated[
    int | None,
    typer.Option(
        metavar="3|4|5",
        min=3,
        max=5,
        show_default=False,
        help="The sentence of this figure of the paper, with its layer, heads and word.",
    ),
]
_Attention = Annotated[
    str | None,
    typer.Option(
        metavar="encoder|decoder|encoder-decoder",
        show_default="encoder",
        rich_help_panel=_FIRST,
        help="Which is shown first.",
    ),
]
_Layer = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, show_default="the last but one", rich_help_panel=_FIRST, help="The layer, from 1."
    ),
]
_Head = Annotated[
    list[int] | None,
    typer.Option(
        metavar="N",
        min=1,
        show_default="all",
        rich_help_panel=_FIRST,
        help="A head, from 1; several: each with --head.",
    ),
]
_Word = Annotated[
    str | None,
    typer.Option(metavar="WORD", show_default="all", rich_help_panel=_FIRST, help="The word that looks."),
]

_Asked = tuple[str | None, int | None, list[int] | None, str | None]
"""Whose attention, of which layer, in which heads, of which word."""


def command(
    sentence: _Sentence = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    target: _Target = None,
    figure: _Figure = None,
    output: _Output = None,
    svg: _Svg = None,
    attention: _Attention = None,
    layer: _Layer = None,
    head: _Head = None,
    word: _Word = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
) -> None:
    """What every head of every layer looks at, as a page to choose in.

    The page draws the attention of encoder, decoder and encoder-decoder as Figures 3 to 5 of the paper do, and as
    matrices; it is one file, and asks no network. It is computed for the sentence and the model's own translation of
    it, or that of --target. Either --spec or --model says whose. --backend is what translates; weights come from
    `eager`.
    """
    from contextlib import ExitStack

    from cli.console import report
    from zoo.files.output import open_output as into
    from zoo.generation.opening import open_model
    from zoo.models.find import from_options
    from zoo.visualization.attention import attention_page
    from zoo.visualization.columns import columns

    text = _sentence(sentence, figure)
    _check(output, svg)
    words = report()
    how: How = {"device": device, "precision": precision, "backend": backend}
    with ExitStack() as files:
        page, drawing = (files.enter_context(into(each)) if each else None for each in (output, svg))
        translator = open_model(from_options(spec, model, words), **how, report=words)
        found = translator.attention(text, target)
        view, said = _view(found, figure, (attention, layer, head, word))
        whose = "the translation that was given" if found.forced else "the model's own translation"
        words.say(f"attended: {whose}, `{found.translation}`; weights by {found.backend} in {found.precision}")
        if page:
            page.write(attention_page(found, view, translator.spec.name, said=said))
        if drawing:
            drawing.write(columns(found, view))


def _sentence(sentence: str | None, figure: int | None) -> str:
    from specs import ZooError
    from zoo.visualization.figures import FIGURES

    if (sentence is None) == (figure is None):
        given = "is given, and so is a figure's" if figure else "is missing"
        raise ZooError(f"the sentence {given}", hint='write `zoo attend --spec SPEC "a sentence"`, or `--figure 3`')
    return FIGURES[figure].sentence if figure else str(sentence)


def _check(output: Path | None, svg: Path | None) -> None:
    from specs import ZooError
    from zoo.files.output import require_svg

    if svg is not None:
        require_svg(svg)
    if output is None and svg is None:
        raise ZooError("nothing is to be written", hint="name the page: `-o attention.html`, or a drawing: `--svg`")
    if output is not None and svg is not None and output.resolve() == svg.resolve():
        raise ZooError(f"`{svg}` would be written twice at once", hint="write page and drawing to two files")


def _view(found: Attention, figure: int | None, asked: _Asked) -> tuple[View, str]:
    """What is chosen first: what the figure shows, but where something else is asked for."""
    from zoo.visualization.figures import FIGURES, SHOWN, first, told
    from zoo.visualization.view import View

    attention, layer, heads, word = asked
    if figure is None:
        return View.of(found, attention, layer, heads or (), word), ""
    if attention not in (None, SHOWN):  # the figure's layer, heads and word are none of this one's
        view = View.of(found, attention, layer, heads or (), word)
    else:
        of = first(FIGURES[figure], found)
        view = View.of(found, of.kind, layer or of.layer, heads or of.heads, word)
        view = replace(view, word=of.word) if word is None else view
    return view, told(FIGURES[figure], found, view)
