"""The sub-layers of one layer, one class a kind: what stands between two residuals (section 3.1)."""

from typing import Annotated, Literal

from pydantic import Field

from specs.section import Section, Size


class SelfAttention(Section):
    """Every position attends to its own side's (3.2.3); in the decoder to none after it. Its sizes are h, d_k, d_v."""

    kind: Literal["self_attention"] = Field(description="Multi-head attention of a side to itself (3.2.3); a kind.")


class CrossAttention(Section):
    """Every position of the decoder attends to the encoder's output (3.2.3). Its sizes are h, d_k, d_v."""

    kind: Literal["cross_attention"] = Field(
        description="Multi-head attention of the decoder to the encoder's output (3.2.3); a kind."
    )


class FeedForward(Section):
    """Two linear maps with `activation` between them, at each position alone (3.3). Its size is d_ff."""

    kind: Literal["feed_forward"] = Field(description="Position-wise feed-forward network (3.3); a kind.")


class RestrictedAttention(Section):
    """As self_attention, but each position attends to its neighbours alone (4). Its sizes are h, d_k, d_v."""

    kind: Literal["restricted_attention"] = Field(
        description="Multi-head attention to a neighbourhood of each position (4; Table 1); a kind."
    )
    radius: Size = Field(
        le=4_096,
        description="r (4, Table 1): positions that one attends to on each side, in the decoder before it; positions.",
    )


class Ssru(Section):
    """Simpler simple recurrent units (Kim et al. 2019): a recurrence without products; in an encoder both ways."""

    kind: Literal["ssru"] = Field(description="Simpler simple recurrent units (Table 1: recurrent); a kind.")


class Lstm(Section):
    """A layer of LSTM cells (Hochreiter & Schmidhuber 1997); in an encoder both ways, each of d_model / 2 cells."""

    kind: Literal["lstm"] = Field(description="A layer of LSTM cells (Table 1: recurrent); a kind.")


Kernel = Annotated[int, Field(ge=2, le=1_024)]


class Convolution(Section):
    """A convolution and its ReLU (4). Every position reads k around it, in the decoder itself and those before it."""

    kind: Literal["convolution"] = Field(description="A convolution over positions (4; Table 1); a kind.")
    kernel: Kernel = Field(description="k (4, Table 1): positions that one reads; positions.")
    dilated: bool = Field(
        description="Whether the k positions are k^i apart in the layer of number i, counted from 0 (4: the longest "
        "path is then logarithmic), and not side by side; true or false."
    )


class SeparableConvolution(Section):
    """A convolution of each feature by itself, a linear map of them all, and its ReLU (4)."""

    kind: Literal["separable_convolution"] = Field(
        description="A separable convolution over positions (4; Table 1); a kind."
    )
    kernel: Kernel = Field(description="k (4, Table 1): positions that one reads; positions.")


OfEither = SelfAttention | RestrictedAttention | Ssru | Lstm | Convolution | SeparableConvolution | FeedForward
EncoderSubLayer = Annotated[OfEither, Field(discriminator="kind")]
DecoderSubLayer = Annotated[OfEither | CrossAttention, Field(discriminator="kind")]
