"""`zoo search`: show the beam search of one sentence as a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import argument, flag, option

if TYPE_CHECKING:
    from zoo.generation.compilation import BackendOptions
    from zoo.generation.config import GenerationOptions
    from zoo.generation.search_tree import Expansion, SearchTree

_STYLES = {"kept": "", "result": "bold green", "worse": "yellow", "pruned": "dim", "stopped": "yellow"}

_SENTENCE = argument("SENTENCE", "Sentence to translate or parse.")
_OUTPUT = option(
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
    output: Annotated[Path | None, _OUTPUT] = None,
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
