"""The `architecture` section: the sub-layers of each layer and the sizes of the network (section 3, Table 3)."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from specs.parts import Learned, Norm, Positions, Rotary, Sinusoidal, Sinusoidal2d, Source, Tokens
from specs.section import Probability, Section, reject
from specs.sublayers import Activation, DecoderSubLayer, Dimension, EncoderSubLayer, Heads, InnerDimension, Sublayer

LayerCount = Annotated[int, Field(ge=1, le=128)]
MAX_DILATION_REACH = 16_384
"""Maximum number of positions that a dilated convolution spans. The decoder caches the input at these positions."""
MAX_SUBLAYERS = 16


class Depths(Section):
    """Numbers of encoder layers and decoder layers, for a model in which the two numbers differ."""

    encoder: LayerCount
    """Number of encoder layers (N in section 3.1). Unit: layers."""
    decoder: LayerCount
    """Number of decoder layers (N in section 3.1). Unit: layers."""

    def __str__(self) -> str:
        return f"{self.encoder} and {self.decoder}"


class Architecture(Section):
    """Architecture of the network (section 3)."""

    N: Annotated[
        Annotated[LayerCount, Tag("number")] | Annotated[Depths, Tag("pair")],
        Discriminator(lambda value: "pair" if isinstance(value, (Mapping, Depths)) else "number"),
    ]
    """N, the number of encoder layers and of decoder layers (section 3.1: 6). If the two numbers differ, write
    `{encoder: 12, decoder: 2}`. Unit: layers."""
    encoder: Annotated[tuple[EncoderSubLayer, ...], Field(strict=False)] = Field(max_length=MAX_SUBLAYERS)
    """Sub-layers of each encoder layer, in order (section 3.1: self-attention, feed-forward). If the list is empty,
    the model has no encoder, as the `language_modelling` task requires."""
    decoder: Annotated[tuple[DecoderSubLayer, ...], Field(strict=False)] = Field(max_length=MAX_SUBLAYERS)
    """Sub-layers of each decoder layer, in order (section 3.1: self-attention, cross-attention, feed-forward)."""
    source: Source
    """Input of the encoder: tokens (section 3.4), or features such as frames of a spectrogram (section 7)."""
    d_model: Dimension
    """d_model, the dimension of embeddings and of every sub-layer's output (section 3.1: 512). Unit: features."""
    d_ff: InnerDimension
    """d_ff, the inner dimension of the feed-forward networks (section 3.3: 2048). Unit: features."""
    h: Heads
    """h, the number of attention heads (section 3.2.2: 8). Unit: heads."""
    d_k: Dimension
    """d_k, the dimension of queries and keys in each head. null: d_model / h (section 3.2.2: 64), so changing `h`
    changes d_k, but not d_model. Unit: features."""
    d_v: Dimension
    """d_v, the dimension of values in each head. null: d_model / h (section 3.2.2: 64). Unit: features."""
    dropout: Probability
    """P_drop, the dropout rate of every sub-layer's output and of the sums of embeddings and positional encodings
    (section 5.4: 0.1). Unit: probability."""
    attention_dropout: Probability
    """Dropout rate of the attention weights (not in the paper). Unit: probability."""
    activation_dropout: Probability
    """Dropout rate after the activation of the feed-forward networks (not in the paper, but in tensor2tensor, the code
    of its authors). Unit: probability."""
    activation: Activation
    """Activation of the feed-forward networks (section 3.3: ReLU). silu is x sigmoid(x) (Elfwing et al. 2018, also
    called swish). gelu is x Phi(x) (Hendrycks & Gimpel 2016), and gelu_tanh is its approximation by tanh. Convolutional
    sub-layers and mixtures of experts do not use this field."""
    attention_score: Literal["scaled_dot_product", "dot_product", "additive"]
    """Function that scores a query against a key, in all attention sub-layers (section 3.2.1: scaled dot product).
    dot_product omits the factor 1/sqrt(d_k). additive is v tanh(W_Q q + W_K k), with a learned vector v per head
    (Bahdanau et al. 2015)."""
    positions: Positions
    """Positional encoding, PE (section 3.5; Table 3, row E)."""
    norm: Norm
    """Kind of normalisation, and where it is applied (section 3.1: LayerNorm after the residual sum)."""
    scale_embeddings: bool
    """Whether embeddings are multiplied by sqrt(d_model) (section 3.4: yes)."""
    scale_logits: bool
    """Whether the decoder's output is multiplied by 1/sqrt(d_model) before the pre-softmax projection (section 3.4: no;
    the original T5: yes)."""
    tied_embeddings: Literal["all", "target", "embeddings", "none"]
    """Which embedding matrices share weights (section 3.4: all). all: source embedding, target embedding and the
    pre-softmax projection. target: target embedding and projection. embeddings: source and target embedding. none: no
    sharing."""
    projection_bias: bool
    """Whether the projections W_Q, W_K, W_V and W_O have biases (section 3.2.2: no)."""
    output_bias: bool
    """Whether the logits have a bias per token (section 3.4: no)."""
    initial_weights: Literal["glorot_uniform", "glorot_normal", "glorot_uniform_half_qkv"]
    """Distribution from which the initial weight matrices are drawn (the paper gives none). glorot_uniform_half_qkv is
    glorot_uniform with half the variance for W_Q, W_K and W_V, as in fairseq."""

    @field_validator("N")
    @classmethod
    def _use_one_number_for_equal_depths(cls, N: int | Depths) -> int | Depths:
        return N.encoder if isinstance(N, Depths) and N.encoder == N.decoder else N

    @field_validator("d_k", "d_v", mode="before", json_schema_input_type=Dimension | None)
    @classmethod
    def _divide_d_model_among_heads(cls, size: Any, info: ValidationInfo) -> Any:
        """Replace null with d_model / h, so that a validated architecture contains all sizes."""
        if size is not None:
            return size
        if not {"d_model", "h", "d_k"} - {info.field_name} <= info.data.keys():
            return 1  # one of these fields has an error, which is reported instead
        d_model, h = info.data["d_model"], info.data["h"]
        if d_model % h:
            problem = f"`architecture.d_model` is {d_model}, which cannot be divided evenly among {h} heads"
            reject(("d_model", "h"), problem, "write an `h` that divides `d_model`, or write both `d_k` and `d_v`")
        return d_model // h

    @property
    def depths(self) -> Depths:
        """Numbers of encoder layers and decoder layers. If `N` is a single number, both are equal to `N`."""
        return self.N if isinstance(self.N, Depths) else Depths(encoder=self.N, decoder=self.N)

    @property
    def source_stride(self) -> int:
        """Number of source tokens or frames per encoder position: 1 for tokens, or the product of all strides."""
        return 1 if isinstance(self.source, Tokens) else self.source.total_stride

    @property
    def max_positions(self) -> int | None:
        """Number of positions in the table of learned positional encodings. None if there is no such table."""
        return self.positions.rows if isinstance(self.positions, Learned) else None

    def option(self, sublayer: Sublayer, name: str) -> Any:
        """Return the value of a sub-layer's option or, if it is null, of the `architecture` field of the same name."""
        value = getattr(sublayer, name)
        return getattr(self, name) if value is None else value

    @property
    def _sublayers(self) -> Iterator[tuple[str, int, Any]]:
        """All sub-layers, each as (`encoder` or `decoder`, index in the layer, sub-layer)."""
        for side in ("encoder", "decoder"):
            yield from ((side, index, sublayer) for index, sublayer in enumerate(getattr(self, side)))

    def _check(self) -> None:
        self._check_sublayers()
        if not isinstance(self.source, Tokens) and self.tied_embeddings == "all":
            problem = "`architecture.tied_embeddings` is `all`, but a model that reads features has no source embedding"
            reject(("tied_embeddings", "source.kind"), problem, "write `architecture: {tied_embeddings: target}`")
        self._check_encoder_sizes()
        self._check_heads()
        self._check_positions()

    def _check_sublayers(self) -> None:
        for side, index, sublayer in self._sublayers:
            reach, cause = 0, "N"
            if sublayer.kind == "convolution" and sublayer.dilated:
                reach = sublayer.kernel ** getattr(self.depths, side)
            elif sublayer.kind == "bottleneck_convolution":
                reach, cause = sublayer.kernel * max(sublayer.dilations), f"{side}.{index}.dilations"
            if reach > MAX_DILATION_REACH:
                reject(
                    (f"{side}.{index}.kernel", cause),
                    f"dilated convolutions in `architecture.{side}` span more than {MAX_DILATION_REACH:,} positions",
                    f"write a smaller `kernel`, or reduce `{cause.rpartition('.')[2]}`",
                )
        readers = [i for i, each in enumerate(self.decoder) if each.kind in ("cross_attention", "aligned_memory")]
        if not self.encoder and readers:
            problem = f"`architecture.encoder` is empty, so `{self.decoder[readers[0]].kind}` has nothing to read"
            hint = "remove the sub-layer from `architecture.decoder`, or add sub-layers to `architecture.encoder`"
            reject((f"decoder.{readers[0]}", "encoder"), problem, hint)
        if self.encoder and self.decoder and not readers:
            problem = "`architecture.decoder` has no `cross_attention`, so it would never read the source"
            reject("decoder", problem, "add `{kind: cross_attention}`")

    def _check_encoder_sizes(self) -> None:
        for index, sublayer in enumerate(self.encoder):
            if sublayer.kind in ("ssru", "lstm") and self.d_model % 2:
                reject(
                    ("d_model", f"encoder.{index}"),
                    f"`architecture.d_model` must be even for a bidirectional `{sublayer.kind}`, not {self.d_model}",
                    f"write `d_model: {self.d_model + 1}`",
                )
            if hasattr(sublayer, "kernel") and sublayer.kernel % 2 == 0:
                problem = f"the kernel of an encoder's convolution is centred, so it must be odd, not {sublayer.kernel}"
                reject(f"encoder.{index}.kernel", problem, f"write `kernel: {sublayer.kernel + 1}`")

    def _check_heads(self) -> None:
        for side, index, sublayer in self._sublayers:
            if not hasattr(sublayer, "kv_heads"):
                continue
            h, kv_heads, d_k = self.option(sublayer, "h"), sublayer.kv_heads, self.option(sublayer, "d_k")
            if kv_heads is not None and h % kv_heads:
                problem = f"{h} query heads cannot be divided evenly among {kv_heads} key-value heads"
                reject((f"{side}.{index}.kv_heads", "h"), problem, "write a `kv_heads` that divides `h`")
            if kv_heads not in (None, h) and self.attention_score == "additive":
                problem = "additive attention needs as many key-value heads as query heads"
                reject((f"{side}.{index}.kv_heads", "attention_score"), problem, "remove `kv_heads`")
            if isinstance(self.positions, Rotary) and sublayer.kind != "cross_attention" and d_k % 2:
                problem = f"`d_k` is odd ({d_k}), but rotary positional encodings rotate pairs of features"
                reject((f"{side}.{index}.d_k", "d_k", "positions"), problem, f"write `d_k: {d_k + 1}`")

    def _check_positions(self) -> None:
        step = 2 if isinstance(self.positions, Sinusoidal) else 4 if isinstance(self.positions, Sinusoidal2d) else 1
        if self.d_model % step:
            reject(
                ("d_model", "positions"),
                f"`architecture.d_model` is {self.d_model}, but `{self.positions.kind}` needs a multiple of {step}",
                f"write `d_model: {self.d_model // step * step + step}`, or choose other `positions`",
            )
        if isinstance(self.positions, Sinusoidal2d) and (isinstance(self.source, Tokens) or self.source.subsampling):
            problem = "positions of kind `sinusoidal_2d` need a source of image patches without `subsampling`"
            hint = "write `positions: {kind: sinusoidal}`, or a `source` of kind `features` without `subsampling`"
            reject(("positions", "source"), problem, hint)
        restricted = any(sublayer.kind == "restricted_attention" for sublayer in (*self.encoder, *self.decoder))
        if self.positions.score_bias and (restricted or self.attention_score == "additive"):
            other = "`restricted_attention`" if restricted else "`attention_score: additive`"
            problem = f"{other} does not support positions of kind `{self.positions.kind}`"
            hint = "choose other `positions`, or another kind of attention"
            reject(("positions", "attention_score", "encoder", "decoder"), problem, hint)
        if self.positions.score_bias == "learned":
            self._require_equal_heads()

    def _require_equal_heads(self) -> None:
        for side in ("encoder", "decoder"):
            heads = {self.option(each, "h") for each in getattr(self, side) if each.kind == "self_attention"}
            if len(heads) > 1:
                reject(
                    (side, "positions"),
                    f"self-attention sub-layers in `architecture.{side}` have different numbers of heads "
                    f"({', '.join(map(str, sorted(heads)))}), but share the relative position biases",
                    "write the same `h` in all these sub-layers, or choose other `positions`",
                )
