"""How values are written in YAML, so that YAML 1.1 and 1.2 read the same from them."""

import re
import unicodedata
from collections.abc import Mapping
from math import inf, isfinite

import yaml

INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
"""Numbers of which YAML 1.1 and 1.2 agree that they are, and which."""

_NUMBER_OF_EITHER = re.compile(
    r"[-+]?(0[xob][0-9a-fA-F_]+|[0-9][0-9_]*(:[0-5]?[0-9])*(\.[0-9_]*)?([eE][-+]?[0-9]+)?|\.[0-9_]+([eE][-+]?[0-9]+)?)"
)
_BREAKS = frozenset("\x85\u2028\u2029")  # of lines to YAML 1.1, and letters to 1.2
_SHOWN = 100
_DIGITS = 4_300  # Python writes no whole number of more


def number(value: float) -> str:
    """`value` as YAML 1.1 and 1.2 both read it: `300000`, `1.0e-9`."""
    if isinstance(value, int):
        return str(value) if value.bit_length() < 3 * _DIGITS else hex(value)
    text = repr(value)
    if not isfinite(value):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    mantissa = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{mantissa}e{int(exponent):+d}"


def number_meant(text: str) -> float | None:
    """The number that `text` was meant to be ("1e-9", "300_000"), or None where it is none."""
    plain = text.strip().replace("_", "")
    for kind in (int, float):
        try:
            meant = kind(plain)
        except ValueError:
            continue
        return meant if isinstance(meant, int) or isfinite(meant) else None
    return None


def printable(text: str) -> str:
    """`text` with everything written out that a terminal would act upon, hide or refuse; line breaks stay."""
    return "".join(letter if _is_seen(letter) else written_out(letter) for letter in text)


def _is_seen(letter: str) -> bool:
    return letter.isprintable() or letter == "\n" or unicodedata.category(letter) == "Zs"


def written_out(letter: str) -> str:
    """How a letter that nobody should meet is spelled: `\\x1b`, `\\u202e`; a byte of a name as that byte."""
    code = ord(letter)
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a name that is not UTF-8, as Python has it
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def shown(value: object) -> str:
    """`value` as an error message quotes it: short, on one line, in YAML's words."""
    if value is None or isinstance(value, bool):
        return f"`{str(value).lower().replace('none', 'null')}`"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    text = number(value) if isinstance(value, (int, float)) else " ".join(str(value).split())
    return f"`{printable(text)}`" if len(text) <= _SHOWN else f"`{printable(text[:_SHOWN])}...`"


def on_one_line(value: object) -> str:
    """`value` as an error message shows what a field is: as `shown`, but lists and mappings are written out."""
    if not isinstance(value, (Mapping, list, tuple)):
        return shown(value)
    text = yaml.dump([value], Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=inf, default_flow_style=True)
    return shown(text.strip()[1:-1])


class _Dumper(yaml.SafeDumper):
    """Writes text in quotes wherever either YAML would take it for something else."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    quoted = _NUMBER_OF_EITHER.fullmatch(value) is not None or not _BREAKS.isdisjoint(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"' if quoted else None)


def _float(dumper: _Dumper, value: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", number(value))


_Dumper.add_representer(str, _text)
_Dumper.add_representer(float, _float)


def dump(value: Mapping[str, object]) -> str:
    """`value` as YAML text, keys in their own order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
