"""Table 3: variations of the base model for EN-DE, scored on newstest2013, and the claims of section 6.2 about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from math import ceil

import compiler
import specs
from zoo.paper.claims import Check, Claim, Printed, equals, holds, scored


@dataclass(frozen=True)
class VariationRow:
    """Row of Table 3 as printed: perplexity per subword token, BLEU and, in some rows, millions of parameters."""

    key: str
    """Name of the row in the keys of its claims, and the file name of its spec in `specs/table3/`."""
    part: str
    says: str
    perplexity: str
    bleu: str
    parameters: str | None = None

    @property
    def spec(self) -> str:
        """Short name of the row's spec, such as "table3/a-h1"."""
        return f"table3/{self.key}"


ROWS = (
    VariationRow("base", "", "base: N=6, d_model=512, d_ff=2048, h=8, d_k=d_v=64", "4.92", "25.8", "65"),
    VariationRow("a-h1", "A", "h=1, d_k=d_v=512", "5.29", "24.9"),
    VariationRow("a-h4", "A", "h=4, d_k=d_v=128", "5.00", "25.5"),
    VariationRow("a-h16", "A", "h=16, d_k=d_v=32", "4.91", "25.8"),
    VariationRow("a-h32", "A", "h=32, d_k=d_v=16", "5.01", "25.4"),
    VariationRow("b-dk16", "B", "d_k=16", "5.16", "25.1", "58"),
    VariationRow("b-dk32", "B", "d_k=32", "5.01", "25.4", "60"),
    VariationRow("c-n2", "C", "N=2", "6.11", "23.7", "36"),
    VariationRow("c-n4", "C", "N=4", "5.19", "25.3", "50"),
    VariationRow("c-n8", "C", "N=8", "4.88", "25.5", "80"),
    VariationRow("c-dmodel256", "C", "d_model=256, d_k=d_v=32", "5.75", "24.5", "28"),
    VariationRow("c-dmodel1024", "C", "d_model=1024, d_k=d_v=128", "4.66", "26.0", "168"),
    VariationRow("c-dff1024", "C", "d_ff=1024", "5.12", "25.4", "53"),
    VariationRow("c-dff4096", "C", "d_ff=4096", "4.75", "26.2", "90"),
    VariationRow("d-dropout0", "D", "P_drop=0.0", "5.77", "24.6"),
    VariationRow("d-dropout02", "D", "P_drop=0.2", "4.95", "25.5"),
    VariationRow("d-smoothing0", "D", "label smoothing 0.0", "4.67", "25.3"),
    VariationRow("d-smoothing02", "D", "label smoothing 0.2", "5.47", "25.7"),
    VariationRow("e-learned", "E", "learned positions instead of sinusoids", "4.92", "25.7"),
    VariationRow(
        "big", "", "big: N=6, d_model=1024, d_ff=4096, h=16, P_drop=0.3, 300,000 steps", "4.33", "26.4", "213"
    ),
)
BY_KEY = {row.key: row for row in ROWS}
COUNTED = tuple(row for row in ROWS if row.parameters is not None)
SMALL = tuple(row for row in COUNTED if row.key != "big")
"""Rows whose printed numbers of parameters are all correct for one vocabulary size."""


@cache
def parameters(spec: str, tokens: int | None = None) -> int:
    """Return the number of parameters of a spec's model, counted by the compiler.

    `tokens` replaces the vocabulary size of the spec.
    """
    return compiler.parameters(specs.load(spec, {} if tokens is None else {"vocabulary": {"size": tokens}}))


def vocabulary_sizes(row: VariationRow) -> range:
    """Return the vocabulary sizes for which a row's model has as many parameters, in rounded millions, as printed."""
    assert row.parameters is not None
    own = specs.load(row.spec).vocabulary.size
    per_token = parameters(row.spec, own + 1) - parameters(row.spec, own)
    rest = parameters(row.spec, own) - per_token * own
    lower, upper = (ceil((bound * 1_000_000 - rest) / per_token) for bound in Printed(row.parameters).bounds)
    return range(lower, upper)


def common_vocabulary_sizes(rows: tuple[VariationRow, ...] = SMALL) -> range:
    """Return the vocabulary sizes for which all rows have as many parameters as printed. The range may be empty."""
    ranges = [vocabulary_sizes(row) for row in rows]
    return range(max(sizes.start for sizes in ranges), min(sizes.stop for sizes in ranges))


def claims() -> Iterator[Claim]:
    """Yield the claims of Table 3 and of section 6.2."""
    for row in ROWS:
        section = f"Table 3 ({row.part})" if row.part else "Table 3"
        columns = [
            ("perplexity", _PERPLEXITY, row.perplexity, "per token"),
            ("BLEU", _BLEU, row.bleu, "BLEU"),
            ("parameters", _count(row), row.parameters, "million parameters"),
        ]
        for column, check, text, unit in columns:
            if text is not None:
                key, says = f"table3.{row.key}.{column.lower()}", f"{row.says}: {column}"
                yield Claim(key, section, says, check, (Printed(text),), unit, row.spec)
    yield Claim(
        "table3.counts",
        "Table 3",
        "one vocabulary explains all numbers of parameters except that of big",
        holds(_one_vocabulary),
    )
    yield from (Claim(f"table3.{key}", "6.2", says, holds(decide)) for key, says, decide in _SENTENCES)


