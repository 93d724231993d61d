"""Grammar of the built-in corpus: it generates English-German sentence pairs with English trees.

A sentence is sampled as one structure, which is then converted to an English tree and to German text. Each module only
uses modules that come earlier in this list:

    tables, lexicon                   words, as tables and as objects
    morphology                        inflection of both languages
    nominals, clauses                 phrases, clauses and sentences, their word order, and their conversion to text
    nominal_sampler, clause_sampler   random choice of the content (clause_plan: inputs of clause_sampler)
    corpus                            sentences, divided into train, dev and test

If you change the grammar, increase `VERSION` in `zoo/data/builtin.py`, and write the files in `zoo/data/builtin_pairs`
again with `python -m tests.grammar`.
"""
