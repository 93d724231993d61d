"""A small synchronous grammar of English and German: the built-in corpus.

A sentence is drawn as one structure, of which every part says itself in both languages:

    words -> nominals -> clause -> sentence      what there is to say, `english()` and `german()` side by side
    declension, conjugation, order               where endings, verb forms and word order are decided
    nouns, verbs, adverbials -> lexicon          words, as tables
    nominal, gap, clause, sentence sampler       what is said, by chance
"""

from zoo.data.builtin.pairs import VERSION, Pair, sentences

__all__ = ["VERSION", "Pair", "sentences"]
