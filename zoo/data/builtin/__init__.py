"""Built-in corpus: a synchronous grammar that generates English-German sentence pairs with English trees.

A sentence is sampled as one structure whose parts can express themselves in both languages. The modules, each using
those before it:

    tables, lexicon                   words, as tables and as objects
    morphology                        inflection of both languages
    nominals, clauses                 phrases, clauses and sentences, with `english()` and `german()`; word order
    nominal_sampler, clause_sampler   random choice of the content (clause_plan: its inputs)
    corpus                            sentences, divided into train, dev and test
"""

from zoo.data.builtin.corpus import VERSION, Pair, sentences

__all__ = ["VERSION", "Pair", "sentences"]
