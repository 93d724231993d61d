"""`zoo attend` and `zoo curves`: draw the attention weights for a sentence, and the learning curves of runs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal, Unpack

from cli import options
from cli.options import argument, option
from specs import ZooError

_VIEW_PANEL = "Initial view"


def attend(
    sentence: Annotated[str | None, argument()] = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    target: str | None = None,
    figure: Annotated[int | None, option(min=3, max=5)] = None,
    output: Annotated[Path | None, option("--output", "-o")] = None,
    svg: Path | None = None,
    attention: Annotated[Literal["encoder", "decoder", "encoder-decoder"] | None, option(panel=_VIEW_PANEL)] = None,
    layer: Annotated[int | None, option(min=1, panel=_VIEW_PANEL)] = None,
    head: Annotated[list[int] | None, option(min=1, panel=_VIEW_PANEL)] = None,
    word: Annotated[str | None, option(panel=_VIEW_PANEL)] = None,
    **how: Unpack[options.Execution],
) -> None:
    """Show what every head of every layer attends to.

    Select a model with either --spec or --model. The HTML page shows the encoder's and the decoder's self-attention
    and the cross-attention, as matrices and as lines in the style of the paper's Figures 3 to 5. The attention
    weights are computed for the model's own translation, or for the translation in --target. For a model that reads
    audio or images, the page shows the spectrogram or the image above the matrices.

    --backend selects the backend for the translation. The attention weights are always computed by the
    `eager` backend.

    Options:
        sentence SENTENCE|FILE: Sentence to translate or parse. If the model reads audio or images, path of the audio or
            image file.
        target TEXT: Show the attention weights for this translation (or tree), whether or not the model would choose
            it. [default: the model's own translation]
        figure 3|4|5: Show the sentence from this figure of the paper, with the figure's layer, heads and word.
        output FILE.html: Write a self-contained interactive HTML page to this file.
        svg FILE.svg: Write the attention weights that --attention, --layer, --head and --word select to this file, as
            an SVG drawing. A drawing of attention to audio or to an image includes the spectrogram or image.
        attention encoder|decoder|encoder-decoder: Attention to show: the encoder's or decoder's self-attention, or the
            cross-attention. [default: encoder-decoder for audio and images, otherwise encoder, if the encoder has
            self-attention]
        layer N: Layer to show, counted from 1. [default: the second to last]
        head N: Head to show, counted from 1. Repeat the option to show several heads. [default: all heads]
        word WORD: Show only the attention weights of this word. [default: all words]

    Examples:
        zoo attend --spec tiny "the old dog sees a small house" -o attention.html
        zoo attend --model transformer-base-ende --figure 3 -o figure3.html --svg figure3.svg
        zoo attend --spec tiny "the dog sleeps" --target "der Hund schläft" --attention encoder-decoder --svg dog.svg
        zoo attend --spec speech/digits digits.wav -o digits.html
    """
    from cli.console import report
    from zoo.files.output import open_output, require_extension
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.visualization.attention import FIGURES, View, attention_page, attention_svg, figure_caption

    if (sentence is None) == (figure is None):
        problem = "a sentence and `--figure` cannot be used together" if figure else "the sentence is missing"
        raise ZooError(problem, hint='write `zoo attend --spec SPEC "a sentence"`, or `--figure 3`')
    if output is not None:
        require_extension(output, "html")
    if svg is not None:
        require_extension(svg, "svg")
    if output is None and svg is None:
        raise ZooError("no output file is given", hint="write HTML with `-o FILE.html`, or SVG with `--svg FILE.svg`")
    messages = report()
    with ExitStack() as files:
        page, drawing = (files.enter_context(open_output(path)) if path else None for path in (output, svg))
        translator = open_model(from_options(spec, model, messages), **how, report=messages)
        text = FIGURES[figure].sentence if figure else str(sentence)
        weights = translator.attention(text, target, source=from_, target=to)
        view = View.of(weights, attention, layer, head or (), word, figure)
        caption = figure_caption(figure, weights, view) if figure else ""
        written = "the given output" if weights.forced else "the model's own output"
        how_computed = f"computed by {weights.backend} in {weights.precision}"
        messages.info(f"attention for {written}, `{weights.translation}`, {how_computed}")
        if page:
            page.write(attention_page(weights, view, translator.spec.name, caption=caption))
        if drawing:
            drawing.write(attention_svg(weights, view))


def curves(
    run: Annotated[list[str], argument(complete=options.complete_run)],
    output: Annotated[Path, option("--output", "-o")] = Path("curves.html"),
) -> None:
    """Draw the learning curves of one or more runs.

    The page shows loss and perplexity on the training set, the scores on the dev set, the learning rate and the speed,
    plotted against step and training time. Each plot shows all runs, including runs that are still in training.

    Options:
        run RUN: Folder of a run, or name of its spec (`tiny` stands for `runs/tiny`).
        output FILE.html: Write the curves to this file, as self-contained HTML.

    Examples:
        zoo curves tiny
        zoo curves runs/one runs/two -o curves.html
    """
    from cli.console import report
    from zoo.files.output import open_output, require_extension
    from zoo.models import find
    from zoo.training.run_status import learning_curves
    from zoo.visualization.curves_page import curves_page

    require_extension(output, "html")
    messages = report()
    metrics, runs = learning_curves([find.run(each) for each in run], messages)
    with open_output(output) as file:
        file.write(curves_page(metrics, runs))
    messages.info(f"{', '.join(metric.title for metric in metrics)}: written to {output}")
