"""Which verbs a clause can be built on, and where in their frames a nominal may be asked for or referred to."""

from collections.abc import Iterator
from typing import NamedTuple

from zoo.data.builtin.words import Lexicon, Slot, Verb

EMBEDDING = frozenset({"that", "question", "infinitive"})
"""Kinds of slots that are filled with a clause."""


class Host(NamedTuple):
    """A verb in one of its frames. `gap` is the place of one nominal: 0 the subject, 1 the first slot."""

    verb: Verb
    frame: tuple[Slot, ...]
    gap: int = 0

    def place_of(self, kind: str) -> int | None:
        """Where a slot of that kind is, if there is one."""
        return next((index for index, slot in enumerate(self.frame, 1) if slot.kind == kind), None)


Choices = list[tuple[float, Host]]
"""Hosts with how often each is drawn."""


class Hosts:
    """The hosts of a lexicon, by what is looked for. `simple` ones ask for no other clause."""

    def __init__(self, lexicon: Lexicon) -> None:
        self.all: Choices = [
            (weight / len(group) / len(verb.frames), Host(verb, frame))
            for weight, group in lexicon.verbs
            for verb in group
            for frame in verb.frames
        ]
        self.simple = [entry for entry in self.all if not any(slot.kind in EMBEDDING for slot in entry[1].frame)]
        self.weather = [entry for entry in self.all if "weather" in entry[1].verb.subject]
        self.of_subject = {
            sort: [entry for entry in self.simple if sort in entry[1].verb.subject] for sort in lexicon.nouns
        }
        self.of_gap = {sort: [*_gaps(self.simple, sort)] for sort in lexicon.nouns}
        self.placed = [entry for entry in self.simple if any(map(entry[1].place_of, ("place", "direction", "goal")))]


def _gaps(known: Choices, sort: str) -> Iterator[tuple[float, Host]]:
    """Places for a nominal of that sort. Of two bare objects English would not show which one is missing."""
    for weight, (verb, frame, _) in known:
        if sort in verb.subject:
            yield weight, Host(verb, frame, 0)
        bare = sum(slot.kind == "nominal" and not slot.marking.english for slot in frame)
        for index, slot in enumerate(frame, 1):
            if slot.kind == "nominal" and sort in slot.sorts and (slot.marking.english or bare == 1):
                yield weight, Host(verb, frame, index)
