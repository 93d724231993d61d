"""What a foreign model says of itself: every key is used, known to change nothing, or refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from specs import ZooError
from specs.notation import quote_in_full


class Settings:
    """Keys and values of one file. A key that was not asked for when `finish` is called is refused."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """`where` is how errors call the place."""
        self.values, self.where = values, where
        self._known: set[str] = set()

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """A whole number. Raises ZooError where it is none, less than `least`, or missing without a default."""
        value = self._value(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        raise self._wrong(key, f"is no whole number from {least} on")

    def number(self, key: str, default: float) -> float:
        """Any number. Raises ZooError where it is none."""
        value = self._value(key, default)
        try:
            return float(value)  # YAML's versions do not agree on 1e-05
        except (TypeError, ValueError):
            raise self._wrong(key, "is no number") from None

    def truth(self, key: str, default: bool) -> bool:
        """Raises ZooError where it is neither true nor false."""
        value = self._value(key, default)
        if isinstance(value, bool):
            return value
        raise self._wrong(key, "is neither true nor false")

    def text(self, key: str, default: str | None = None) -> str:
        """Raises ZooError where it is no text, or missing without a default."""
        value = self._value(key, default)
        if isinstance(value, str):
            return value
        raise self._wrong(key, "is no text")

    def any(self, key: str, default: Any = None) -> Any:
        """Whatever stands there, and `default` where nothing does."""
        self._known.add(key)
        return self.values.get(key, default)

    def require(self, allowed: Mapping[str, Collection[Any]]) -> None:
        """That each key, where it stands there, has one of the values that a spec can say."""
        for key, values in allowed.items():
            self._known.add(key)
            if key in self.values and not any(_same(self.values[key], value) for value in values):
                raise self._wrong(key, "is nothing that a spec can say")

    def without_effect(self, *keys: str) -> None:
        """Keys that change nothing of what the model computes."""
        self._known.update(keys)

    def refused(self, key: str, why: str, hint: str | None = None) -> ZooError:
        """That a spec cannot say what this key does."""
        return self._wrong(key, why, hint)

    def finish(self) -> None:
        """Raises ZooError for a key that nobody has asked for."""
        for key in self.values:
            if key not in self._known:
                raise self._wrong(key, "is not known here, and what it does is not guessed")

    def _value(self, key: str, default: Any) -> Any:
        self._known.add(key)
        if self.values.get(key) is not None:
            return self.values[key]
        if default is None and key not in self.values:
            raise ZooError(f"it does not say `{key}`", where=self.where)
        return default

    def _wrong(self, key: str, why: str, hint: str | None = None) -> ZooError:
        value = quote_in_full(self.values.get(key)).strip("`")
        return ZooError(f"`{key}: {value}` {why}", where=self.where, hint=hint)


def _same(found: Any, value: Any) -> bool:
    """`true` is not 1."""
    return isinstance(found, bool) == isinstance(value, bool) and bool(found == value)
