"""Access to the settings of another toolkit's model. Unknown keys are errors.

A key is known if a method has read it, or if `known_settings.yaml` lists it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from specs import ZooError
from specs.notation import quote_in_full

_KNOWN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("known_settings.yaml").read_text("utf-8"))


def known_settings(section: str) -> Mapping[str, Any]:
    """Return a section of `known_settings.yaml`."""
    section_values: Mapping[str, Any] = _KNOWN[section]
    return section_values


class Settings:
    """Keys and values of one settings file. At the end, `require_all_known` rejects keys that no other method read."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """Wrap the settings.

        Args:
            values: The settings.
            where: The file, for error messages.
        """
        self.values, self.where = values, where
        self.known: set[str] = set()
        """Keys that were read or ignored."""

    def integer(self, key: str, default: int | None = None, *, minimum: int = 0) -> int:
        """Return an integer.

        Raises:
            ZooError: The value is not an integer, it is below the minimum, or it is missing and has no default.
        """
        value = self._value(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value >= minimum:
            return value
        raise self.error(key, f"is not an integer of at least {minimum}")

    def number(self, key: str, default: float) -> float:
        """Return a number. Raise ZooError if the value is not a number."""
        value = self._value(key, default)
        try:
            return float(value)  # a YAML parser may return 1e-05 as text
        except (TypeError, ValueError):
            raise self.error(key, "is not a number") from None

    def boolean(self, key: str, default: bool) -> bool:
        """Return a Boolean. Raise ZooError if the value is neither true nor false."""
        value = self._value(key, default)
        if isinstance(value, bool):
            return value
        raise self.error(key, "is neither true nor false")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string. Raise ZooError if the value is not a string, or is missing and has no default."""
        value = self._value(key, default)
        if isinstance(value, str):
            return value
        raise self.error(key, "is not text")

    def any(self, key: str, default: Any = None) -> Any:
        """Return a value of any type, or the default if the key is missing."""
        self.known.add(key)
        return self.values.get(key, default)

    def require(self, allowed: Mapping[str, Collection[Any]]) -> None:
        """Raise ZooError if a key is present and its value is not one of the allowed values."""
        for key, values in allowed.items():
            self.known.add(key)
            if key in self.values and not any(_equal(self.values[key], value) for value in values):
                raise self.error(key, "is a setting that zoo does not support")

    def require_known(self, *sections: str) -> None:
        """Check the settings that sections of `known_settings.yaml` list.

        Raises:
            ZooError: A setting has a value that zoo does not support.
        """
        for section in sections:
            known = known_settings(section)
            self.require(known.get("allowed", {}))
            self.ignore(*known.get("ignored", "").split())

    def ignore(self, *keys: str) -> None:
        """Accept any value of these keys, because they do not change what the model computes."""
        self.known.update(keys)

    def require_all_known(self) -> None:
        """Raise ZooError if there is a key that no other method has read."""
        for key in self.values:
            if key not in self.known:
                raise self.error(key, "is an unknown setting, which may change what the model computes")

    def error(self, key: str, problem: str, hint: str | None = None) -> ZooError:
        """Return an error about the value of a key.

        Args:
            key: The key.
            problem: What is wrong, as the end of a sentence that begins with the key and its value.
            hint: What the user can do.
        """
        value = quote_in_full(self.values.get(key)).strip("`")
        return ZooError(f"`{key}: {value}` {problem}", where=self.where, hint=hint)

    def _value(self, key: str, default: Any) -> Any:
        self.known.add(key)
        if self.values.get(key) is not None:
            return self.values[key]
        if default is None and key not in self.values:
            hint = "restore the file from the model's original source"
            raise ZooError(f"the setting `{key}` is missing", where=self.where, hint=hint)
        return default


def _equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal and both or neither are Booleans. In Python, True equals 1."""
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)
