"""Which part of an attention is looked at first: whose, of which layer, in which heads, of which word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from specs import ZooError
from specs.errors import nearest
from zoo.generation.attention import Attention


@dataclass(frozen=True)
class Kind:
    """One of the three attentions of the paper (3.2.3), as it is told, and where an `Attention` has it."""

    title: str
    looks: str
    """What a row is."""
    seen: str
    """What a column is."""
    weights: str
    rows: str
    columns: str

    def of(self, found: Attention) -> tuple[Float[Tensor, "layers h rows columns"], Sequence[str], Sequence[str]]:
        """Its weights, and what its rows and columns are called."""
        return getattr(found, self.weights), getattr(found, self.rows), getattr(found, self.columns)


_WRITTEN = "The target, as it is written"
KINDS: Mapping[str, Kind] = {
    "encoder": Kind("Encoder", "The source, as it is read", "The source", "encoder", "source", "source"),
    "decoder": Kind("Decoder", _WRITTEN, "The target so far", "decoder", "target", "target_input"),
    "encoder-decoder": Kind("Encoder-decoder", _WRITTEN, "The source", "cross", "target", "source"),
}


@dataclass(frozen=True)
class View:
    """Layers and heads count from 1, as the paper counts them; `word` is a row, from 0, and None where it is all."""

    kind: str
    layer: int
    heads: tuple[int, ...]
    word: int | None = None

    @classmethod
    def of(
        cls,
        found: Attention,
        kind: str | None = None,
        layer: int | None = None,
        heads: Sequence[int] = (),
        word: str | None = None,
    ) -> View:
        """What is asked for, and otherwise the first kind that the model has, its last layer but one, and all heads.

        Raises ZooError for what the model or the sentence does not have.
        """
        present = [name for name, each in KINDS.items() if len(each.of(found)[0])]
        kind = present[0] if kind is None else kind
        if kind not in present:
            raise ZooError(f"`{kind}` is no attention of this model", hint=f"it has {', '.join(present)}")
        weights, rows, _ = KINDS[kind].of(found.by_words())
        layers, most = weights.shape[:2]
        _require_within("layer", [] if layer is None else [layer], layers)
        _require_within("head", heads, most)
        chosen = tuple(dict.fromkeys(heads)) or tuple(range(1, most + 1))
        return cls(kind, layer or max(1, layers - 1), chosen, None if word is None else _place(word, rows))


def plain(word: str) -> str:
    """A word without the marks that stand at it, in small letters."""
    return word.strip(".,;:!?\"'()[]„“”»«").casefold() or word


def _require_within(called: str, given: Sequence[int], most: int) -> None:
    for number in given:
        if not 1 <= number <= most:
            several = f"{called}s 1 to {most}" if most > 1 else f"one {called}"
            raise ZooError(f"there is no {called} {number}", hint=f"this attention has {several}")


def _place(word: str, rows: Sequence[str]) -> int:
    """Where a word first stands: as it is written, or else but for marks and capitals."""
    found = [i for i, each in enumerate(rows) if each == word] or [
        i for i, each in enumerate(rows) if plain(each) == plain(word)
    ]
    if not found:
        near = nearest(word, rows)
        hint = f"did you mean `{near}`?" if near else f"its words are {' '.join(rows)}"
        raise ZooError(f"`{word}` is no word of the sentence", hint=hint)
    return found[0]
