"""The kinds of sub-layers, each with its own options."""

from typing import Annotated, Any, Literal

from pydantic import Field

from specs.parts import Norm
from specs.section import Probability, Size, Sparse, reject

Dimension = Annotated[int, Field(ge=1, le=65_536)]
Heads = Annotated[int, Field(ge=1, le=1_024)]
InnerDimension = Annotated[int, Field(ge=1, le=262_144)]
Experts = Annotated[int, Field(ge=2, le=65_536)]
KernelSize = Annotated[int, Field(ge=2, le=1_024)]
Dilation = Annotated[int, Field(ge=1, le=4_096)]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


class Sublayer(Sparse):
    """Base class for sub-layers. If an option is null, the `architecture` field of the same name applies."""

    kind: str
    norm: Norm | None = None
    """Norm of this sub-layer. Default: `architecture.norm`."""
    dropout: Probability | None = None
    """Dropout rate of this sub-layer's output. Default: `architecture.dropout`."""

    @property
    def own_options(self) -> dict[str, Any]:
        """Names and values of the options that differ from their defaults, without `kind`."""
        return {key: value for key, value in self.model_dump().items() if key != "kind"}


class _Attention(Sublayer):
    """Options common to all kinds of attention."""

    h: Heads | None = None
    """Number of attention heads. Default: `architecture.h`. Unit: heads."""
    kv_heads: Heads | None = None
    """Number of key-value heads. Each is shared by h / kv_heads query heads (grouped-query attention; Ainslie et al.
    2023). Default: h. Unit: heads."""
    d_k: Dimension | None = None
    """Dimension of queries and keys in each head. Default: `architecture.d_k`. Unit: features."""
    d_v: Dimension | None = None
    """Dimension of values in each head. Default: `architecture.d_v`. Unit: features."""
    projection_bias: bool | None = None
    """Whether the projections have biases. Default: `architecture.projection_bias`."""
    attention_dropout: Probability | None = None
    """Dropout rate of the attention weights. Default: `architecture.attention_dropout`."""


class SelfAttention(_Attention):
    """Multi-head self-attention of the encoder or decoder (section 3.2.3)."""

    kind: Literal["self_attention"]
    """Multi-head self-attention (section 3.2.3). In the decoder, a position attends only to itself and to
    earlier positions."""


class CrossAttention(_Attention):
    """Multi-head attention from the decoder over the encoder's output (section 3.2.3)."""

    kind: Literal["cross_attention"]
    """Multi-head attention from the decoder over the encoder's output (section 3.2.3)."""
    embedded_queries: bool = False
    """Whether queries are computed from the decoder state plus the embedding of the decoder's input token (Gehring et
    al. 2017, equation 1). Default: false."""


class RestrictedAttention(_Attention):
    """Self-attention restricted to a neighbourhood of each position (section 4)."""

    kind: Literal["restricted_attention"]
    """Self-attention restricted to a neighbourhood of each position (section 4, Table 1)."""
    radius: Size = Field(le=4_096)
    """r, the number of neighbours on each side that a position attends to (section 4, Table 1). The decoder uses only
    the left side. Unit: positions."""


class FeedForward(Sublayer):
    """Position-wise feed-forward network (section 3.3)."""

    kind: Literal["feed_forward"]
    """Position-wise feed-forward network (section 3.3)."""
    d_ff: InnerDimension | None = None
    """Inner dimension. Default: `architecture.d_ff`. Unit: features."""
    activation: Activation | None = None
    """Activation function. Default: `architecture.activation`."""
    gated: bool = False
    """Whether to use a gated linear unit with a third matrix, W_gate: (activation(x W_gate) * x W_1) W_2 (Shazeer
    2020). Default: false."""
    bias: bool = True
    """Whether the linear maps have biases (section 3.3: yes). Default: true."""
    activation_dropout: Probability | None = None
    """Dropout rate after the activation. Default: `architecture.activation_dropout`."""


