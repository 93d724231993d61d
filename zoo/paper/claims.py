"""Read the claims of the paper from `claims.yaml`, and check them.

A claim is a number that the paper reports, or a sentence that can be checked. The status of a claim is never written by
hand: `check` computes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import specs
from zoo.report import figure

if TYPE_CHECKING:
    from zoo.paper.runs import Measurements


@dataclass(frozen=True)
class Printed:
    """Number that the paper reports, as text, such as "65" or "3.3e18".

    If the paper reports different numbers for the same quantity, `where` names the part of the paper that reports this
    number, such as "abstract".
    """

    text: str
    where: str = ""

    @property
    def value(self) -> float:
        """The printed number as a float."""
        return float(self.text)

    @property
    def bounds(self) -> tuple[Fraction, Fraction]:
        """Interval of the numbers that round to the printed digits. The upper bound is excluded."""
        number = Decimal(self.text)
        half = Fraction(10) ** int(number.as_tuple().exponent) / 2
        return Fraction(number) - half, Fraction(number) + half

    def agrees(self, value: float) -> bool:
        """Return whether `value`, rounded to the number of printed digits, equals the printed number."""
        lower, upper = self.bounds
        return lower <= Fraction(value) < upper

    def __str__(self) -> str:
        return f"{self.text} ({self.where})" if self.where else self.text


class Status(StrEnum):
    """Outcome of checking a claim of the paper. The values are the strings that users see."""

    DERIVED = "derived"
    SET = "set in our spec"
    MEASURED = "measured here"
    DIFFERENT = "comes out differently"
    OPEN = "not tested"
    CITED = "another system's"


@dataclass(frozen=True)
class Claim:
    """Statement in the paper, with its section and a specification of how to check it."""

    key: str
    """Unique identifier, which begins with the table or the part of the paper, such as "table3.a-h1.bleu"."""
    section: str
    says: str
    printed: tuple[Printed, ...] = ()
    """Printed numbers. There are several if versions or parts of the paper disagree, and none for some sentences."""
    unit: str = ""
    spec: str = ""
    """Short name of the spec that the claim is about. Empty if the claim is about another system."""
    derive: tuple[str, ...] = ()
    """Module and name of the function that derives the claim, such as "derived.better", and its arguments."""
    setting: str = ""
    """Field of the spec that contains the number."""
    measure: tuple[str, ...] = ()
    """Name of the function in `zoo.paper.runs` that finds a measured number, and its arguments."""


@dataclass(frozen=True)
class CheckedClaim:
    """Claim of the paper, and the result of checking it."""

    claim: Claim
    status: Status
    because: str
    """Reason for the status."""
    value: float | None = None
    """Number that zoo derived or measured, in the claim's unit. None if there is no such number."""
    ours: str = ""
    """Formatted number that zoo derived or measured."""
    runs: tuple[str, ...] = ()
    """Folders of the training runs in which the number was measured."""


Row = Mapping[str, str]
"""Cells in a row of one of the paper's tables."""

# The base loader reads all values as text, so that numbers keep the digits that the paper reports.
PARTS: Mapping[str, Any] = yaml.load(Path(__file__).with_name("claims.yaml").read_text("utf-8"), yaml.BaseLoader)
"""Parts of the paper by their names in `claims.yaml`, with their titles, rows and claims."""
ROWS: Mapping[str, dict[str, Row]] = {part: values.get("rows", {}) for part, values in PARTS.items()}
"""Rows of Tables 1 to 4 by the name of the table ("table1" to "table4") and the name of the row."""


def _table_claims(table: str, columns: Mapping[str, Mapping[str, Any]]) -> Iterator[Claim]:
    """Yield one claim for each cell of a table.

    A column with a unit contains numbers. Empty cells in such a column yield no claim.
    """
    for name, row in ROWS[table].items():
        cells = {**row, "row": name}
        for column, fields in columns.items():
            if "unit" not in fields:
                yield _claim({"key": f"{table}.{name}.{column}", **fields}, cells)
            elif column in row:
                own = fields.get("own", {}) if "spec" in row else {}
                yield _claim({"key": f"{table}.{name}.{column}", "printed": row[column], **fields, **own}, cells)


def _claim(fields: Mapping[str, Any], cells: Row) -> Claim:
    """Create a claim from its fields in the YAML file. Cells of a table row replace placeholders in the fields."""
    filled: dict[str, Any] = {name: _fill(value, cells) for name, value in fields.items() if name != "own"}
    return Claim(**{**filled, "printed": parse_printed(filled.get("printed", ""))})


