"""`zoo parse`: constituency trees, line by line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli import options
from specs.decoding import MAX_N_BEST

if TYPE_CHECKING:
    from zoo.generation.opening import How
    from zoo.generation.request import Choice
    from zoo.generation.translation import Translation

EXAMPLES = (
    'echo "The old dog sees a house , and it can not sleep ." | zoo parse --spec parsing/tiny --pretty'
    "\n\nzoo parse --spec parsing/tiny --input words.txt --output words.trees --svg trees.svg"
    "\n\nzoo parse --model parser-tiny --n-best 3 --json < words.txt"
)

_Svg = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.svg",
        show_default=False,
        help="Draw the best tree of each line, too: all into this file, one under the other.",
    ),
]
_NBest = Annotated[
    int | None,
    typer.Option(
        "--n-best",
        metavar="N",
        min=1,
        max=MAX_N_BEST,
        help="The N best of each line, best first, as line number, score and tree with tabs between them.",
    ),
]


def command(
    spec: options.OfSpec = None,
    model: options.Models = None,
    input: options.Input = None,
    output: options.Output = None,
    pretty: Annotated[
        bool, typer.Option("--pretty", help="Long trees over several lines, and an empty line between trees.")
    ] = False,
    svg: _Svg = None,
    beam: options.Beam = None,
    alpha: options.Alpha = None,
    n_best: _NBest = None,
    unconstrained: Annotated[
        bool,
        typer.Option("--unconstrained", help="Search as if for text, and mend what is no tree: to compare with."),
    ] = False,
    json: options.Json = False,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    tokens: options.Tokens = None,
) -> None:
    """Parse stdin to stdout: a sentence a line in, its tree a line out.

    A sentence is its words with spaces between them, and marks are words, as in the treebank that the model learned
    from: `The cat , too , does not sleep ( today ) .` What has no space round it is one word. A tree is bracketed and
    over exactly the words of its line, where `(` and `)` are `-LRB-` and `-RRB-`; a word is `XX` where the model writes
    no parts of speech. As many trees come out as lines went in, in their order and early; empty lines stay empty.
    Either --spec or --model says what with. With --json each line becomes an object with `source` and `trees`, each of
    these with `tree`, `score` (length-penalised) and `log_probability` (natural, of the whole tree).
    """
    from cli.answering import Files, answer, opened
    from cli.console import report
    from zoo.generation.parser import Parser
    from zoo.models.find import all_from_options

    _require_one(pretty, json, n_best)
    folders = all_from_options(spec, model, report())
    how: How = {"device": device, "precision": precision, "backend": backend}
    choice: Choice = {"beam": beam, "alpha": alpha, "tokens": tokens}
    with _drawn(svg, input, output) as draw:
        parser = opened(folders, "parsing", how, input)
        assert isinstance(parser, Parser)
        if unconstrained:
            parser.constraint = None

        def lines(number: int, source: str, found: list[Translation]) -> list[str]:
            draw(found[0].text)
            return [_laid_out(number, found[0].text)] if pretty else _lines(number, source, found, json, n_best)

        answer(parser, Files(input, output), choice, n_best, lines)


def _require_one(pretty: bool, json: bool, n_best: int | None) -> None:
    from specs import ZooError

    for other, given in (("--json", json), ("--n-best", n_best is not None)):
        if pretty and given:
            raise ZooError(
                f"`--pretty` and `{other}` are given, and each shows something else", hint="ask for them one at a time"
            )


@contextmanager
def _drawn(svg: Path | None, input: Path | None, output: Path | None) -> Iterator[Callable[[str], None]]:
    """What takes the bracketed trees that are drawn at the end, if they are to be."""
    from cli.lines import writing
    from specs import ZooError
    from zoo.files.output import require_svg
    from zoo.text.trees.drawing import drawing
    from zoo.text.trees.tree import read

    if svg is None:
        yield lambda tree: None
        return
    require_svg(svg)
    if output is not None and output.resolve() == svg.resolve():
        raise ZooError(f"`{svg}` would be written twice at once", hint="write trees and drawing to two files")
    trees: list[str] = []
    with writing(svg, [input]) as write:
        yield trees.append
        write(drawing(*(read(tree) for tree in trees if tree)).removesuffix("\n"))


def _laid_out(number: int, tree: str) -> str:
    from zoo.text.trees.pretty import pretty
    from zoo.text.trees.tree import read

    return ("\n" if number > 1 else "") + (pretty(read(tree)) if tree else "")


def _lines(number: int, source: str, found: list[Translation], json: bool, n_best: int | None) -> list[str]:
    if json:
        fields = ("score", "log_probability")
        trees = [{"tree": each.text, **{name: getattr(each, name) for name in fields}} for each in found if each.text]
        return [dumps({"source": source, "trees": trees}, ensure_ascii=False)]
    if n_best is None:
        return [found[0].text]
    return [f"{number}\t{each.score:.6f}\t{each.text}" for each in found]