_PERPLEXITY, _BLEU = scored("dev", "perplexity"), scored("dev", "paper_bleu", "bleu")


def _count(row: VariationRow) -> Check:
    def derive() -> tuple[float, str]:
        tokens, fit = specs.load(row.spec).vocabulary.size, vocabulary_sizes(row)
        count = parameters(row.spec)
        how = f"{count:,} with {tokens:,} tokens; {fit[0]:,} to {fit[-1]:,} tokens give the printed number"
        return count / 1e6, how

    return equals(derive, "{:.2f}".format)


def _one_vocabulary() -> tuple[bool, str]:
    fit = common_vocabulary_sizes()
    if not fit:
        return False, "no vocabulary size gives all ten numbers"
    big = vocabulary_sizes(BY_KEY["big"])
    words = f"all ten numbers are as printed with a vocabulary of {fit[0]:,} to {fit[-1]:,} tokens"
    differs = big[-1] < fit[0] or big[0] > fit[-1]
    return True, f"{words}; big {'needs another' if differs else 'agrees'}: {big[0]:,} to {big[-1]:,}"


def _bleu(key: str) -> float:
    return float(BY_KEY[key].bleu)


def _perplexity(key: str) -> float:
    return float(BY_KEY[key].perplexity)


_HEADS = ("a-h1", "a-h4", "base", "a-h16", "a-h32")


def _single_head() -> tuple[bool, str]:
    best = max(map(_bleu, _HEADS))
    gap = round(best - _bleu("a-h1"), 1)
    return gap == 0.9, f"printed: {best} and {_bleu('a-h1')}, a difference of {gap}"


def _too_many_heads() -> tuple[bool, str]:
    best = max(map(_bleu, _HEADS))
    return _bleu("a-h32") < best, f"printed: {_bleu('a-h32')} with 32 heads, {best} in the best setting"


def _small_keys() -> tuple[bool, str]:
    values = [_bleu(key) for key in ("b-dk16", "b-dk32", "base")]
    return values == sorted(set(values)), f"printed BLEU for d_k of 16, 32 and 64: {_listed(values)}"


_GROWING = {
    "N": ("c-n2", "c-n4", "base", "c-n8"),
    "d_model": ("c-dmodel256", "base", "c-dmodel1024"),
    "d_ff": ("c-dff1024", "base", "c-dff4096"),
}


def _bigger_by_bleu() -> tuple[bool, str]:
    grown = {what: [_bleu(key) for key in keys] for what, keys in _GROWING.items()}
    words = "; ".join(f"{what}: {_listed(values)}" for what, values in grown.items())
    return all(values == sorted(values) for values in grown.values()), f"printed BLEU with increasing {words}"


def _bigger_by_perplexity() -> tuple[bool, str]:
    grown = {what: [_perplexity(key) for key in keys] for what, keys in _GROWING.items()}
    words = "; ".join(f"{what}: {_listed(values)}" for what, values in grown.items())
    return all(
        values == sorted(values, reverse=True) for values in grown.values()
    ), f"printed perplexity with increasing {words}"


def _dropout() -> tuple[bool, str]:
    none, some = _bleu("d-dropout0"), _bleu("base")
    return none < some, f"printed: {none} without dropout, {some} with 0.1"


def _smoothing() -> tuple[bool, str]:
    keys = ("d-smoothing0", "base")
    worse = _perplexity("d-smoothing0") < _perplexity("base")
    better = _bleu("d-smoothing0") < _bleu("base")
    values = " and ".join(f"{BY_KEY[key].perplexity} / {BY_KEY[key].bleu}" for key in keys)
    return worse and better, f"printed perplexity / BLEU without smoothing and with 0.1: {values}"


def _learned() -> tuple[bool, str]:
    gap = round(abs(_bleu("base") - _bleu("e-learned")), 1)
    same = _perplexity("base") == _perplexity("e-learned")
    return (
        gap <= 0.1 and same,
        f"printed: a difference of {gap} BLEU, {'the same perplexity' if same else 'different perplexities'}",
    )


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


_SENTENCES = (
    ("single-head", "single-head attention is 0.9 BLEU worse than the best setting", _single_head),
    ("many-heads", "quality also drops off with too many heads", _too_many_heads),
    ("small-keys", "reducing the attention key size d_k hurts model quality", _small_keys),
    ("bigger-bleu", "bigger models are better, by BLEU", _bigger_by_bleu),
    ("bigger-perplexity", "bigger models are better, by perplexity", _bigger_by_perplexity),
    ("dropout", "dropout is very helpful in avoiding over-fitting", _dropout),
    ("smoothing", "label smoothing hurts perplexity, but improves BLEU (5.4)", _smoothing),
    ("learned", "learned positions give nearly identical results", _learned),
)
