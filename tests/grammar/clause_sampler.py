"""Random sampling of clauses: verb, subject, tense, complements, adjuncts and word order.

One principle keeps English unambiguous: long constituents come last. After a constituent that ends in a clause, the
outer clause has no further constituents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tests.grammar.clause_plan import SUBJECT_MARKING, ClauseDraft, ClauseRequest, FrameIndex, VerbFrame
from tests.grammar.clauses import Adjunct, Argument, Clause, Constituent, Position, Predicate, SubordinateClause
from tests.grammar.lexicon import CaseMarking, Conjunction, Lexicon, PlacePreposition, Slot, Sorts
from tests.grammar.morphology import Case, ClauseType
from tests.grammar.nominal_sampler import WEATHER_IT, NominalConstraints, NominalSampler, RandomChoices
from tests.grammar.nominals import WHAT, WHO, Nominal, NounPhrase, Pronoun, RelativePronoun

GENITIVE = CaseMarking("of", "", Case.GENITIVE)
THAT = Conjunction("that", "dass", "dass")
WHETHER = Conjunction("whether", "ob", "ob")
_PERSON: Sorts = frozenset({"person"})
_ANIMATE: Sorts = frozenset({"person", "animal"})
# Permitted groups of determiners (see `Determiner`), by polarity. The subject of a negated clause is definite, because
# `nicht` cannot negate it. Only the last object of a negated clause may have a determiner that becomes `kein`.
_SUBJECT_GROUPS = {"+": "diqn", "-": "d", "never": "d"}
_OBJECT_GROUPS = {"+": "diq", "-": "d", "never": "diq"}


class ClauseSampler:
    """Samples clauses with all clauses and phrases that are embedded in them."""

    def __init__(self, random: RandomChoices, lexicon: Lexicon) -> None:
        self._random = random
        self._lexicon = lexicon
        self._nominals = NominalSampler(random, lexicon)
        self._frames = FrameIndex(lexicon)
        self._slot_samplers: dict[str, Callable[[Slot, ClauseDraft], Constituent]] = {
            "nominal": self._object,
            "place": lambda slot, draft: self._place(lexicon.locations, Position.PLACE),
            "goal": lambda slot, draft: self._place(lexicon.goals, Position.DIRECTION),
            "direction": lambda slot, draft: self._place(lexicon.directions, Position.DIRECTION),
            "predicate": self._predicate,
            "that": self._that_clause,
            "question": self._embedded_question,
            "infinitive": self._infinitive,
        }

    def clause(self, request: ClauseRequest) -> Clause:
        """Sample a clause with any verb. If no clause may be nested inside, no complement of the verb is a clause."""
        frames = self._frames.all if request.depth else self._frames.simple
        return self._clause_with(self._random.weighted(frames), request)

    def weather_clause(self, request: ClauseRequest) -> Clause:
        """Sample a clause about the weather."""
        return self._clause_with(self._random.weighted(self._frames.weather), request)

    def wh_clause(self, request: ClauseRequest) -> Clause:
        """Sample a clause that begins with a question word."""
        choices = (
            (30, self._who_clause),
            (14, self._what_clause),
            (32, self._which_clause),
            (14, self._where_clause),
            (10, self._when_or_why_clause),
        )
        return self._random.weighted(choices)(request)

    def _clause_with(self, verb_frame: VerbFrame, request: ClauseRequest) -> Clause:
        """Sample a clause with the given verb and its complements."""
        draft = self._draft(verb_frame, request)
        parts: list[Constituent] = []
        if request.type is not ClauseType.INFINITIVE:
            parts.append(request.fixed.get(0) or Argument(draft.subject, SUBJECT_MARKING))
        complements = [*self._complements(draft)]
        ends_in_clause = any(map(_ends_in_clause, complements))
        parts += [*self._frequency(draft), *complements, *(() if ends_in_clause else self._adjuncts(draft))]
        front = request.front
        if front is None and request.type is ClauseType.STATEMENT:
            front = self._front(draft, parts, ends_in_clause)
        if front is not None and not any(part is front for part in parts):
            parts.append(front)
        front_index = next((index for index, part in enumerate(parts) if part is front), None)
        negated = draft.polarity == "-"
        agreement = draft.subject.agreement
        return Clause(request.type, verb_frame.verb, draft.tense, agreement, tuple(parts), front_index, negated)

    def _draft(self, verb_frame: VerbFrame, request: ClauseRequest) -> ClauseDraft:
        """Return a draft of a clause with sampled polarity, subject and tense."""
        weights = {ClauseType.INFINITIVE: (1, 0, 0), ClauseType.QUESTION: (90, 8, 2)}.get(request.type, (79, 17, 4))
        polarity = self._random.weighted(tuple(zip(weights, ("+", "-", "never"), strict=True)))
        subject = self._subject(verb_frame, request, polarity)
        sign = "-" if polarity == "-" else "+"
        tenses = [
            (weight, tense)
            for weight, tense in self._lexicon.tenses
            if sign in tense.polarity
            and request.past in (None, tense.past)
            and (subject.sort in _ANIMATE or not tense.animate)
        ]
        tense = tenses[0][1] if request.type is ClauseType.INFINITIVE else self._random.weighted(tenses)
        return ClauseDraft(request, verb_frame, polarity, subject, tense, [subject])

    def _subject(self, verb_frame: VerbFrame, request: ClauseRequest, polarity: str) -> Nominal:
        fixed = request.fixed.get(0)
        if isinstance(fixed, Argument):
            return fixed.nominal
        if "weather" in verb_frame.verb.subject:
            return WEATHER_IT
        groups = _OBJECT_GROUPS if request.type is ClauseType.QUESTION else _SUBJECT_GROUPS
        constraints = NominalConstraints(verb_frame.verb.subject, groups[polarity], antecedent=request.antecedent)
        return self._with_modifier(self._nominals.nominal(constraints), request.depth, in_subject=True)

    def _complements(self, draft: ClauseDraft) -> Iterator[Constituent]:
        """Yield the complements of the draft's verb, in English word order. Sample those that are not fixed."""
        for index, slot in enumerate(draft.verb_frame.frame, 1):
            if index in draft.request.fixed:
                yield draft.request.fixed[index]
            elif not slot.optional or self._random.chance(0.35):
                yield self._slot_samplers[slot.kind](slot, draft)

    def _object(self, slot: Slot, draft: ClauseDraft) -> Constituent:
        """Sample an object. A clause has at most one `I` or `we` and one `it`. A second object is no pronoun."""
        frame, negated = draft.verb_frame.frame, draft.polarity == "-"
        bare = [other for other in frame if other.kind == "nominal" and not other.marking.english]
        second = slot in bare[1:]
        has_it = any(isinstance(nominal, Pronoun) and nominal.nominative == "it" for nominal in draft.nominals)
        constraints = NominalConstraints(
            slot.sorts,
            "di" if negated and slot is frame[-1] else _OBJECT_GROUPS[draft.polarity],
            pronoun=not second,
            first_person=all(nominal.agreement.person != 1 for nominal in draft.nominals),
            antecedent=None if second or has_it or slot.marking.german else draft.request.antecedent,
        )
        depth = draft.request.depth if len(frame) == 1 else 0
        nominal = self._with_modifier(self._nominals.nominal(constraints), depth, in_subject=False)
        draft.nominals.append(nominal)
        return Argument(nominal, slot.marking)

    def _place(self, prepositions: Sequence[PlacePreposition], position: Position) -> Constituent:
        usable = [known for known in prepositions if known.sorts & self._lexicon.nouns.keys()]
        preposition = self._random.uniform(usable)
        noun_phrase = self._nominals.noun_phrase(NominalConstraints(preposition.sorts, "di"))
        return Argument(noun_phrase, preposition.marking, position)

    def _predicate(self, slot: Slot, draft: ClauseDraft) -> Constituent:
        sort = draft.subject.sort
        adjective = self._nominals.comparative(sort) if self._random.chance(0.35) else None
        if not (adjective and adjective.comparative):
            return Predicate(self._nominals.predicative_adjectives(sort))
        constraints = NominalConstraints(frozenset({sort}), "di", pronoun=False)
        return Predicate((adjective,), self._nominals.nominal(constraints))

    def _that_clause(self, slot: Slot, draft: ClauseDraft) -> Constituent:
        request = ClauseRequest(ClauseType.EMBEDDED, depth=draft.request.depth - 1)
        return SubordinateClause(self.clause(request), THAT)

    def _embedded_question(self, slot: Slot, draft: ClauseDraft) -> Constituent:
        request = ClauseRequest(ClauseType.EMBEDDED, depth=draft.request.depth - 1)
        if self._random.chance(0.4):
            return SubordinateClause(self.clause(request), WHETHER)
        return SubordinateClause(self.wh_clause(request))

    def _infinitive(self, slot: Slot, draft: ClauseDraft) -> Constituent:
        frames = [entry for entry in self._frames.simple if draft.subject.sort in entry[1].verb.subject]
        verb_frame = self._random.weighted(frames)
        fixed = {0: Argument(draft.subject, SUBJECT_MARKING)}
        return SubordinateClause(self._clause_with(verb_frame, ClauseRequest(ClauseType.INFINITIVE, fixed=fixed)))

    def _with_modifier(self, nominal: Nominal, depth: int, in_subject: bool) -> Nominal:
        """Return the nominal. If it is a noun phrase, sometimes add a relative clause, a genitive or a place."""
        if not isinstance(nominal, NounPhrase):
            return nominal
        choices: tuple[tuple[float, Callable[[NounPhrase, int], NounPhrase]], ...] = (
            (75, lambda phrase, depth: phrase),
            (12 * bool(depth), self._with_relative_clause),
            (5 * (nominal.determiner.tag != "PRP$"), self._with_genitive),
            (5 * (in_subject and nominal.sort in _ANIMATE), self._with_place),
        )
        return self._random.weighted(choices)(nominal, depth)

    def _with_relative_clause(self, phrase: NounPhrase, depth: int) -> NounPhrase:
        verb_frame = self._random.weighted(self._frames.by_gap[phrase.sort])
        pronoun = _relative_pronoun(phrase, verb_frame)
        clause = self._clause_with_gap(pronoun, verb_frame, ClauseRequest(ClauseType.EMBEDDED, depth=depth - 1))
        return replace(phrase, modifier=SubordinateClause(clause))

    def _with_genitive(self, phrase: NounPhrase, depth: int) -> NounPhrase:
        """Add a genitive (in English with `of`) to a noun phrase. Its determiner shows the German case."""
        owner = self._nominals.noun_phrase(NominalConstraints(_PERSON, "d"))
        return replace(phrase, modifier=Argument(owner, GENITIVE))

    def _with_place(self, phrase: NounPhrase, depth: int) -> NounPhrase:
        """Add a place to the noun phrase of a subject. After an object, the place could also modify the verb."""
        return replace(phrase, modifier=self._place(self._lexicon.locations, Position.PLACE))

    def _clause_with_gap(self, nominal: Nominal, verb_frame: VerbFrame, request: ClauseRequest) -> Clause:
        """Sample a clause that begins with `nominal`, which fills the gap of the frame."""
        argument = Argument(nominal, verb_frame.gap_marking)
        return self._clause_with(verb_frame, replace(request, fixed={verb_frame.gap: argument}, front=argument))

    def _who_clause(self, request: ClauseRequest) -> Clause:
        return self._clause_with_gap(WHO, self._random.weighted(self._frames.by_gap["person"]), request)

    def _what_clause(self, request: ClauseRequest) -> Clause:
        """Sample a clause with the object `what`, never after a preposition: German would need `worauf` or `womit`."""
        frames = [
            (weight, verb_frame)
            for weight, verb_frame in self._frames.by_gap["thing"]
            if verb_frame.gap and not (verb_frame.gap_marking.english or verb_frame.gap_marking.german)
        ]
        return self._clause_with_gap(WHAT, self._random.weighted(frames), request)

    def _which_clause(self, request: ClauseRequest) -> Clause:
        phrase = self._nominals.noun_phrase(NominalConstraints(frozenset(self._lexicon.nouns), "w"))
        return self._clause_with_gap(phrase, self._random.weighted(self._frames.by_gap[phrase.sort]), request)

    def _where_clause(self, request: ClauseRequest) -> Clause:
        """Sample a clause with `where`. German uses `wo` for a place and `wohin` for a direction."""
        verb_frame = self._random.weighted(self._frames.with_place)
        place = verb_frame.slot_index("place")
        index = place or verb_frame.slot_index("direction") or verb_frame.slot_index("goal") or 0
        position = Position.PLACE if place else Position.DIRECTION
        adverb = Adjunct(self._lexicon.questions["wo" if place else "wohin"], position)
        return self._clause_with(verb_frame, replace(request, fixed={index: adverb}, front=adverb))

    def _when_or_why_clause(self, request: ClauseRequest) -> Clause:
        adverb = Adjunct(self._lexicon.questions[self._random.uniform(("wann", "warum"))], Position.TIME)
        return self._clause_with(self._random.weighted(self._frames.simple), replace(request, front=adverb))

    def _frequency(self, draft: ClauseDraft) -> Iterator[Constituent]:
        if draft.polarity == "never":
            yield Adjunct(self._lexicon.never, Position.FREQUENCY)
        elif draft.polarity == "+" and draft.request.type is not ClauseType.INFINITIVE and self._random.chance(0.07):
            yield Adjunct(self._random.uniform(self._lexicon.frequencies), Position.FREQUENCY)

    def _adjuncts(self, draft: ClauseDraft) -> Iterator[Constituent]:
        """Sample adjuncts that the verb permits, in English order. Embedded clauses have fewer adjuncts."""
        factor = 1.0 if draft.request.type in (ClauseType.STATEMENT, ClauseType.QUESTION) else 0.5
        permitted = draft.verb_frame.verb.adjuncts
        if "m" in permitted and self._random.chance(0.14 * factor):
            yield Adjunct(self._random.uniform(self._lexicon.manners), Position.MANNER)
        if "c" in permitted and self._random.chance(0.12 * factor):
            companion = self._nominals.noun_phrase(NominalConstraints(_ANIMATE, "d"))
            yield Argument(companion, self._random.uniform(self._lexicon.companions), Position.COMPANION)
        if "p" in permitted and self._random.chance(0.2 * factor):
            yield self._place(self._lexicon.locations, Position.PLACE)
        if draft.request.front is None and self._random.chance(0.25 * factor):
            yield from self._time(draft)

    def _time(self, draft: ClauseDraft) -> Iterator[Constituent]:
        groups = self._lexicon.times[draft.tense.time]
        if draft.request.type is not ClauseType.INFINITIVE and groups:
            yield Adjunct(self._random.uniform(self._random.weighted(groups)), Position.TIME)

    def _front(self, draft: ClauseDraft, parts: list[Constituent], ends_in_clause: bool) -> Constituent | None:
        """Return the time or place at the beginning of a statement, or None if the statement begins with the subject.

        If the statement ends in a nested clause, only a new time can be at the beginning.
        """
        if ends_in_clause:
            return next(self._time(draft), None) if self._random.chance(0.12) else None
        movable = [part for part in parts if part.position in (Position.TIME, Position.PLACE)]
        return self._random.uniform(movable) if movable and self._random.chance(0.4) else None


def _relative_pronoun(phrase: NounPhrase, verb_frame: VerbFrame) -> RelativePronoun:
    """Return `who` or `whom` for a person. For other nouns, return `which` after a preposition, otherwise `that`."""
    if phrase.sort == "person":
        return RelativePronoun(phrase, "whom" if verb_frame.gap else "who")
    return RelativePronoun(phrase, "which" if verb_frame.gap_marking.english else "that")


def _ends_in_clause(part: Constituent) -> bool:
    if isinstance(part, Argument) and isinstance(part.nominal, NounPhrase):
        return isinstance(part.nominal.modifier, SubordinateClause)
    return isinstance(part, SubordinateClause)
