"""Built-in corpus: a synchronous grammar that generates English-German sentence pairs with English trees.

A sentence is sampled as one structure, which is then converted to an English tree and to German text. Each module only
uses modules that come earlier in this list:

    tables, lexicon                   words, as tables and as objects
    morphology                        inflection of both languages
    nominals, clauses                 phrases, clauses and sentences, their word order, and their conversion to text
    nominal_sampler, clause_sampler   random choice of the content (clause_plan: inputs of clause_sampler)
    corpus                            sentences, divided into train, dev and test
"""

from zoo.data.builtin.corpus import VERSION, Pair, sentences

__all__ = ["VERSION", "Pair", "sentences"]
