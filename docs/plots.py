"""Draw the plots of the benchmark pages as SVG. Colours work on light and dark pages."""

from __future__ import annotations

import io

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

GREY = "#808890"
COLOURS = ("#4f83cc", "#e08a3c", "#4ea866", "#c0504d", "#8e6cbf", "#2aa7a7", "#b59b2e")
PROCESSORS = ("AMD Zen 5", "AMD Zen 4", "Intel Cascade Lake")
RATIOS = {
    "batch 32, float32": (1.47, 1.20, 1.38),
    "batch 32, int8": (2.09, 1.70, 2.23),
    "one at a time, float32": (1.93, 2.13, 2.04),
    "one at a time, int8": (2.56, 2.17, 1.49),
}
"""Speed of the native backend relative to CTranslate2, for each processor."""
LENGTHS = (2048, 4096, 8192, 16384, 32768)
LAYER_TIMES = {
    "self-attention": (19.2, 77.4, 286),
    "restricted, r = 64": (4.09, 9.63, 19.1, 38.0, 77.3),
    "SSRU": (2.70, 5.07, 10.1, 20.5, 45.0),
    "LSTM": (10.7, 21.0, 42.4, 92.3, 192),
    "convolution, k = 3": (2.21, 4.36, 8.45, 17.1, 37.9),
    "dilated, k = 3": (2.52, 4.61, 9.95, 19.0, 43.8),
    "separable, k = 7": (1.44, 3.15, 6.30, 12.2, 26.1),
}
"""Time of a forward pass in milliseconds at each of LENGTHS. Self-attention was measured only up to 8,192."""
F1_BY_TREES = {1185: 41.32, 4738: 67.52, 18951: 72.85}
"""F1 of `parsing/craft` on 700 dev sentences by number of training trees.

All models had the same number of steps, at most 4,500.
"""


def plots() -> dict[str, str]:
    """Return the SVG text of each plot. The keys are the names of the plots."""
    return {
        "decoding-by-processor": _svg(_decoding()),
        "layers-by-length": _svg(_layers()),
        "parsing-by-trees": _svg(_parsing()),
    }


def _axes(x_label: str, y_label: str) -> tuple[Figure, Axes]:
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axes.set_xlabel(x_label, color=GREY)
    axes.set_ylabel(y_label, color=GREY)
    axes.tick_params(colors=GREY, which="both")
    axes.grid(axis="y", color=GREY, alpha=0.25)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(GREY)
    return figure, axes


def _decoding() -> Figure:
    figure, axes = _axes("", "speed relative to CTranslate2")
    width = 0.8 / len(RATIOS)
    for number, (name, ratios) in enumerate(RATIOS.items()):
        places = [place + number * width - 0.4 + width / 2 for place in range(len(PROCESSORS))]
        axes.bar(places, ratios, width * 0.92, label=name, color=COLOURS[number])
    axes.axhline(1, color=GREY, linewidth=1)
    axes.set_xticks(range(len(PROCESSORS)), PROCESSORS)
    axes.legend(ncols=2, frameon=False, labelcolor=GREY, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.22))
    return figure


def _layers() -> Figure:
    figure, axes = _axes("positions", "milliseconds")
    for number, (name, times) in enumerate(LAYER_TIMES.items()):
        axes.loglog(LENGTHS[: len(times)], times, marker="o", markersize=4, label=name, color=COLOURS[number])
    axes.set_xticks(LENGTHS, [f"{length:,}" for length in LENGTHS])
    axes.minorticks_off()
    axes.legend(frameon=False, labelcolor=GREY, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _parsing() -> Figure:
    figure, axes = _axes("training trees", "F1")
    axes.semilogx(list(F1_BY_TREES), list(F1_BY_TREES.values()), marker="o", color=COLOURS[0])
    axes.set_xticks(list(F1_BY_TREES), [f"{trees:,}" for trees in F1_BY_TREES])
    axes.minorticks_off()
    return figure


def _svg(figure: Figure) -> str:
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    plt.close(figure)
    return file.getvalue()
