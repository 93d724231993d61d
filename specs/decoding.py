"""The section `decoding`: beam search."""

from typing import Annotated

from pydantic import Field

from specs.section import Count, Section, Size


class Decoding(Section):
    """How a translation is looked for (section 6.1)."""

    beam: Size = Field(description="Beam size (6.1: 4); hypotheses. 1 is greedy search.")
    alpha: Annotated[float, Field(ge=0)] = Field(
        description="alpha (6.1: 0.6) of the length penalty ((5 + length) / 6)^alpha of Wu et al. 2016; no unit."
    )
    extra_length: Count = Field(
        description="A translation is at most the source's length plus this (6.1: 50), EOS not counted; pieces."
    )
