"""Derivations of claims from other numbers that the paper prints: comparisons of systems, and times and costs."""

from __future__ import annotations

import specs
from zoo.paper.claims import CLAIMS, ROWS, Row, parse_printed, power_of_ten, printed_number

_LOWER_IS_BETTER = ("perplexity", "flops")
_SECONDS = {"seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}
_TOLERANCE = 1e-9  # printed numbers are decimal fractions


def better(table: str, column: str, row: str, others: str, without: str = "") -> tuple[bool, str]:
    """Decide whether all numbers of a row are better than those of other rows.

    Args:
        table: Name of the table, such as "table2".
        column: Name of the column.
        row: Key of the row.
        others: Key of the other row, or "earlier" for the best row of the earlier systems.
        without: Part of the names of earlier systems that are left out. Empty to compare with all of them.
    """
    other, cell = _best(table, column, others, without), ROWS[table][row][column]
    sign = _sign(column)
    is_better = all(sign * number.value > sign * float(other[column]) for number in parse_printed(cell))
    return is_better, f"printed: {cell}, and {other[column]} of {_title(other)}"


def difference(table: str, column: str, row: str, others: str) -> tuple[float, str]:
    """Subtract the best number of other rows from that of a row. The arguments are those of `better`."""
    other, cell = _best(table, column, others), ROWS[table][row][column]
    return float(cell) - float(other[column]), f"printed: {cell}, and {other[column]} of {_title(other)}"


def similar(table: str, column: str, row: str, other: str, limit: str) -> tuple[bool, str]:
    """Decide whether the numbers of two rows differ by at most `limit`."""
    gap, words = difference(table, column, row, other)
    return abs(gap) <= float(limit) + _TOLERANCE, words


def share_below(table: str, column: str, row: str, other: str, limit: str) -> tuple[bool, str]:
    """Decide whether the number of a row is less than `limit` times that of another row."""
    cell, whole = ROWS[table][row][column], ROWS[table][other]
    share = float(cell) / float(whole[column])
    return share < float(limit), f"printed: {cell}, and {whole[column]} of {_title(whole)}: a share of {share:.2f}"


def improves(table: str, column: str, *rows: str) -> tuple[bool, str]:
    """Decide whether the numbers of a column improve from each row to the next."""
    values = [float(ROWS[table][row][column]) for row in rows]
    ordered = sorted(set(values), reverse=_sign(column) < 0)
    return values == ordered, f"printed: {', '.join(f'{value:g}' for value in values)}"


def one_number(claim: str) -> tuple[bool, str]:
    """Decide whether the paper prints the same number for a claim everywhere."""
    numbers = CLAIMS[claim].printed
    return len({number.value for number in numbers}) == 1, f"printed: {' and '.join(map(str, numbers))}"


def _best(table: str, column: str, others: str, without: str = "") -> Row:
    if others != "earlier":
        return ROWS[table][others]
    rows = (row for row in ROWS[table].values() if "spec" not in row and column in row)
    return max(
        (row for row in rows if not without or without not in row["name"]),
        key=lambda row: _sign(column) * float(row[column]),
    )


def _sign(column: str) -> int:
    return -1 if column.endswith(_LOWER_IS_BETTER) else 1


def _title(row: Row) -> str:
    return row.get("name") or row["says"].partition(":")[0]


def time_of_steps(spec: str, field: str, unit: str) -> tuple[float, str]:
    """Derive the time of training steps from the number of steps and the time of a step.

    Args:
        spec: Short name of the spec.
        field: Field of its `training` that is the number of steps.
        unit: Unit of the time, such as "hours".
    """
    steps, seconds = getattr(specs.load(spec).training, field), printed_number(f"recipe.step-{spec}")
    time = steps * seconds / _SECONDS[unit]
    return time, f"{steps:,} steps x {seconds} s = {time:.3g} {unit}"


def cost_by_steps(spec: str) -> tuple[float, str]:
    """Derive a model's training cost in FLOPs from the number of steps and the time of a step."""
    return cost_by_time(f"{time_of_steps(spec, 'steps', 'seconds')[0]:,.0f} seconds")


def cost_by_time(time: str) -> tuple[float, str]:
    """Derive a model's training cost in FLOPs from its total training time, such as "12 hours"."""
    number, unit = time.split()
    gpus, teraflops = int(printed_number("recipe.devices")), printed_number("table2.p100")
    cost = float(number.replace(",", "")) * _SECONDS[unit] * gpus * teraflops * 1e12
    return cost, f"{time} x {gpus} P100 x {teraflops} TFLOPS = {power_of_ten(cost)}"
