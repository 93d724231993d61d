"""How good outputs are: metrics, and a model on the sets of its own corpus."""
