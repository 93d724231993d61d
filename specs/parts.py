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
        description="Constant added to the variance or mean square to avoid division by zero (section 3.1; the paper "
        "gives no value).",
    )
    embeddings: bool = Field(
        default=False,
        description="Whether the sums of embeddings and positional encodings are also normalised (section 3.4: no).",
    )


class Sinusoidal(Section):
    """Sinusoids that are added to the embeddings (section 3.5)."""

    kind: Literal["sinusoidal", "sinusoidal_halves"] = Field(
        description="sinusoidal: sines and cosines alternate (section 3.5). sinusoidal_halves: all sines precede all "
        "cosines, and the longest wavelength is exactly 10000 x 2 pi, as in tensor2tensor."
    )
    first: Count = Field(
        default=0,
        le=1_024,
        description="Position number of a sentence's first token (section 3.5: 0; OpenNMT-tf: 1; fairseq: 2).",
    )


class Learned(Section):
    """Learned positional encodings: a table with one vector per position (section 3.5; Table 3, row E)."""

    kind: Literal["learned"] = Field(
        description="Table with one learned vector per position (section 3.5; Table 3, row E)."
    )
    rows: Size = Field(
        le=1_048_576,
        description="Number of positions in the table, which is the maximum sentence length. Unit: positions.",
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
        description="Add a learned bias to each score of self-attention. It depends on the head and on the distance of "
        "query and key (Raffel et al. 2020, section 2.1). All layers of a stack share these biases."
    )
    buckets: Annotated[int, Field(ge=4, le=4_096, multiple_of=4)] = Field(
        default=32,
        description="Number of buckets. A bucket is a range of distances with the same learned bias. Each small "
        "distance has its own bucket; the ranges of larger ones grow exponentially. The encoder uses half of the "
        "buckets for each direction.",
    )
    max_distance: Annotated[int, Field(ge=2, le=1_048_576)] = Field(
        default=128,
        description="All distances of at least this value get the bias of the last bucket. Unit: positions.",
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
        description="No positional encoding. The model knows the order of tokens only from convolutions, recurrences "
        "and causal attention."
    )


Positions = Annotated[Sinusoidal | Learned | Rotary | Relative | Alibi | NoPositions, Field(discriminator="kind")]
