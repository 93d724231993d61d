"""Write YAML that YAML 1.1 and 1.2 parsers read alike, and quote values in error messages."""

import re
import unicodedata
from collections.abc import Mapping
from math import inf, isfinite

import yaml

# Numbers that YAML 1.1 and YAML 1.2 read alike.
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")

_NUMBER_IN_SOME_YAML = re.compile(
    r"[-+]?(0[xob][0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.[0-9_]+([eE][-+]?[0-9]+)?)"
)
_LINE_BREAKS_IN_YAML_1_1 = frozenset("\x85\u2028\u2029")
_MAX_QUOTED = 100  # characters
_MAX_DIGITS = 4_300  # Python refuses to print longer integers


def format_number(value: float) -> str:
    """Format a number so that YAML 1.1 and YAML 1.2 parsers read it the same way: `300000`, `1.0e-9`."""
    if isinstance(value, int):
        return str(value) if value.bit_length() < 3 * _MAX_DIGITS else hex(value)
    text = repr(value)
    if not isfinite(value):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{int(exponent):+d}"


def parse_number(text: str) -> float | None:
    """Convert text such as "1e-9" or "300_000" to a number. Return None if it is not a finite number."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        return value if isinstance(value, int) or isfinite(value) else None
    return None


def printable(text: str) -> str:
    """Escape all characters of `text` that a terminal would interpret or hide. Line breaks remain."""
    return "".join(char if _is_visible(char) else escape(char) for char in text)


def _is_visible(char: str) -> bool:
    return char.isprintable() or char == "\n" or unicodedata.category(char) == "Zs"


def escape(char: str) -> str:
    r"""Return the escape sequence of a character, such as `\x1b`. Escape a surrogate as the byte that it represents."""
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # Python's stand-in for a byte of a file name that is not UTF-8
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def quote(value: object) -> str:
    """Quote a value for an error message: on one line, in backticks, at most 100 characters.

    A mapping becomes "a mapping", and a list becomes "a list".
    """
    if value is None or isinstance(value, bool):
        return f"`{str(value).lower().replace('none', 'null')}`"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = format_number(value) if isinstance(value, (int, float)) else " ".join(str(value).split())
    return f"`{printable(text)}`" if len(text) <= _MAX_QUOTED else f"`{printable(text[:_MAX_QUOTED])}...`"


def quote_in_full(value: object) -> str:
    """Quote a value as `quote` does, but write out the contents of mappings and lists."""
    if not isinstance(value, (Mapping, list, tuple)):
        return quote(value)
    text = yaml.dump([value], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=inf, default_flow_style=True)
    return quote(text.strip()[1:-1])


def dump(value: Mapping[str, object]) -> str:
    """Return `value` as YAML text. The order of the keys does not change."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """YAML dumper that quotes text which a YAML 1.1 or YAML 1.2 parser would read as a number or another type."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True, so that repeated values are written in full instead of as aliases."""
        return True


def _represent_text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    quoted = _NUMBER_IN_SOME_YAML.fullmatch(value) is not None or not _LINE_BREAKS_IN_YAML_1_1.isdisjoint(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if quoted else None)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, lambda dumper, x: dumper.represent_scalar("tag:yaml.org,2002:float", format_number(x)))
