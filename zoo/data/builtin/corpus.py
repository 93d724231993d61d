"""Sentences of the built-in corpus, sampled at random and divided into train, dev and test."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice

from specs import ZooError, nearest
from zoo.data.builtin.clause_plan import ClauseRequest
from zoo.data.builtin.clause_sampler import ClauseSampler
from zoo.data.builtin.clauses import Argument, Clause, Sentence, SubordinateClause
from zoo.data.builtin.lexicon import LEXICON, Lexicon
from zoo.data.builtin.morphology import ClauseType
from zoo.data.builtin.nominal_sampler import RandomChoices
from zoo.data.builtin.nominals import NounPhrase
from zoo.text.trees.tree import Tree, detokenise

VERSION = 1
"""Version of the grammar. Increase it whenever a generated sentence changes, because prepared corpora depend on it."""
MAX_PAIRS = {"train": 5_000_000, "dev": 50_000, "test": 50_000}
"""Number of distinct pairs that each set is guaranteed to have."""
MAX_WORDS = 22
"""Maximum number of words in an English sentence."""
PLAIN_SHARE = 0.25
"""Fraction of pairs without an initial capital and a final punctuation mark, as people type them."""
_REMOVE_MARKS = str.maketrans("", "", ".,?'")


@dataclass(frozen=True, slots=True)
class Pair:
    """English sentence, its German translation, and its constituency tree."""

    source: str
    target: str
    tree: Tree


def sentences(split: str, count: int, seed: int = 0) -> Iterator[Pair]:
    """Yield distinct sentence pairs of the train, dev or test set.

    The same arguments give the same pairs on every machine.

    The sets have no sentence in common, even with different seeds.

    Args:
        split: The set: `train`, `dev` or `test`.
        count: Number of pairs.
        seed: Seed of the random choices.

    Raises:
        ZooError: The set does not exist, or has fewer than `count` pairs.
    """
    if split not in MAX_PAIRS:
        name = nearest(split, MAX_PAIRS)
        hint = f"did you mean `{name}`?" if name else f"use one of {', '.join(MAX_PAIRS)}"
        raise ZooError(f"`{split}` is not a set of the built-in corpus", hint=hint)
    if not 0 <= count <= MAX_PAIRS[split]:
        raise ZooError(
            f"the built-in corpus cannot generate {count:,} pairs for `{split}`",
            hint=f"request 0 to {MAX_PAIRS[split]:,} pairs",
        )
    return islice(_distinct_pairs(split, seed), count)


def split_of(source: str) -> str:
    """Return the set of an English sentence: `train`, or, for a tenth of all sentences each, `dev` or `test`."""
    return _split_of_identity(_identity(source))


def _distinct_pairs(split: str, seed: int) -> Iterator[Pair]:
    random = RandomChoices(str(seed))
    sampler = SentenceSampler(random)
    seen: set[bytes] = set()
    while True:
        sentence = sampler.sentence()
        plain = random.chance(PLAIN_SHARE)
        tree = sentence.english(plain)
        source = detokenise(tree.leaves())
        identity = _identity(source)
        if _split_of_identity(identity) == split and identity not in seen and source.count(" ") < MAX_WORDS:
            seen.add(identity)
            yield Pair(source, sentence.german(plain), tree)


def _identity(source: str) -> bytes:
    """Return a hash of a sentence that does not depend on capitals and punctuation."""
    return blake2b(source.lower().translate(_REMOVE_MARKS).encode(), digest_size=8).digest()


def _split_of_identity(identity: bytes) -> str:
    return {0: "dev", 1: "test"}.get(int.from_bytes(identity, "big") % 10, "train")


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
