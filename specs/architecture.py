"""The section `architecture`: the sub-layers of each layer and the sizes of the network (section 3, Table 3)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from specs.section import Count, Epsilon, Probability, Section, Size, reject

LayerCount = Annotated[int, Field(ge=1, le=128)]
Dimension = Annotated[int, Field(ge=1, le=65_536)]
KernelSize = Annotated[int, Field(ge=2, le=1_024)]
MAX_DILATION_REACH = 16_384
"""Maximum number of positions that a dilated convolution spans. One decoding step stores as many inputs."""
MAX_SUBLAYERS = 16


class SelfAttention(Section):
    """Multi-head self-attention of the encoder or decoder (section 3.2.3), with sizes `h`, `d_k` and `d_v`."""

    kind: Literal["self_attention"] = Field(
        description="Multi-head self-attention (section 3.2.3). In the decoder, a position sees only itself and "
        "earlier positions."
    )


class CrossAttention(Section):
    """Multi-head attention from the decoder over the encoder's output (section 3.2.3). Sizes: `h`, `d_k`, `d_v`."""

    kind: Literal["cross_attention"] = Field(
        description="Multi-head attention from the decoder over the encoder's output (section 3.2.3)."
    )


class FeedForward(Section):
    """Position-wise feed-forward network (section 3.3), with inner size `d_ff` and the function `activation`."""

    kind: Literal["feed_forward"] = Field(description="Position-wise feed-forward network (section 3.3).")


class RestrictedAttention(Section):
    """Self-attention restricted to a neighbourhood of each position (section 4)."""

    kind: Literal["restricted_attention"] = Field(
        description="Self-attention restricted to a neighbourhood of each position (section 4, Table 1)."
    )
    radius: Size = Field(
        le=4_096,
        description="r, the number of neighbours on each side that a position attends to (section 4, Table 1). The "
        "decoder uses only the left side. Unit: positions.",
    )


class Ssru(Section):
    """Simpler simple recurrent unit (Kim et al. 2019). It is bidirectional in the encoder."""

    kind: Literal["ssru"] = Field(
        description="Simpler Simple Recurrent Unit, SSRU (Kim et al. 2019; Table 1: recurrent)."
    )


class Lstm(Section):
    """LSTM layer (Hochreiter & Schmidhuber 1997). In the encoder it is bidirectional, with d_model / 2 cells each."""

    kind: Literal["lstm"] = Field(
        description="Layer of LSTM cells (Hochreiter & Schmidhuber 1997; Table 1: recurrent)."
    )


class Convolution(Section):
    """Convolution over positions, followed by ReLU (section 4). It is centred in the encoder, causal in the decoder."""

    kind: Literal["convolution"] = Field(
        description="Convolution over positions, followed by ReLU (section 4, Table 1)."
    )
    kernel: KernelSize = Field(description="k, the kernel size (section 4, Table 1). Unit: positions.")
    dilated: bool = Field(
        description="Whether layer i, counted from 0, has dilation k^i (section 4). The maximum path length is then "
        "logarithmic in the sentence length."
    )


class SeparableConvolution(Section):
    """Depthwise convolution, pointwise linear map and ReLU (section 4)."""

    kind: Literal["separable_convolution"] = Field(
        description="Depthwise-separable convolution over positions, followed by ReLU (section 4, Table 1)."
    )
    kernel: KernelSize = Field(description="k, the kernel size (section 4, Table 1). Unit: positions.")


_SubLayer = SelfAttention | RestrictedAttention | Ssru | Lstm | Convolution | SeparableConvolution | FeedForward
EncoderSubLayer = Annotated[_SubLayer, Field(discriminator="kind")]
DecoderSubLayer = Annotated[_SubLayer | CrossAttention, Field(discriminator="kind")]


class Depths(Section):
    """Numbers of layers of the encoder and of the decoder, if they differ."""

    encoder: LayerCount = Field(description="Number of encoder layers (N in section 3.1). Unit: layers.")
    decoder: LayerCount = Field(description="Number of decoder layers (N in section 3.1). Unit: layers.")

    def __str__(self) -> str:
        return f"{self.encoder} and {self.decoder}"


