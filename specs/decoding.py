"""The section `decoding`: beam search or sampling."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from specs.section import Count, Positive, Section, Size

MAX_BEAM, MAX_ALPHA, MAX_TEMPERATURE, MAX_TOP_K, MAX_WORKERS = 1_024, 10, 1e6, 1_048_576, 1_024
MAX_N_BEST, MAX_TOKENS, MAX_SEED = 10_000, 100_000_000, 2**63 - 1
MAX_FACTOR = 100
"""What a choice may be at most, in a spec or without one."""
Workers = Annotated[int, Field(ge=1, le=MAX_WORKERS)]


def _word_or_number(value: Any) -> str:
    return "word" if isinstance(value, str) else "number"


class Decoding(Section):
    """How a translation is looked for (section 6.1)."""

    search: Literal["beam", "sample"] = Field(
        description="beam looks for the best translations (6.1); sample draws from the model's distribution "
        "(the paper is silent), token by token; a choice."
    )
    beam: Size = Field(
        le=MAX_BEAM, description="Beam size (6.1: 4); hypotheses. 1 is greedy search. Samples need none."
    )
    alpha: Annotated[float, Field(ge=0, le=MAX_ALPHA)] = Field(
        description="alpha (6.1: 0.6) of the length penalty; no unit."
    )
    length_penalty: Literal["gnmt", "power"] = Field(
        description="What a hypothesis's log-probability is divided by: ((5 + length) / 6)^alpha of Wu et al. 2016 "
        "(6.1), or length^alpha, as Marian, fairseq and transformers have it; EOS counts; a choice."
    )
    stopping_rule: Literal["admissible", "shrinking", "full"] = Field(
        description="When beam search has ended (the paper is silent): proven, when no hypothesis that lives can come "
        "among the best any more; shrinking, as in Marian, when none lives, each that ends leaving the beam one "
        "narrower; full, as in fairseq and CTranslate2, when as many have ended as the beam is wide, which stays full; "
        "a choice."
    )
    length_factor: Annotated[float, Field(ge=0, le=MAX_FACTOR)] = Field(
        description="A translation is at most the source's length times this, plus `extra_length` (6.1: 1); no unit."
    )
    extra_length: Count = Field(
        le=10_000,
        description="What is added to the source's length, times `length_factor`, for the longest translation (6.1: "
        "50), EOS not counted; tokens.",
    )
    min_length: Count = Field(
        le=10_000,
        description="A translation is at least so long, EOS not counted, where it may be (the paper is silent; fairseq "
        "and CTranslate2: 1); tokens.",
    )
    suppressed_tokens: Annotated[tuple[Annotated[int, Field(ge=0, le=MAX_TOP_K)], ...], Field(strict=False)] = Field(
        max_length=1_000,
        description="Tokens that no translation has (the paper is silent; Marian bars the unknown one), by their "
        "numbers; tokens. They have their share of the probability all the same.",
    )
    max_source_length: Size = Field(
        le=100_000,
        description="A longer source is translated in parts that end where its sentences do, and refused where one "
        "sentence is longer (no letter); tokens.",
    )
    temperature: Positive = Field(
        le=MAX_TEMPERATURE,
        description="Logits are divided by this before a token is drawn (no letter); no unit. Read only by sample, as "
        "are top_k and top_p.",
    )
    top_k: Count = Field(
        le=MAX_TOP_K, description="Only the k likeliest tokens may be drawn (no letter), 0: any; tokens."
    )
    top_p: Annotated[float, Field(gt=0, le=1)] = Field(
        description="Only the fewest likeliest tokens that together reach this may be drawn (no letter), 1.0: any; "
        "a probability. It counts after temperature and top_k."
    )
    workers: Annotated[
        Annotated[Literal["auto"], Tag("word")] | Annotated[Workers, Tag("number")], Discriminator(_word_or_number)
    ] = Field(
        description="Threads that search at the same time, each a batch of its own (no letter); threads. auto: as many "
        "as there are cores where the backend computes one batch on one core, else 1."
    )
