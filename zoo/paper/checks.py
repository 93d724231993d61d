"""Checks of the paper's claims. They compute the status of each claim."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict
from operator import attrgetter
from typing import Any

import specs
from zoo.paper import measured, network, recipe, table1, table2, table3, table4
from zoo.paper.claims import CLAIMS, CheckedClaim, Claim, Status, format_number, power_of_ten
from zoo.paper.runs import Measurements

_MODULES = {
    "network": network,
    "recipe": recipe,
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
}
"""Modules with the functions that derive numbers and decide whether claims are true."""
_FORMATS = {"FLOPs": power_of_ten, "million parameters": "{:.2f}".format}
"""Functions that format numbers of a unit. All other numbers are formatted by `format_number`."""
K = 1024
"""Number that K stands for in the paper's 16K and 32K tokens."""


def check_claims(measurements: Measurements) -> dict[str, CheckedClaim]:
    """Check all claims of the paper. Return the results by the keys of the claims."""
    return {key: check(claim, measurements) for key, claim in CLAIMS.items()}


def check(claim: Claim, measurements: Measurements) -> CheckedClaim:
    """Check a claim in the way that `claims.yaml` specifies."""
    if claim.measure:
        name, *arguments = claim.measure
        checked: CheckedClaim = getattr(measured, name)(claim, measurements, *arguments)
        return checked
    if claim.setting:
        value = attrgetter(claim.setting)(specs.load(claim.spec or ""))
        value = value / K if claim.unit.startswith("K ") else value
        return compare(claim, value, f"value in the spec {claim.spec}", Status.SET)
    if claim.derive:
        return compare(claim, *derive(claim))
    return CheckedClaim(claim, Status.CITED, "a number of another system, which the paper cites")


def derive(claim: Claim) -> tuple[float | bool | None, str]:
    """Call the function that derives a claim.

    Returns:
        The derived number, or whether the claim is true, and a description of the derivation. None instead of a number
        if the paper states one number, but the derivation gives several.
    """
    name, *arguments = claim.derive
    module, _, function = name.partition(".")
    value, reason = getattr(_MODULES[module], function)(*arguments)
    return value, reason


def compare(claim: Claim, value: float | bool | None, reason: str, status: Status = Status.DERIVED) -> CheckedClaim:
    """Compare a derived value with each number that the paper prints for a claim.

    Args:
        claim: The claim.
        value: The number, whether the claim is true, or None if the derivation gives several numbers.
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
        "spec": claim.spec,
        **result,
    }
