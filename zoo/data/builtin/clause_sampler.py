"""Clauses drawn at random: verb, subject, tense, what the verb asks for, adjuncts, order.

One principle keeps English unambiguous: what is long comes last. A clause that ends in another clause has
nothing of its own behind that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from zoo.data.builtin.clause import Adjunct, Argument, Clause, Constituent, Predicate, Subordinate
from zoo.data.builtin.draw import Draw
from zoo.data.builtin.features import Case, Kind
from zoo.data.builtin.gap_sampler import GapSampler
from zoo.data.builtin.hosts import Host, Hosts
from zoo.data.builtin.nominal_sampler import WEATHER, NominalSampler, Wish
from zoo.data.builtin.nominals import Nominal, NounPhrase, Pronoun
from zoo.data.builtin.order import Field
from zoo.data.builtin.setting import SUBJECT, Scene, Setting
from zoo.data.builtin.words import Conjunction, Lexicon, Marking, Slot, Sorts, Spot

GENITIVE = Marking("of", "", Case.GENITIVE)
THAT = Conjunction("that", "dass", "dass")
WHETHER = Conjunction("whether", "ob", "ob")
PERSON: Sorts = frozenset({"person"})
ANIMATE: Sorts = frozenset({"person", "animal"})
# Determiners that subjects and objects may have. Where a clause is negated, its subject is definite (`nicht` would
# not reach it), and only its last object may be what `kein` takes.
SUBJECT_GROUPS = {"+": "diqn", "-": "d", "never": "d"}
OBJECT_GROUPS = {"+": "diq", "-": "d", "never": "diq"}


class ClauseSampler:
    """Draws clauses, and what is embedded in them."""

    def __init__(self, draw: Draw, lexicon: Lexicon) -> None:
        self._draw = draw
        self._lexicon = lexicon
        self._nominals = NominalSampler(draw, lexicon)
        self._hosts = Hosts(lexicon)
        self._gaps = GapSampler(draw, lexicon, self._hosts, self._nominals, self._on)
        self._fillers: dict[str, Callable[[Slot, Scene], Constituent]] = {
            "nominal": self._object,
            "place": lambda slot, scene: self._spot(lexicon.locations, Field.PLACE),
            "goal": lambda slot, scene: self._spot(lexicon.goals, Field.DIRECTION),
            "direction": lambda slot, scene: self._spot(lexicon.directions, Field.DIRECTION),
            "predicate": self._predicate,
            "that": self._that,
            "question": self._question,
            "infinitive": self._infinitive,
        }

    def clause(self, setting: Setting) -> Clause:
        """A clause on any verb."""
        return self._on(self._draw.weighted(self._hosts.all if setting.room else self._hosts.simple), setting)

    def weather(self, setting: Setting) -> Clause:
        """A clause about the weather."""
        return self._on(self._draw.weighted(self._hosts.weather), setting)

    def asking(self, setting: Setting) -> Clause:
        """A clause opened by a question word."""
        return self._gaps.asking(setting)

    def _on(self, host: Host, setting: Setting) -> Clause:
        """A clause on that verb in that frame."""
        scene = self._scene(host, setting)
        parts = [] if setting.kind is Kind.INFINITIVE else [setting.given.get(0) or Argument(scene.subject, SUBJECT)]
        arguments = [*self._arguments(scene)]
        closed = any(map(_closes, arguments))
        parts += [*self._frequency(scene), *arguments, *(() if closed else self._adjuncts(scene))]
        front = setting.front
        if front is None and setting.kind is Kind.STATEMENT:
            front = self._front(scene, parts, closed)
        if front is not None and not any(part is front for part in parts):
            parts.append(front)
        position = next((index for index, part in enumerate(parts) if part is front), None)
        negated = scene.polarity == "-"
        return Clause(setting.kind, host.verb, scene.tense, scene.subject.agreement, tuple(parts), position, negated)

    def _scene(self, host: Host, setting: Setting) -> Scene:
        weights = {Kind.INFINITIVE: (1, 0, 0), Kind.QUESTION: (90, 8, 2)}.get(setting.kind, (79, 17, 4))
        polarity = self._draw.weighted(tuple(zip(weights, ("+", "-", "never"), strict=True)))
        subject = self._subject(host, setting, polarity)
        sign = "-" if polarity == "-" else "+"
        tenses = [
            (weight, tense)
            for weight, tense in self._lexicon.tenses
            if sign in tense.polarity
            and setting.past in (None, tense.past)
            and (subject.sort in ANIMATE or not tense.animate)
        ]
        tense = tenses[0][1] if setting.kind is Kind.INFINITIVE else self._draw.weighted(tenses)
        return Scene(setting, host, polarity, subject, tense, [subject])

    def _subject(self, host: Host, setting: Setting, polarity: str) -> Nominal:
        given = setting.given.get(0)
        if isinstance(given, Argument):
            return given.nominal
        if "weather" in host.verb.subject:
            return WEATHER
        groups = OBJECT_GROUPS if setting.kind is Kind.QUESTION else SUBJECT_GROUPS
        wish = Wish(host.verb.subject, groups[polarity], antecedent=setting.antecedent)
        return self._modified(self._nominals.nominal(wish), setting.room, in_subject=True)

    def _arguments(self, scene: Scene) -> Iterator[Constituent]:
        """What the verb asks for, in English order."""
        for index, slot in enumerate(scene.host.frame, 1):
            if index in scene.setting.given:
                yield scene.setting.given[index]
            elif not slot.optional or self._draw.chance(0.35):
                yield self._fillers[slot.kind](slot, scene)

    def _object(self, slot: Slot, scene: Scene) -> Constituent:
        """A nominal that the verb asks for: `I` and `it` but once in a clause, no pronoun after a bare object."""
        frame, negated = scene.host.frame, scene.polarity == "-"
        bare = [other for other in frame if other.kind == "nominal" and not other.marking.english]
        second = slot in bare[1:]
        said_it = any(isinstance(nominal, Pronoun) and nominal.neutral for nominal in scene.said)
        wish = Wish(
            slot.sorts,
            "di" if negated and slot is frame[-1] else OBJECT_GROUPS[scene.polarity],
            pronoun=not second,
            first_person=all(nominal.agreement.person != 1 for nominal in scene.said),
            antecedent=None if second or said_it or slot.marking.german else scene.setting.antecedent,
        )
        room = scene.setting.room if len(frame) == 1 else 0
        scene.said.append(self._modified(self._nominals.nominal(wish), room, in_subject=False))
        return Argument(scene.said[-1], slot.marking)

    def _spot(self, spots: Sequence[Spot], role: Field) -> Constituent:
        spot = self._draw.one_of([spot for spot in spots if spot.sorts & self._lexicon.nouns.keys()])
        return Argument(self._nominals.noun_phrase(Wish(spot.sorts, "di")), spot.marking, role)

    def _predicate(self, slot: Slot, scene: Scene) -> Constituent:
        sort = scene.subject.sort
        quality = self._nominals.compared(sort) if self._draw.chance(0.35) else None
        if not (quality and quality.comparative):
            return Predicate(self._nominals.predicates(sort))
        return Predicate((quality,), self._nominals.nominal(Wish(frozenset({sort}), "di", pronoun=False)))

    def _that(self, slot: Slot, scene: Scene) -> Constituent:
        return Subordinate(self.clause(Setting(Kind.EMBEDDED, room=scene.setting.room - 1)), THAT)

    def _question(self, slot: Slot, scene: Scene) -> Constituent:
        setting = Setting(Kind.EMBEDDED, room=scene.setting.room - 1)
        if self._draw.chance(0.4):
            return Subordinate(self.clause(setting), WHETHER)
        return Subordinate(self.asking(setting))

    def _infinitive(self, slot: Slot, scene: Scene) -> Constituent:
        host = self._draw.weighted(self._hosts.of_subject[scene.subject.sort])
        return Subordinate(self._on(host, Setting(Kind.INFINITIVE, given={0: Argument(scene.subject, SUBJECT)})))

    def _modified(self, nominal: Nominal, room: int, in_subject: bool) -> Nominal:
        """Now and then a noun with something behind it."""
        if not isinstance(nominal, NounPhrase):
            return nominal
        choices: tuple[tuple[float, Callable[[NounPhrase, int], NounPhrase]], ...] = (
            (75, _unmodified),
            (12 * bool(room), self._gaps.with_relative),
            (5 * (nominal.determiner.tag != "PRP$"), self._with_genitive),
            (5 * (in_subject and nominal.sort in ANIMATE), self._with_phrase),
        )
        return self._draw.weighted(choices)(nominal, room)

    def _with_genitive(self, phrase: NounPhrase, room: int) -> NounPhrase:
        """`of` after a noun is a genitive, whose own determiner has to show it."""
        owner = self._nominals.noun_phrase(Wish(PERSON, "d"))
        return replace(phrase, modifier=Argument(owner, GENITIVE))

    def _with_phrase(self, phrase: NounPhrase, room: int) -> NounPhrase:
        """A prepositional phrase within a subject; in an object it could be taken to belong to the verb."""
        return replace(phrase, modifier=self._spot(self._lexicon.locations, Field.PLACE))

    def _frequency(self, scene: Scene) -> Iterator[Constituent]:
        if scene.polarity == "never":
            yield Adjunct(self._lexicon.never, Field.FREQUENCY)
        elif scene.polarity == "+" and scene.setting.kind is not Kind.INFINITIVE and self._draw.chance(0.07):
            yield Adjunct(self._draw.one_of(self._lexicon.frequencies), Field.FREQUENCY)

    def _adjuncts(self, scene: Scene) -> Iterator[Constituent]:
        """What the verb admits beside what it asks for, in English order; less of it in embedded clauses."""
        often = 1.0 if scene.setting.kind in (Kind.STATEMENT, Kind.QUESTION) else 0.5
        admitted = scene.host.verb.adjuncts
        if "m" in admitted and self._draw.chance(0.14 * often):
            yield Adjunct(self._draw.one_of(self._lexicon.manners), Field.MANNER)
        if "c" in admitted and self._draw.chance(0.12 * often):
            companion = self._nominals.noun_phrase(Wish(ANIMATE, "d"))
            yield Argument(companion, self._draw.one_of(self._lexicon.companions), Field.COMPANION)
        if "p" in admitted and self._draw.chance(0.2 * often):
            yield self._spot(self._lexicon.locations, Field.PLACE)
        if scene.setting.front is None and self._draw.chance(0.25 * often):
            yield from self._time(scene)

    def _time(self, scene: Scene) -> Iterator[Constituent]:
        groups = self._lexicon.times[scene.tense.era]
        if scene.setting.kind is not Kind.INFINITIVE and groups:
            yield Adjunct(self._draw.one_of(self._draw.weighted(groups)), Field.TIME)

    def _front(self, scene: Scene, parts: list[Constituent], closed: bool) -> Constituent | None:
        """What a statement opens with, if not its subject: a time or a place; a closed clause has none elsewhere."""
        if closed:
            return next(self._time(scene), None) if self._draw.chance(0.12) else None
        movable = [part for part in parts if part.field in (Field.TIME, Field.PLACE)]
        return self._draw.one_of(movable) if movable and self._draw.chance(0.4) else None


def _unmodified(phrase: NounPhrase, room: int) -> NounPhrase:
    return phrase


def _closes(part: Constituent) -> bool:
    """Whether a constituent ends in a clause."""
    if isinstance(part, Argument) and isinstance(part.nominal, NounPhrase):
        return isinstance(part.nominal.modifier, Subordinate)
    return isinstance(part, Subordinate)
