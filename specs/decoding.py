"""The section `decoding`: beam search or sampling (section 6.1)."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from specs.section import Count, Positive, Section, Size


def _form_of_workers(value: Any) -> str:
    return "word" if isinstance(value, str) else "number"


class Decoding(Section):
    """Options of beam search and sampling (section 6.1)."""

    search: Literal["beam", "sample"]
    """Decoding method (section 6.1: beam). beam is beam search; sample draws each token from the model's
    distribution."""
    beam: Size = Field(le=1_024)
    """Beam size (section 6.1: 4). 1 is greedy search. Sampling ignores it. Unit: hypotheses."""
    alpha: Annotated[float, Field(ge=0, le=10)]
    """alpha, the exponent of the length penalty (section 6.1: 0.6). 0 means no penalty."""
    length_penalty: Literal["gnmt", "power"]
    """Divisor of a hypothesis's log-probability. gnmt: ((5 + length) / 6)^alpha (Wu et al. 2016, cited in section 6.1).
    power: length^alpha, as in Marian, fairseq and transformers. EOS counts in the length."""
    stopping_rule: Literal["admissible", "shrinking", "full"]
    """When beam search ends (not in the paper). admissible: when no unfinished hypothesis can still become one of the
    `beam` best. shrinking: each finished hypothesis reduces the beam size by one, and search ends at 0, as in Marian.
    full: when `beam` hypotheses are finished, as in fairseq and CTranslate2."""
    length_factor: Annotated[float, Field(ge=0, le=100)]
    """A translation has at most `length_factor` times as many tokens as its source, plus `extra_length` (section 6.1:
    1)."""
    extra_length: Count = Field(le=10_000)
    """Tokens added to `length_factor` times the source length to give the maximum length of a translation (section 6.1:
    50). EOS is not counted. With `stopping_rule: shrinking`, a translation that is cut off has one more token, in the
    place of EOS, as in Marian. Unit: tokens."""
    min_length: Count = Field(le=10_000)
    """Minimum length of a translation, without EOS (not in the paper; fairseq and CTranslate2: 1). If it exceeds the
    maximum length, the maximum length applies. Unit: tokens."""
    suppressed_tokens: Annotated[tuple[Annotated[int, Field(ge=0, le=1_048_576)], ...], Field(strict=False)] = Field(
        max_length=1_000
    )
    """IDs of tokens that no translation contains (not in the paper; Marian suppresses the unknown token). The other
    tokens' probabilities are not renormalised."""
    shortlist: bool = False
    """Whether a translation may only contain tokens of the model's vocabulary shortlist, which depends on the
    source (not in the paper; Marian: `--shortlist`). This is faster. Probabilities are normalised over these
    tokens. Only the backend `native` supports it."""
    max_source_length: Size = Field(le=100_000)
    """Maximum length of a source (not in the paper). A longer source is split at sentence boundaries, and its parts are
    translated one by one. A single sentence above the maximum is an error. Unit: tokens."""
    temperature: Positive = Field(le=1e6)
    """Divisor of the logits before a token is sampled (not in the paper). 1.0 changes nothing. Only sampling uses
    it."""
    top_k: Count = Field(le=1_048_576)
    """Sample only from the k most probable tokens (not in the paper). 0 permits all tokens. Unit: tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)]
    """Sample only from the smallest set of most probable tokens whose total probability reaches this value (not in the
    paper). Applied after temperature and top_k. 1.0 permits all tokens. Unit: probability."""
    workers: Annotated[
        Annotated[Literal["auto"], Tag("word")] | Annotated[Annotated[int, Field(ge=1, le=1_024)], Tag("number")],
        Discriminator(_form_of_workers),
    ]
    """Threads that decode batches in parallel (not in the paper). auto: one per core if the backend computes a batch on
    one core, otherwise 1. Unit: threads."""
