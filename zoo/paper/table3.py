"""Derivations for the claims of Table 3 and of section 6.2, which compare variations of the base model."""

from __future__ import annotations

from functools import cache
from math import ceil

import compiler
import specs
from zoo.paper.claims import CLAIMS, ROWS


@cache
def parameters(spec: str, tokens: int | None = None) -> int:
    """Return the number of parameters of a spec's model, counted by the compiler.

    `tokens` replaces the vocabulary size of the spec.
    """
    return compiler.parameters(specs.load(spec, {} if tokens is None else {"vocabulary": {"size": tokens}}))


def vocabulary_sizes(row: str) -> range:
    """Return the vocabulary sizes with which a row's model has the printed number of parameters in millions."""
    spec, (printed,) = f"table3/{row}", CLAIMS[f"table3.{row}.parameters"].printed
    own = specs.load(spec).vocabulary.size
    per_token = parameters(spec, own + 1) - parameters(spec, own)
    rest = parameters(spec, own) - per_token * own
    lower, upper = (ceil((bound * 1_000_000 - rest) / per_token) for bound in printed.bounds)
    return range(lower, upper)


def common_vocabulary_sizes() -> range:
    """Return the vocabulary sizes with which all rows except `big` have the printed numbers of parameters.

    The range may be empty.
    """
    small = (name for name, row in ROWS["table3"].items() if "parameters" in row and name != "big")
    ranges = [vocabulary_sizes(name) for name in small]
    return range(max(sizes.start for sizes in ranges), min(sizes.stop for sizes in ranges))


def parameter_count(row: str) -> tuple[float, str]:
    """Count the parameters of a row's model in millions."""
    spec, fit = f"table3/{row}", vocabulary_sizes(row)
    count, tokens = parameters(spec), specs.load(spec).vocabulary.size
    return count / 1e6, f"{count:,} with {tokens:,} tokens; {fit[0]:,} to {fit[-1]:,} tokens give the printed number"


def one_vocabulary() -> tuple[bool, str]:
    """Decide whether one vocabulary size gives all printed numbers of parameters except that of `big`."""
    fit = common_vocabulary_sizes()
    if not fit:
        return False, "no vocabulary size gives all ten numbers"
    big = vocabulary_sizes("big")
    words = f"all ten numbers are as printed with a vocabulary of {fit[0]:,} to {fit[-1]:,} tokens"
    differs = big[-1] < fit[0] or big[0] > fit[-1]
    return True, f"{words}; big {'needs another' if differs else 'agrees'}: {big[0]:,} to {big[-1]:,}"


def single_head() -> tuple[bool, str]:
    """Compare the BLEU with one head and with the best number of heads."""
    single, best = _bleu("a-h1"), _best_heads()
    gap = round(best - single, 1)
    return gap == 0.9, f"printed: {best} and {single}, a difference of {gap}"


def many_heads() -> tuple[bool, str]:
    """Compare the BLEU with 32 heads and with the best number of heads."""
    many, best = _bleu("a-h32"), _best_heads()
    return many < best, f"printed: {many} with 32 heads, {best} in the best setting"


def small_keys() -> tuple[bool, str]:
    """Decide whether BLEU increases with the dimension of keys."""
    values = [_bleu(row) for row in ("b-dk16", "b-dk32", "base")]
    return values == sorted(set(values)), f"printed BLEU for d_k of 16, 32 and 64: {_listed(values)}"


_GROWING = {
    "N": ("c-n2", "c-n4", "base", "c-n8"),
    "d_model": ("c-dmodel256", "base", "c-dmodel1024"),
    "d_ff": ("c-dff1024", "base", "c-dff4096"),
}
"""Rows in which one size of the model increases."""


def bigger_models(metric: str) -> tuple[bool, str]:
    """Decide whether a metric, "bleu" or "perplexity", improves with each size of the model."""
    grown = {size: [float(ROWS["table3"][row][metric]) for row in rows] for size, rows in _GROWING.items()}
    words = "; ".join(f"{size}: {_listed(values)}" for size, values in grown.items())
    improves = all(values == sorted(values, reverse=metric == "perplexity") for values in grown.values())
    return improves, f"printed {'BLEU' if metric == 'bleu' else metric} with increasing {words}"


def dropout() -> tuple[bool, str]:
    """Compare the BLEU without dropout and with it."""
    without, with_dropout = _bleu("d-dropout0"), _bleu("base")
    return without < with_dropout, f"printed: {without} without dropout, {with_dropout} with 0.1"


def label_smoothing() -> tuple[bool, str]:
    """Compare perplexity and BLEU without label smoothing and with it."""
    without, smoothed = (ROWS["table3"][row] for row in ("d-smoothing0", "base"))
    worse = float(without["perplexity"]) < float(smoothed["perplexity"])
    better = float(without["bleu"]) < float(smoothed["bleu"])
    values = " and ".join(f"{row['perplexity']} / {row['bleu']}" for row in (without, smoothed))
    return worse and better, f"printed perplexity / BLEU without smoothing and with 0.1: {values}"


def learned_positions() -> tuple[bool, str]:
    """Compare learned positional embeddings with sinusoids."""
    gap = round(abs(_bleu("base") - _bleu("e-learned")), 1)
    same = ROWS["table3"]["base"]["perplexity"] == ROWS["table3"]["e-learned"]["perplexity"]
    words = "the same perplexity" if same else "different perplexities"
    return gap <= 0.1 and same, f"printed: a difference of {gap} BLEU, {words}"


def _bleu(row: str) -> float:
    return float(ROWS["table3"][row]["bleu"])


def _best_heads() -> float:
    """Return the best BLEU of the rows that vary the number of heads."""
    return max(map(_bleu, ("a-h1", "a-h4", "base", "a-h16", "a-h32")))


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
