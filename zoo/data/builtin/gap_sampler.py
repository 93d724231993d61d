"""Clauses that are opened by one of their own constituents: questions with a question word, relative clauses."""

from collections.abc import Callable
from dataclasses import replace

from zoo.data.builtin.clause import Adjunct, Argument, Clause, Subordinate
from zoo.data.builtin.draw import Draw
from zoo.data.builtin.features import Kind
from zoo.data.builtin.hosts import Host, Hosts
from zoo.data.builtin.nominal_sampler import NominalSampler, Wish
from zoo.data.builtin.nominals import Nominal, NounPhrase
from zoo.data.builtin.order import Field
from zoo.data.builtin.setting import SUBJECT, Setting
from zoo.data.builtin.wh import WHAT, WHO, Relative
from zoo.data.builtin.words import Lexicon


class GapSampler:
    """Draws such clauses; `build` draws the rest of a clause around what is given."""

    def __init__(
        self,
        draw: Draw,
        lexicon: Lexicon,
        hosts: Hosts,
        nominals: NominalSampler,
        build: Callable[[Host, Setting], Clause],
    ) -> None:
        self._draw = draw
        self._lexicon = lexicon
        self._nominals = nominals
        self._hosts = hosts
        self._build = build

    def asking(self, setting: Setting) -> Clause:
        """A clause opened by a question word."""
        choices = ((30, self._who), (14, self._what), (32, self._which), (14, self._where), (10, self._when_or_why))
        return self._draw.weighted(choices)(setting)

    def with_relative(self, phrase: NounPhrase, room: int) -> NounPhrase:
        """The phrase with a relative clause, in which there is one clause less room."""
        host = self._draw.weighted(self._hosts.of_gap[phrase.sort])
        clause = self._around(self._relative(phrase, host), host, Setting(Kind.EMBEDDED, room=room - 1))
        return replace(phrase, modifier=Subordinate(clause))

    def _relative(self, phrase: NounPhrase, host: Host) -> Relative:
        """English says who and whom of persons, that and (after a preposition) which of all else."""
        marking = host.frame[host.gap - 1].marking if host.gap else SUBJECT
        if phrase.sort == "person":
            return Relative(phrase, "whom" if host.gap else "who")
        return Relative(phrase, "which" if marking.english else "that")

    def _around(self, nominal: Nominal, host: Host, setting: Setting) -> Clause:
        """A clause that the nominal opens, from its place in the frame."""
        given = Argument(nominal, host.frame[host.gap - 1].marking if host.gap else SUBJECT)
        return self._build(host, replace(setting, given={host.gap: given}, front=given))

    def _who(self, setting: Setting) -> Clause:
        return self._around(WHO, self._draw.weighted(self._hosts.of_gap["person"]), setting)

    def _what(self, setting: Setting) -> Clause:
        """Only as a bare object: after a preposition German would have a word of its own, worauf, womit."""
        hosts = [
            (weight, host)
            for weight, host in self._hosts.of_gap["thing"]
            if host.gap and not (host.frame[host.gap - 1].marking.english or host.frame[host.gap - 1].marking.german)
        ]
        return self._around(WHAT, self._draw.weighted(hosts), setting)

    def _which(self, setting: Setting) -> Clause:
        phrase = self._nominals.noun_phrase(Wish(frozenset(self._lexicon.nouns), "w"))
        return self._around(phrase, self._draw.weighted(self._hosts.of_gap[phrase.sort]), setting)

    def _where(self, setting: Setting) -> Clause:
        """The verb decides whether German asks for a place, wo, or for a direction, wohin."""
        host = self._draw.weighted(self._hosts.placed)
        place = host.place_of("place")
        at = place or host.place_of("direction") or host.place_of("goal") or 0
        role = Field.PLACE if place else Field.DIRECTION
        adverb = Adjunct(self._lexicon.questions["wo" if place else "wohin"], role)
        return self._build(host, replace(setting, given={at: adverb}, front=adverb))

    def _when_or_why(self, setting: Setting) -> Clause:
        adverb = Adjunct(self._lexicon.questions[self._draw.one_of(("wann", "warum"))], Field.TIME)
        return self._build(self._draw.weighted(self._hosts.simple), replace(setting, front=adverb))
