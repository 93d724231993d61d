"""Norms and positions of a network, of which each has several kinds with their own options."""

from typing import Annotated, Literal

from pydantic import Field

from specs.section import Count, Epsilon, Section, Size


class Norm(Section):
    """Normalisation of the sub-layers (section 3.1)."""

    kind: Literal["layer_norm", "rms_norm"] = Field(
        description="layer_norm has a gain and a bias (section 3.1; Ba et al. 2016). rms_norm divides by the root mean "
        "square without subtracting the mean, and has a gain (Zhang & Sennrich 2019)."
    )
    placement: Literal["post", "pre", "both"] = Field(
        description="Position of the norms (section 3.1: post). post: after the residual sum. pre: before the "
        "sub-layer, and once more after the last layer. both: before and after the sub-layer, and once more after the "
        "last layer."
    )
    epsilon: Epsilon = Field(
        default=1e-6,
        description="Constant added to the variance or mean square (section 3.1; the paper gives no value).",
    )
    embeddings: bool = Field(
        default=False,
        description="Whether the sums of embeddings and positional encodings are normalised, too (section 3.4: no).",
    )


class Sinusoidal(Section):
    """Sinusoids that are added to the embeddings (section 3.5)."""

    kind: Literal["sinusoidal", "sinusoidal_halves"] = Field(
        description="sinusoidal has sines and cosines in turn (section 3.5). sinusoidal_halves has all sines before "
        "all cosines and a longest wavelength of exactly 10000 x 2 pi, as in the authors' code."
    )
    first: Count = Field(
        default=0,
        le=1_024,
        description="Number of a sentence's first position (section 3.5: 0; OpenNMT-tf: 1; fairseq: 2).",
    )


class Learned(Section):
    """A table of learned vectors (section 3.5; Table 3, row E)."""

    kind: Literal["learned"] = Field(description="Table of learned vectors (section 3.5; Table 3, row E).")
    rows: Size = Field(
        le=1_048_576,
        description="Number of positions in the table, which limits the length of sentences. Unit: positions.",
    )


class Rotary(Section):
    """Rotation of queries and keys by angles that grow with the position (Su et al. 2021)."""

    kind: Literal["rotary"] = Field(
        description="Rotate queries and keys of self-attention by angles that grow with the position, so that their "
        "product depends on the distance (Su et al. 2021, section 3.2). Feature i is paired with i + d_k / 2."
    )
    theta: Annotated[float, Field(gt=1, le=1e9)] = Field(
        default=10_000.0, description="Base of the angles: pair i of d_k / 2 turns by theta^(-2i/d_k) per position."
    )


class Relative(Section):
    """Learned bias of attention scores by distance, as in T5 (Raffel et al. 2020)."""

    kind: Literal["relative"] = Field(
        description="Add a learned number per head to the scores of self-attention, which depends on the distance of "
        "query and key (Raffel et al. 2020, section 2.1). All layers of a stack share these numbers."
    )
    buckets: Annotated[int, Field(ge=4, le=4_096, multiple_of=4)] = Field(
        default=32,
        description="Number of ranges of distances. Small distances have one each, and larger ones share ranges whose "
        "sizes grow exponentially. An encoder divides them between both directions.",
    )
    max_distance: Annotated[int, Field(ge=2, le=1_048_576)] = Field(
        default=128, description="Distance from which on all distances are in the last range. Unit: positions."
    )


class Alibi(Section):
    """Penalty of attention scores in proportion to the distance (Press et al. 2022)."""

    kind: Literal["alibi"] = Field(
        description="Subtract from each score of self-attention the distance of query and key, times a constant slope "
        "of the head (ALiBi; Press et al. 2022, section 3)."
    )


class NoPositions(Section):
    """No positional encoding."""

    kind: Literal["none"] = Field(
        description="No positional encoding. Only convolutions, recurrences and causal attention depend on the order."
    )


Positions = Annotated[Sinusoidal | Learned | Rotary | Relative | Alibi | NoPositions, Field(discriminator="kind")]
