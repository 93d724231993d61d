"""Calls that must fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from specs import ZooError


def refused(pattern: str | None, function: Callable[..., object], /, *arguments: object, **options: object) -> ZooError:
    """Call a function that must raise a ZooError whose text matches a pattern, if any, and return the error."""
    with pytest.raises(ZooError, match=pattern) as raised:
        function(*arguments, **options)
    return raised.value