def _form_of_depth(value: Any) -> str:
    return "pair" if isinstance(value, (Mapping, Depths)) else "number"


class Architecture(Section):
    """The network (section 3). Sizes are independent of each other: no size is derived from d_model / h."""

    N: Annotated[
        Annotated[LayerCount, Tag("number")] | Annotated[Depths, Tag("pair")], Discriminator(_form_of_depth)
    ] = Field(
        description="N, the number of layers of the encoder and of the decoder (section 3.1: 6). For different numbers "
        "write `{encoder: 12, decoder: 2}`. Unit: layers."
    )
    encoder: Annotated[tuple[EncoderSubLayer, ...], Field(strict=False)] = Field(
        min_length=1,
        max_length=MAX_SUBLAYERS,
        description="Sub-layers of each encoder layer, in order (section 3.1: self-attention, feed-forward).",
    )
    decoder: Annotated[tuple[DecoderSubLayer, ...], Field(strict=False)] = Field(
        min_length=1,
        max_length=MAX_SUBLAYERS,
        description="Sub-layers of each decoder layer, in order (section 3.1: self-attention, cross-attention, "
        "feed-forward).",
    )
    d_model: Dimension = Field(
        description="d_model, the dimension of embeddings and of every sub-layer's output (section 3.1: 512). "
        "Unit: features."
    )
    d_ff: Size = Field(
        le=262_144,
        description="d_ff, the inner dimension of the feed-forward networks (section 3.3: 2048). Unit: features.",
    )
    h: Size = Field(le=1_024, description="h, the number of attention heads (section 3.2.2: 8). Unit: heads.")
    d_k: Dimension = Field(
        description="d_k, the dimension of queries and keys in each head (section 3.2.1: 64). Unit: features."
    )
    d_v: Dimension = Field(description="d_v, the dimension of values in each head (section 3.2.1: 64). Unit: features.")
    dropout: Probability = Field(
        description="P_drop, the dropout rate of every sub-layer's output and of the sums of embeddings and positional "
        "encodings (section 5.4: 0.1). Unit: probability."
    )
    attention_dropout: Probability = Field(
        description="Dropout rate of the attention weights (not in the paper). Unit: probability."
    )
    activation_dropout: Probability = Field(
        description="Dropout rate after the activation of the feed-forward networks (not in the paper, but in its "
        "authors' code). Unit: probability."
    )
    activation: Literal["relu", "silu", "gelu"] = Field(
        description="Activation of the feed-forward networks (section 3.3: ReLU). silu is x sigmoid(x) (Elfwing et al. "
        "2018, also called swish), gelu is x Phi(x) (Hendrycks & Gimpel 2016). Convolutions always use ReLU."
    )
    attention_score: Literal["scaled_dot_product", "dot_product", "additive"] = Field(
        description="Score of a query and a key in every attention (section 3.2.1: scaled dot product). dot_product "
        "omits the factor 1/sqrt(d_k). additive is v tanh(W_Q q + W_K k) with one v per head (Bahdanau et al. 2015)."
    )
    positional_encoding: Literal["sinusoidal", "sinusoidal_halves", "learned"] = Field(
        description="Positional encoding, PE (section 3.5; Table 3, row E). sinusoidal interleaves sines and cosines. "
        "sinusoidal_halves has all sines before all cosines, with a longest wavelength of exactly 10000 x 2 pi, as "
        "in the authors' code. learned is a table of learned vectors."
    )
    first_position: Count = Field(
        le=1_024,
        description="Number of the first position of a sentence in the sinusoids (section 3.5: 0). OpenNMT-tf uses 1, "
        "fairseq 2. Must be 0 for learned positions.",
    )
    max_positions: Size = Field(
        le=1_048_576,
        description="Number of rows in the table of learned positions (section 3.5). Sinusoidal positions ignore it. "
        "Unit: positions.",
    )
    norm: Literal["post", "pre"] = Field(
        description="Position of LayerNorm (section 3.1: post): after the residual sum, or before the sub-layer."
    )
    norm_epsilon: Epsilon = Field(
        description="Constant that LayerNorm adds to the variance (section 3.1; the paper gives no value)."
    )
    tied_embeddings: Literal["all", "target", "none"] = Field(
        description="Matrices that share weights (section 3.4: all). all: source embedding, target embedding and the "
        "pre-softmax projection. target: target embedding and projection. none: no sharing."
    )
    projection_bias: bool = Field(
        description="Whether the projections W_Q, W_K, W_V and W_O have biases (section 3.2.2: no)."
    )
    output_bias: bool = Field(description="Whether the logits have a bias per token (section 3.4: no).")
    initial_weights: Literal["glorot_uniform", "glorot_normal", "glorot_uniform_half_qkv"] = Field(
        description="Distribution of the initial weight matrices (the paper gives none). glorot_uniform_half_qkv "
        "halves the variance of W_Q, W_K and W_V, as fairseq does."
    )

    @field_validator("N")
    @classmethod
    def _use_one_number_for_equal_depths(cls, N: int | Depths) -> int | Depths:
        return N.encoder if isinstance(N, Depths) and N.encoder == N.decoder else N

    @property
    def depths(self) -> Depths:
        """Numbers of layers of the encoder and of the decoder, whichever way `N` is written."""
        return self.N if isinstance(self.N, Depths) else Depths(encoder=self.N, decoder=self.N)

    @model_validator(mode="after")
    def _check_sublayers(self) -> Self:
        for side in ("encoder", "decoder"):
            sublayers = getattr(self, side)
            kinds = [sublayer.kind for sublayer in sublayers]
            for index, sublayer in enumerate(sublayers):
                if sublayer.kind in kinds[:index]:
                    reject(
                        f"{side}.{index}",
                        problem=f"`architecture.{side}` contains `{sublayer.kind}` twice, but the weights of a layer "
                        "are named by the kinds of its sub-layers",
                        hint="write each kind once",
                    )
                reach = sublayer.kernel ** getattr(self.depths, side) if sublayer.kind == "convolution" else 0
                if sublayer.kind == "convolution" and sublayer.dilated and reach > MAX_DILATION_REACH:
                    reject(
                        f"{side}.{index}.kernel",
                        "N",
                        problem=f"the last dilated convolution of `architecture.{side}` would span more than "
                        f"{MAX_DILATION_REACH:,} positions",
                        hint="write a smaller `kernel`, fewer layers `N`, or `dilated: false`",
                    )
        if all(sublayer.kind != "cross_attention" for sublayer in self.decoder):
            reject(
                "decoder",
                problem="`architecture.decoder` has no `cross_attention`, so it would never read the source",
                hint="add `{kind: cross_attention}`",
            )
        return self

    @model_validator(mode="after")
    def _check_encoder_sizes(self) -> Self:
        for index, sublayer in enumerate(self.encoder):
            if sublayer.kind in ("ssru", "lstm") and self.d_model % 2:
                reject(
                    "d_model",
                    f"encoder.{index}",
                    problem=f"`architecture.d_model` is odd ({self.d_model}), but the encoder's `{sublayer.kind}` is "
                    "bidirectional: each direction has half of the features",
                    hint=f"write `d_model: {self.d_model + 1}`",
                )
            if sublayer.kind in ("convolution", "separable_convolution") and sublayer.kernel % 2 == 0:
                reject(
                    f"encoder.{index}.kernel",
                    problem=f"the kernel size of an encoder's convolution must be odd, not {sublayer.kernel}, because "
                    "the kernel is centred on a position",
                    hint=f"write `kernel: {sublayer.kernel + 1}`",
                )
        return self

    @model_validator(mode="after")
    def _check_positions(self) -> Self:
        if self.positional_encoding == "learned" and self.first_position:
            reject(
                "first_position",
                "positional_encoding",
                problem=f"`architecture.first_position` is {self.first_position}, but learned positions start at 0",
                hint="write `first_position: 0`",
            )
        if self.positional_encoding != "learned" and self.d_model % 2:
            reject(
                "d_model",
                "positional_encoding",
                problem=f"`architecture.d_model` is odd ({self.d_model}), but sinusoids come in pairs",
                hint=f"write `d_model: {self.d_model + 1}`, or `positional_encoding: learned`",
            )
        return self
