"""Foreign vocabularies of source and target, put together as ours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.interop.numbering import Numbering
from zoo.interop.sentence_model import SentenceModel, Type, is_language
from zoo.text.vocabulary import Vocabulary

_CONTROL = {f"<0x{number:02X}>" for number in range(32)}
_TOLD = 8  # codes of languages


@dataclass(frozen=True)
class Joined:
    """A vocabulary in our words, and what the rest of a model is made by."""

    vocabulary: Vocabulary
    source: Numbering
    target: Numbering
    section: dict[str, Any]
    """Fields of `vocabulary` in a spec."""

    @property
    def control(self) -> list[int]:
        """Numbers of the control characters that the target spells in bytes."""
        return [number for number, name in enumerate(self.target.names) if name in _CONTROL]

    @property
    def notes(self) -> list[str]:
        """What is to be said before a source, where a model has several languages."""
        codes = [name for name in self.source.names if is_language(name)]
        if not codes:
            return []
        several = ", ".join(codes[:_TOLD]) + (f" and {len(codes) - _TOLD} more" if len(codes) > _TOLD else "")
        return [f"it translates into several languages: each source begins with the code of one ({several})"]


def joined(first: SentenceModel, second: SentenceModel | None, source: Numbering, target: Numbering) -> Joined:
    """Of one model of both sides, or of two, whose numbers are the same where `source` is `target`."""
    shared = source is target
    vocabulary = Vocabulary(first.numbered(source), None if second is None else second.numbered(target))
    said = section(vocabulary, first.kind, shared=shared, separate_models=shared and second is not None)
    return Joined(vocabulary, source, target, said)


def section(vocabulary: Vocabulary, kind: str, *, shared: bool, separate_models: bool) -> dict[str, Any]:
    """What `vocabulary` of a spec says of this one."""
    source, target = vocabulary.sizes
    return {
        "kind": kind,
        "size": source,
        "target_size": None if source == target else target,
        "byte_fallback": vocabulary.byte_fallback,
        "shared": shared,
        "separate_models": separate_models,
    }


def cut_otherwise(models: Sequence[SentenceModel], listed: Collection[str]) -> list[str]:
    """What the models cut text into and a list of tokens does not have: a foreign engine takes it for unknown."""
    cut = (name for model in models for name in model.named(Type.NORMAL, Type.USER_DEFINED, Type.BYTE))
    return [name for name in cut if name not in listed]
