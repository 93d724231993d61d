"""Largest values of the options for decoding. This module does not import pydantic, so that `zoo --help` is fast."""

MAX_BEAM, MAX_ALPHA, MAX_TEMPERATURE, MAX_TOP_K, MAX_WORKERS = 1_024, 10, 1e6, 1_048_576, 1_024
MAX_N_BEST, MAX_TOKENS, MAX_SEED = 10_000, 100_000_000, 2**63 - 1
MAX_LENGTH_FACTOR = 100