class MixtureOfExperts(Sublayer):
    """Mixture of feed-forward networks (experts). A gate selects a few experts per position (Shazeer et al. 2017)."""

    kind: Literal["mixture_of_experts"]
    """Mixture of feed-forward networks, the experts. A noisy gate selects and weights a few experts for each position
    (Shazeer et al. 2017, section 2)."""
    experts: Experts
    """n, the number of experts (Shazeer et al. 2017, section 2). Unit: experts."""
    top_k: Experts
    """k, the number of experts that the gate selects for each position (Shazeer et al. 2017, equation 5). At least 2:
    the weight of a single expert would always be 1, so the gate could not learn. Unit: experts."""
    balance: Annotated[float, Field(ge=0, le=1e6)] = 0.1
    """Weight of the loss that makes all experts equally important (Shazeer et al. 2017, equation 7). Default: 0.1."""
    d_ff: InnerDimension | None = None
    """Inner dimension of each expert. Default: `architecture.d_ff`. Unit: features."""

    def _check(self) -> None:
        if self.top_k > self.experts:
            problem = f"the gate cannot select {self.top_k} of {self.experts} experts"
            reject(("top_k", "experts"), problem, f"write `top_k: {self.experts}` or a smaller number")


class Ssru(Sublayer):
    """Simpler Simple Recurrent Unit (Kim et al. 2019). It is bidirectional in the encoder."""

    kind: Literal["ssru"]
    """Simpler Simple Recurrent Unit, SSRU (Kim et al. 2019; Table 1: recurrent)."""


class Lstm(Sublayer):
    """LSTM layer (Hochreiter & Schmidhuber 1997). The encoder uses d_model / 2 cells in each direction."""

    kind: Literal["lstm"]
    """Layer of LSTM cells (Hochreiter & Schmidhuber 1997; Table 1: recurrent)."""


class Convolution(Sublayer):
    """Convolution over positions (section 4). It is centred in the encoder, and causal in the decoder."""

    kind: Literal["convolution"]
    """Convolution over positions, followed by ReLU or a gate (section 4, Table 1)."""
    kernel: KernelSize
    """k, the kernel size (section 4, Table 1). Unit: positions."""
    dilated: bool
    """Whether layer i, counted from 0, has dilation k^i (section 4). The maximum path length is then logarithmic in the
    sentence length."""
    gated: bool = False
    """Whether to use a gated linear unit instead of ReLU. The convolution then computes twice as many features, and the
    first half is multiplied by the sigmoid of the second half (Dauphin et al. 2016; Gehring et al. 2017, section 3.2).
    Default: false."""


class SeparableConvolution(Sublayer):
    """Depthwise convolution, pointwise linear map and ReLU (section 4)."""

    kind: Literal["separable_convolution"]
    """Depthwise-separable convolution over positions, followed by ReLU (section 4, Table 1)."""
    kernel: KernelSize
    """k, the kernel size (section 4, Table 1). Unit: positions."""


class BottleneckConvolution(Sublayer):
    """Residual block of ByteNet: a dilated convolution between two linear maps (Kalchbrenner et al. 2016)."""

    kind: Literal["bottleneck_convolution"]
    """A linear map to fewer features, a dilated convolution, and a linear map back. A norm and ReLU precede each of the
    three (ByteNet's residual block; Kalchbrenner et al. 2016, section 3.6)."""
    kernel: KernelSize
    """k, the kernel size (Kalchbrenner et al. 2016, section 4: 3). Unit: positions."""
    dilations: Annotated[tuple[Dilation, ...], Field(strict=False, min_length=1, max_length=64)]
    """Dilations of the convolutions: distances between neighbouring positions of a kernel. Layer i, counted from 0,
    uses entry i. After the last entry, the list is repeated (Kalchbrenner et al. 2016, section 3.5: [1, 2, 4, 8, 16]).
    Unit: positions."""
    d_conv: InnerDimension | None = None
    """Dimension of the convolution (Kalchbrenner et al. 2016, section 3.6: half of d_model). Default: d_model / 2,
    rounded down. Unit: features."""


class AlignedMemory(Sublayer):
    """Linear map of the encoder output at the decoder's position. ByteNet's decoder reads the source in this way."""

    kind: Literal["aligned_memory"]
    """Linear map of the encoder output at the decoder's position. After the end of the source, the result is 0 (dynamic
    unfolding; Kalchbrenner et al. 2016, section 3.2)."""


_SubLayer = (
    SelfAttention
    | RestrictedAttention
    | Ssru
    | Lstm
    | Convolution
    | SeparableConvolution
    | BottleneckConvolution
    | FeedForward
    | MixtureOfExperts
)
EncoderSubLayer = Annotated[_SubLayer, Field(discriminator="kind")]
DecoderSubLayer = Annotated[_SubLayer | CrossAttention | AlignedMemory, Field(discriminator="kind")]
