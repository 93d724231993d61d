"""The kinds of sub-layers, each with its own options."""

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from specs.parts import Norm
from specs.section import Probability, Section, Size

Dimension = Annotated[int, Field(ge=1, le=65_536)]
Heads = Annotated[int, Field(ge=1, le=1_024)]
InnerDimension = Annotated[int, Field(ge=1, le=262_144)]
KernelSize = Annotated[int, Field(ge=2, le=1_024)]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]


class Sublayer(Section):
    """Base class of sub-layers. An option that is null has the value of the architecture's field of the same name."""

    norm: Norm | None = Field(default=None, description="Norm of this sub-layer. Default: `architecture.norm`.")
    dropout: Probability | None = Field(
        default=None, description="Dropout rate of this sub-layer's output. Default: `architecture.dropout`."
    )

    @model_serializer(mode="wrap")
    def _without_defaults(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the options that differ from their defaults, so that a spec stays short when it is written."""
        values: dict[str, Any] = handler(self)
        fields = type(self).model_fields
        changed = {key: value for key, value in values.items() if value != fields[key].default}
        return {"kind": values["kind"], **changed}

    @property
    def own_options(self) -> dict[str, Any]:
        """Names and values of the options that differ from their defaults, without `kind`."""
        return {key: value for key, value in self.model_dump().items() if key != "kind"}


class _Attention(Sublayer):
    """Options of all kinds of attention."""

    h: Heads | None = Field(
        default=None, description="Number of attention heads. Default: `architecture.h`. Unit: heads."
    )
    kv_heads: Heads | None = Field(
        default=None,
        description="Number of heads of keys and values. Each is shared by h / kv_heads heads of queries "
        "(grouped-query attention; Ainslie et al. 2023). Default: h. Unit: heads.",
    )
    d_k: Dimension | None = Field(
        default=None, description="Dimension of queries and keys. Default: `architecture.d_k`. Unit: features."
    )
    d_v: Dimension | None = Field(
        default=None, description="Dimension of values. Default: `architecture.d_v`. Unit: features."
    )
    projection_bias: bool | None = Field(
        default=None, description="Whether the projections have biases. Default: `architecture.projection_bias`."
    )
    attention_dropout: Probability | None = Field(
        default=None, description="Dropout rate of the attention weights. Default: `architecture.attention_dropout`."
    )


class SelfAttention(_Attention):
    """Multi-head self-attention of the encoder or decoder (section 3.2.3)."""

    kind: Literal["self_attention"] = Field(
        description="Multi-head self-attention (section 3.2.3). In the decoder, a position sees only itself and "
        "earlier positions."
    )


class CrossAttention(_Attention):
    """Multi-head attention from the decoder over the encoder's output (section 3.2.3)."""

    kind: Literal["cross_attention"] = Field(
        description="Multi-head attention from the decoder over the encoder's output (section 3.2.3)."
    )


class RestrictedAttention(_Attention):
    """Self-attention restricted to a neighbourhood of each position (section 4)."""

    kind: Literal["restricted_attention"] = Field(
        description="Self-attention restricted to a neighbourhood of each position (section 4, Table 1)."
    )
    radius: Size = Field(
        le=4_096,
        description="r, the number of neighbours on each side that a position attends to (section 4, Table 1). The "
        "decoder uses only the left side. Unit: positions.",
    )


class FeedForward(Sublayer):
    """Position-wise feed-forward network (section 3.3)."""

    kind: Literal["feed_forward"] = Field(description="Position-wise feed-forward network (section 3.3).")
    d_ff: InnerDimension | None = Field(
        default=None, description="Inner dimension. Default: `architecture.d_ff`. Unit: features."
    )
    activation: Activation | None = Field(
        default=None, description="Activation function. Default: `architecture.activation`."
    )
    gated: bool = Field(
        default=False,
        description="Whether the activation is multiplied by a third linear map of the input: "
        "(activation(x W_gate) * x W_1) W_2 (Shazeer 2020). Default: false.",
    )
    bias: bool = Field(
        default=True, description="Whether the linear maps have biases (section 3.3: yes). Default: true."
    )
    activation_dropout: Probability | None = Field(
        default=None, description="Dropout rate after the activation. Default: `architecture.activation_dropout`."
    )


class Ssru(Sublayer):
    """Simpler Simple Recurrent Unit (Kim et al. 2019). It is bidirectional in the encoder."""

    kind: Literal["ssru"] = Field(
        description="Simpler Simple Recurrent Unit, SSRU (Kim et al. 2019; Table 1: recurrent)."
    )


class Lstm(Sublayer):
    """LSTM layer (Hochreiter & Schmidhuber 1997). The encoder uses d_model / 2 cells in each direction."""

    kind: Literal["lstm"] = Field(
        description="Layer of LSTM cells (Hochreiter & Schmidhuber 1997; Table 1: recurrent)."
    )


class Convolution(Sublayer):
    """Convolution over positions, followed by ReLU (section 4). It is centred in the encoder, causal in the decoder."""

    kind: Literal["convolution"] = Field(
        description="Convolution over positions, followed by ReLU (section 4, Table 1)."
    )
    kernel: KernelSize = Field(description="k, the kernel size (section 4, Table 1). Unit: positions.")
    dilated: bool = Field(
        description="Whether layer i, counted from 0, has dilation k^i (section 4). The maximum path length is then "
        "logarithmic in the sentence length."
    )


class SeparableConvolution(Sublayer):
    """Depthwise convolution, pointwise linear map and ReLU (section 4)."""

    kind: Literal["separable_convolution"] = Field(
        description="Depthwise-separable convolution over positions, followed by ReLU (section 4, Table 1)."
    )
    kernel: KernelSize = Field(description="k, the kernel size (section 4, Table 1). Unit: positions.")


_SubLayer = SelfAttention | RestrictedAttention | Ssru | Lstm | Convolution | SeparableConvolution | FeedForward
EncoderSubLayer = Annotated[_SubLayer, Field(discriminator="kind")]
DecoderSubLayer = Annotated[_SubLayer | CrossAttention, Field(discriminator="kind")]
