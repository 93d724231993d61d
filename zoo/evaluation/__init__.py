"""Evaluation of models: BLEU, chrF, TER, perplexity and bracket F1, with significance tests by bootstrap resampling."""
