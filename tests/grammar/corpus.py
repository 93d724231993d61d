"""Sentences of the built-in corpus, sampled at random and divided into train, dev and test."""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import blake2b

from tests.grammar.clause_plan import ClauseRequest
from tests.grammar.clause_sampler import ClauseSampler
from tests.grammar.clauses import Argument, Clause, Sentence, SubordinateClause
from tests.grammar.lexicon import LEXICON, Lexicon
from tests.grammar.morphology import ClauseType
from tests.grammar.nominal_sampler import RandomChoices
from tests.grammar.nominals import NounPhrase
from zoo.data.builtin import Pair
from zoo.text.trees.tree import detokenise

MAX_WORDS = 22
"""Maximum number of words in an English sentence."""
PLAIN_SHARE = 0.25
"""Fraction of pairs without an initial capital and a final punctuation mark, as people type them."""
_REMOVE_MARKS = str.maketrans("", "", ".,?'")


def generate(counts: Mapping[str, int]) -> dict[str, list[Pair]]:
    """Generate the first pairs of each set. The same counts give the same pairs on every machine.

    Args:
        counts: Number of pairs of the sets `train`, `dev` and `test`.
    """
    random = RandomChoices("0")
    sampler = SentenceSampler(random)
    sets: dict[str, dict[str, Pair]] = {split: {} for split in counts}
    while any(len(sets[split]) < count for split, count in counts.items()):
        sentence = sampler.sentence()
        plain = random.chance(PLAIN_SHARE)
        tree = sentence.english(plain)
        source = detokenise(tree.leaves())
        identity = source.lower().translate(_REMOVE_MARKS)
        split = _split_of(identity)
        if len(sets[split]) < counts[split] and source.count(" ") < MAX_WORDS:
            sets[split].setdefault(identity, Pair(source, sentence.german(plain), str(tree)))
    return {split: list(pairs.values()) for split, pairs in sets.items()}


def _split_of(identity: str) -> str:
    """Return the set of a sentence without capitals and punctuation. A tenth of all sentences each is dev or test."""
    digest = blake2b(identity.encode(), digest_size=8).digest()
    return {0: "dev", 1: "test"}.get(int.from_bytes(digest, "big") % 10, "train")


class SentenceSampler:
    """Samples sentences with the words of a lexicon, using one random number generator."""

    def __init__(self, random: RandomChoices, lexicon: Lexicon = LEXICON) -> None:
        self._random = random
        self._lexicon = lexicon
        self._clauses = ClauseSampler(random, lexicon)
        self._types = (
            (54, self._statement),
            (12, self._question),
            (12, self._wh_question),
            (13, self._complex_sentence),
            (8, self._compound_sentence),
        )

    def sentence(self) -> Sentence:
        """Sample a sentence of any type."""
        return self._random.weighted(self._types)()

    def _statement(self) -> Sentence:
        return Sentence(self._clauses.clause(ClauseRequest(depth=self._random.weighted(((80, 1), (20, 2))))))

    def _question(self) -> Sentence:
        return Sentence(self._clauses.clause(ClauseRequest(ClauseType.QUESTION, depth=1)))

    def _wh_question(self) -> Sentence:
        return Sentence(self._clauses.wh_clause(ClauseRequest(ClauseType.QUESTION)))

    def _complex_sentence(self) -> Sentence:
        """Sample a main clause with an adverbial clause before or after it.

        In an adverbial clause after the main clause, `it` may refer to a noun phrase in the main clause.
        """
        opens = self._random.chance(0.35)
        main_type = ClauseType.QUESTION if not opens and self._random.chance(0.15) else ClauseType.STATEMENT
        main = self._clauses.clause(ClauseRequest(main_type))
        antecedent = None if opens else _antecedent(main)
        request = ClauseRequest(ClauseType.EMBEDDED, past=main.tense.past, antecedent=antecedent)
        weather = self._random.chance(0.12)
        clause = self._clauses.weather_clause(request) if weather else self._clauses.clause(request)
        usable = [entry for entry in self._lexicon.subordinating if entry[1].translation(clause.tense.past)]
        adverbial = SubordinateClause(clause, self._random.weighted(usable))
        parts = (*main.constituents, adverbial)
        return Sentence(replace(main, constituents=parts, front=len(parts) - 1 if opens else main.front))

    def _compound_sentence(self) -> Sentence:
        """Sample two main clauses. In the second one, `it` may refer to a noun phrase in the first one."""
        first = self._clauses.clause(ClauseRequest())
        conjunction = self._random.uniform(self._lexicon.coordinating)
        return Sentence(first, conjunction, self._clauses.clause(ClauseRequest(antecedent=_antecedent(first))))


def _antecedent(clause: Clause) -> NounPhrase | None:
    """Return the noun phrase to which `it` in the next clause refers: the first singular one that is not a person."""
    bare = (part.nominal for part in clause.constituents if isinstance(part, Argument) and not part.marking.german)
    phrases = (nominal for nominal in bare if isinstance(nominal, NounPhrase))
    return next((phrase for phrase in phrases if not phrase.plural and phrase.sort != "person"), None)
