"""`zoo curves`: draw the learning curves of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cli import options
from cli.options import argument, option

CURVES_EXAMPLES = (
    "zoo curves tiny\n\nzoo curves runs/one runs/two -o curves.html\n\nzoo curves table3/base table3/big -o curves.svg"
)
_RUNS = argument(
    "RUN",
    "Runs: their folders, or the names of their specs (`tiny` stands for `runs/tiny`).",
    complete=options.complete_run,
)
_OUTPUT = option(
    "FILE.html|FILE.svg",
    "Write a page, or a drawing if the name ends in .svg, to this file. It needs no other files and no network.",
    "--output",
    "-o",
)


def curves(run: Annotated[list[str], _RUNS], output: Annotated[Path, _OUTPUT] = Path("curves.html")) -> None:
    """Draw the learning curves of one or several runs.

    The page shows loss and perplexity on the training set, the scores on the dev set, the learning rate and the speed:
    by step, and by training time. Several runs share each plot. A run can still be training; its log is read once.
    """
    from cli.console import report
    from zoo.files.output import open_output, require_html
    from zoo.models import find
    from zoo.training.learning_curves import learning_curves
    from zoo.visualization.curves_page import curves_page, curves_svg

    draws_svg = output.suffix.lower() == ".svg"
    if not draws_svg:
        require_html(output)
    messages = report()
    metrics, runs = learning_curves([find.run(each) for each in run], messages)
    with open_output(output) as file:
        file.write((curves_svg if draws_svg else curves_page)(metrics, runs))
    messages.info(f"{', '.join(metric.title for metric in metrics)}: written to {output}")
