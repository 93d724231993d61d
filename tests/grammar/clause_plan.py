"""Inputs of the clause sampler: verbs with the complements that they take (frames), and requirements of a clause."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.grammar.clauses import Constituent
from tests.grammar.lexicon import CaseMarking, Lexicon, Slot, Verb
from tests.grammar.morphology import Case, ClauseType, Tense
from tests.grammar.nominals import Nominal, NounPhrase

SUBJECT_MARKING = CaseMarking("", "", Case.NOMINATIVE)
CLAUSE_KINDS = frozenset({"that", "question", "infinitive"})
"""Kinds of slots (complements of a verb) that contain a clause."""


class VerbFrame(NamedTuple):
    """Verb with one of its frames. A frame lists the slots (complements without the subject) that the verb takes.

    `gap` is the index of the nominal that a question asks for, or that a relative pronoun replaces. 0 is the subject,
    and 1 is the first slot.
    """

    verb: Verb
    frame: tuple[Slot, ...]
    gap: int = 0

    def slot_index(self, kind: str) -> int | None:
        """Return the index, from 1, of the first slot of this kind, or None if there is none."""
        return next((index for index, slot in enumerate(self.frame, 1) if slot.kind == kind), None)

    @property
    def gap_marking(self) -> CaseMarking:
        """Prepositions and German case of the nominal at `gap`."""
        return self.frame[self.gap - 1].marking if self.gap else SUBJECT_MARKING


WeightedFrames = list[tuple[float, VerbFrame]]
"""Verbs with their frames, each with its weight in sampling."""


class FrameIndex:
    """Verbs of a lexicon with their frames, grouped by the constructions that can use them.

    Attributes:
        all: All verbs with all their frames.
        simple: Those without a slot for a clause.
        weather: Verbs of the weather, such as `rain`.
        by_gap: Entries of `simple` with a gap, by the semantic sort of the nominal at the gap.
        with_place: Entries of `simple` with a slot for a place or a direction.
    """

    def __init__(self, lexicon: Lexicon) -> None:
        self.all: WeightedFrames = [
            (weight / len(group) / len(verb.frames), VerbFrame(verb, frame))
            for weight, group in lexicon.verbs
            for verb in group
            for frame in verb.frames
        ]
        self.simple = [entry for entry in self.all if not any(slot.kind in CLAUSE_KINDS for slot in entry[1].frame)]
        self.weather = [entry for entry in self.all if "weather" in entry[1].verb.subject]
        self.by_gap = {sort: [*_frames_with_gap(self.simple, sort)] for sort in lexicon.nouns}
        self.with_place = [
            entry for entry in self.simple if any(map(entry[1].slot_index, ("place", "direction", "goal")))
        ]


def _frames_with_gap(frames: WeightedFrames, sort: str) -> Iterator[tuple[float, VerbFrame]]:
    """Yield the frames in which a nominal of this semantic sort can be the gap of a question or relative clause.

    If a frame has two objects without prepositions, neither can be the gap, because an English sentence would
    not show which of the two is missing.
    """
    for weight, (verb, frame, _) in frames:
        if sort in verb.subject:
            yield weight, VerbFrame(verb, frame, 0)
        bare_objects = sum(slot.kind == "nominal" and not slot.marking.english for slot in frame)
        for index, slot in enumerate(frame, 1):
            if slot.kind == "nominal" and sort in slot.sorts and (slot.marking.english or bare_objects == 1):
                yield weight, VerbFrame(verb, frame, index)


@dataclass(frozen=True, slots=True)
class ClauseRequest:
    """Requirements of a clause before it is sampled.

    Attributes:
        type: Type of the clause.
        past: Whether the finite verb must be in the past, or None for any tense.
        depth: Maximum depth of clauses that are nested inside this one.
        fixed: Constituents that are already chosen, by index in the frame (0 is the subject).
        front: Constituent at the beginning of the clause, possibly one of `fixed`. None: not chosen yet.
        antecedent: Earlier noun phrase to which `it` may refer, if any.
    """

    type: ClauseType = ClauseType.STATEMENT
    past: bool | None = None
    depth: int = 0
    fixed: Mapping[int, Constituent] = field(default_factory=dict)
    front: Constituent | None = None
    antecedent: NounPhrase | None = None


@dataclass(frozen=True, slots=True)
class ClauseDraft:
    """Partly sampled clause: the subject, the verb and the tense are chosen, and the objects are being sampled.

    Attributes:
        request: Requirements of the clause.
        verb_frame: Verb with its frame.
        polarity: `+` (affirmative), `-` (negated) or `never`.
        subject: The subject.
        tense: Tense or mood.
        nominals: Nominals that were sampled so far, starting with the subject.
    """

    request: ClauseRequest
    verb_frame: VerbFrame
    polarity: str
    subject: Nominal
    tense: Tense
    nominals: list[Nominal]
