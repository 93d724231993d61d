"""Sentences drawn at random."""

from dataclasses import replace

from zoo.data.builtin.clause import Argument, Clause, Subordinate
from zoo.data.builtin.clause_sampler import ClauseSampler
from zoo.data.builtin.draw import Draw
from zoo.data.builtin.features import Kind
from zoo.data.builtin.lexicon import LEXICON
from zoo.data.builtin.nominals import NounPhrase
from zoo.data.builtin.sentence import Sentence
from zoo.data.builtin.setting import Setting
from zoo.data.builtin.words import Lexicon


class SentenceSampler:
    """Draws sentences of a lexicon, from one stream of random numbers."""

    def __init__(self, draw: Draw, lexicon: Lexicon = LEXICON) -> None:
        self._draw = draw
        self._lexicon = lexicon
        self._clauses = ClauseSampler(draw, lexicon)
        self._forms = (
            (54, self._statement),
            (12, self._question),
            (12, self._asking),
            (13, self._complex),
            (8, self._joined),
        )

    def sentence(self) -> Sentence:
        """Any sentence."""
        return self._draw.weighted(self._forms)()

    def _statement(self) -> Sentence:
        return Sentence(self._clauses.clause(Setting(room=self._draw.weighted(((80, 1), (20, 2))))))

    def _question(self) -> Sentence:
        return Sentence(self._clauses.clause(Setting(Kind.QUESTION, room=1)))

    def _asking(self) -> Sentence:
        return Sentence(self._clauses.asking(Setting(Kind.QUESTION)))

    def _complex(self) -> Sentence:
        """A main clause and one of circumstance, behind it or before it; behind it, `it` may look back."""
        opens = self._draw.chance(0.35)
        kind = Kind.QUESTION if not opens and self._draw.chance(0.15) else Kind.STATEMENT
        main = self._clauses.clause(Setting(kind))
        setting = Setting(Kind.EMBEDDED, past=main.tense.past, antecedent=None if opens else antecedent(main))
        clause = self._clauses.weather(setting) if self._draw.chance(0.12) else self._clauses.clause(setting)
        fitting = [entry for entry in self._lexicon.subordinating if entry[1].translation(clause.tense.past)]
        circumstance = Subordinate(clause, self._draw.weighted(fitting))
        parts = (*main.constituents, circumstance)
        return Sentence(replace(main, constituents=parts, front=len(parts) - 1 if opens else main.front))

    def _joined(self) -> Sentence:
        """Two main clauses; in the second, `it` may look back."""
        first = self._clauses.clause(Setting())
        conjunction = self._draw.one_of(self._lexicon.coordinating)
        return Sentence(first, conjunction, self._clauses.clause(Setting(antecedent=antecedent(first))))


def antecedent(clause: Clause) -> NounPhrase | None:
    """What `it` stands for in the next clause: the first nominal of this one that is singular and no person."""
    nominals = (part.nominal for part in clause.constituents if isinstance(part, Argument) and not part.marking.german)
    phrases = (nominal for nominal in nominals if isinstance(nominal, NounPhrase))
    return next((phrase for phrase in phrases if not phrase.plural and phrase.sort != "person"), None)
