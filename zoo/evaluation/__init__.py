"""How good translations are: BLEU and perplexity per word piece."""