def parse_printed(cell: str) -> tuple[Printed, ...]:
    """Parse the numbers in a cell, such as "41.8 (abstract) or 41.0 (two versions)"."""
    numbers = (number.partition(" (") for number in cell.split(" or ") if number)
    return tuple(Printed(text, where.rstrip(")")) for text, _, where in numbers)


def _fill(value: str | list[str], cells: Row) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return value.format_map(cells) if cells else value
    return tuple(part.format_map(cells) for part in value)


def _claims() -> Iterator[Claim]:
    for part, values in PARTS.items():
        yield from _table_claims(part, values.get("columns", {}))
        yield from (_claim({"key": f"{part}.{name}", **fields}, {}) for name, fields in values["claims"].items())


CLAIMS: dict[str, Claim] = {claim.key: claim for claim in _claims()}
"""All claims of the paper, keyed by `Claim.key`, in the order of the paper."""


def printed_number(key: str) -> float:
    """Return the first number that the paper reports for the claim with this key."""
    return CLAIMS[key].printed[0].value


def format_number(value: float) -> str:
    """Format a number for display, such as "0.98", "37,000" or "3.283e18"."""
    return power_of_ten(value, 4) if value and not 1e-3 <= abs(value) < 1e7 else figure(value)


def power_of_ten(value: float, digits: int = 3) -> str:
    """Format a number with a power of ten, such as "3.28e18". `digits` is the number of significant digits."""
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


_FORMATS = {"FLOPs": power_of_ten, "million parameters": "{:.2f}".format}
"""Functions that format numbers, keyed by unit. For all other units, `format_number` formats the numbers."""
_K = 1024
"""Value of K in the paper's 16K and 32K tokens."""


def check_claims(measurements: Measurements) -> dict[str, CheckedClaim]:
    """Check all claims of the paper. Return the results, keyed by `Claim.key`."""
    return {key: check(claim, measurements) for key, claim in CLAIMS.items()}


def check(claim: Claim, measurements: Measurements) -> CheckedClaim:
    """Check a claim in the way that `claims.yaml` specifies."""
    if claim.measure:
        name, *arguments = claim.measure
        checked: CheckedClaim = _function(f"runs.{name}")(claim, measurements, *arguments)
        return checked
    if claim.setting:
        value = attrgetter(claim.setting)(specs.load(claim.spec))
        value = value / _K if claim.unit.startswith("K ") else value
        return compare(claim, value, f"value in the spec {claim.spec}", Status.SET)
    if claim.derive:
        name, *arguments = claim.derive
        return compare(claim, *_function(name)(*arguments))
    return CheckedClaim(claim, Status.CITED, "a number for another system, which the paper only cites")


def _function(name: str) -> Any:
    """Import and return a function in `zoo.paper`, given its module and name, such as "derived.better"."""
    module, _, function = name.partition(".")
    return getattr(import_module(f"zoo.paper.{module}"), function)


def compare(claim: Claim, value: float | bool | None, reason: str, status: Status = Status.DERIVED) -> CheckedClaim:
    """Compare a derived value with each number that the paper reports for a claim.

    Args:
        claim: Claim of the paper to check.
        value: The derived number, or a Boolean if the claim is a sentence that is true or false. None if the derivation
            gives several numbers.
        reason: Description of the derivation.
        status: Status of the claim if the value agrees with all printed numbers.
    """
    if isinstance(value, bool):
        return CheckedClaim(claim, status if value else Status.DIFFERENT, reason, ours="yes" if value else "no")
    if value is None:
        return CheckedClaim(claim, Status.DIFFERENT, f"the numbers differ: {reason}")
    ours = _FORMATS.get(claim.unit, format_number)(value)
    wrong = [printed for printed in claim.printed if not printed.agrees(value)]
    if not wrong:
        return CheckedClaim(claim, status, reason, value, ours)
    right = "".join(f"{printed} and " for printed in claim.printed if printed not in wrong)
    because = f"{right}not {' and not '.join(map(str, wrong))}: {reason}"
    return CheckedClaim(claim, Status.DIFFERENT, because, value, ours)


def summary(checked: Collection[CheckedClaim]) -> dict[str, int]:
    """Return the number of claims for each status. The keys are the values of `Status`."""
    return {status.value: sum(each.status is status for each in checked) for status in Status}


def as_json(checked: CheckedClaim) -> dict[str, Any]:
    """Return a claim and the result of its check as a dictionary that can be written as JSON."""
    claim = checked.claim
    result = {name: value for name, value in asdict(checked).items() if name != "claim"}
    return {
        "claim": claim.key,
        "section": claim.section,
        "says": claim.says,
        "printed": [{"value": printed.value, **asdict(printed)} for printed in claim.printed],
        "unit": claim.unit,
        "spec": claim.spec or None,
        **result,
    }
