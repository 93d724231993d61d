"""The section `architecture`: the columns of Table 3 that shape the network."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from specs.section import Count, Epsilon, Probability, Section, Size, broken_rule
from specs.sublayers import DecoderSubLayer, EncoderSubLayer

Layers = Annotated[int, Field(ge=1, le=128)]
Width = Annotated[int, Field(ge=1, le=65_536)]
FURTHEST = 16_384
"""Positions that a dilated convolution reaches, at most: its step carries as many inputs."""
Kinds = 16  # of sub-layers in a layer, at most


class Depths(Section):
    """The numbers of layers where encoder and decoder have not the same (3.1: both have N)."""

    encoder: Layers = Field(description="N (3.1) of the encoder: its identical layers; a number of layers.")
    decoder: Layers = Field(description="N (3.1) of the decoder: its identical layers; a number of layers.")

    def __str__(self) -> str:
        return f"{self.encoder} and {self.decoder}"


def _one_or_two(value: Any) -> str:
    return "two" if isinstance(value, (Mapping, Depths)) else "one"


class Architecture(Section):
    """The network (section 3). Every size is free of the others: nothing is derived from d_model / h."""

    N: Annotated[Annotated[Layers, Tag("one")] | Annotated[Depths, Tag("two")], Discriminator(_one_or_two)] = Field(
        description="N (3.1): identical layers of the encoder, and of the decoder, or both as `{encoder: 12, decoder: "
        "2}`; a number of layers."
    )
    encoder: Annotated[tuple[EncoderSubLayer, ...], Field(strict=False)] = Field(
        min_length=1,
        max_length=Kinds,
        description="Sub-layers of each of the encoder's layers (3.1: self-attention, feed-forward), in order; a list "
        "of sub-layers.",
    )
    decoder: Annotated[tuple[DecoderSubLayer, ...], Field(strict=False)] = Field(
        min_length=1,
        max_length=Kinds,
        description="Sub-layers of each of the decoder's layers (3.1: self-attention, attention to the encoder's "
        "output, feed-forward), in order; a list of sub-layers.",
    )
    d_model: Width = Field(description="d_model (3.1): width of every sub-layer's output; features.")
    d_ff: Size = Field(le=262_144, description="d_ff (3.3): width of the feed-forward network's inner layer; features.")
    h: Size = Field(le=1_024, description="h (3.2.2): attention heads; a number of heads.")
    d_k: Width = Field(description="d_k (3.2.1): width of one head's queries and keys; features.")
    d_v: Width = Field(description="d_v (3.2.1): width of one head's values; features.")
    dropout: Probability = Field(
        description="P_drop (5.4): dropout on every sub-layer's output and on embeddings + positions; a probability."
    )
    attention_dropout: Probability = Field(
        description="Dropout on the attention weights (5.4, a knob of its own, no letter); a probability."
    )
    activation_dropout: Probability = Field(
        description="Dropout on the feed-forward network's inner layer, after its activation (3.3; the paper has none, "
        "its authors' code has); a probability."
    )
    activation: Literal["relu", "silu", "gelu"] = Field(
        description="What stands between the two linear maps of the feed-forward network (3.3: ReLU): ReLU, "
        "x sigmoid(x) of Elfwing et al. 2018 (swish), or x Phi(x) of Hendrycks & Gimpel 2016; a choice. Convolutions "
        "keep their ReLU."
    )
    attention_score: Literal["scaled_dot_product", "dot_product", "additive"] = Field(
        description="How alike a query and a key are, in every attention (3.2.1): their product over sqrt(d_k), as in "
        "the paper, or without that factor, or v tanh(query + key) of Bahdanau et al. 2015, in which a head's W_Q and "
        "W_K are the hidden layer, d_k wide, and v is its own; a choice."
    )
    positional_encoding: Literal["sinusoidal", "sinusoidal_halves", "learned"] = Field(
        description="PE (3.5; Table 3 row E): interleaved sinusoids, all sines before all cosines as in the authors' "
        "code, whose slowest wave is 10000 x 2 pi, or a learned table of positions; a choice."
    )
    first_position: Count = Field(
        le=1_024,
        description="Number of a sentence's first position in sinusoids (3.5: 0; OpenNMT-tf counts from 1, fairseq "
        "from 2); a position. Learned tables begin at their first row.",
    )
    max_positions: Size = Field(
        le=1_048_576, description="Rows of the table of learned positions (3.5); tokens. Sinusoids know no bound."
    )
    norm: Literal["post", "pre"] = Field(
        description="LayerNorm (3.1) after the residual sum, as in the paper, or before the sub-layer; a choice."
    )
    norm_epsilon: Epsilon = Field(
        description="LayerNorm's epsilon (3.1; the paper is silent), added to the variance; no unit."
    )
    tied_embeddings: Literal["all", "target", "none"] = Field(
        description="One matrix (3.4) for both embeddings and the pre-softmax projection (all), for the "
        "target's embedding and the projection (target), or none; a choice."
    )
    projection_bias: bool = Field(
        description="Biases on W_Q, W_K, W_V and W_O (3.2.2: the paper has none); true or false."
    )
    output_bias: bool = Field(
        description="A bias on the logits, one number a token (3.4: the paper has none); true or false."
    )
    initial_weights: Literal["glorot_uniform", "glorot_normal", "glorot_uniform_half_qkv"] = Field(
        description="Distribution of the matrices at step 0 (the paper is silent), the last with half the variance for "
        "W_Q, W_K and W_V, as in fairseq; a choice."
    )

    @field_validator("N")
    @classmethod
    def _one_number_where_both_are_alike(cls, N: int | Depths) -> int | Depths:
        return N.encoder if isinstance(N, Depths) and N.encoder == N.decoder else N

    @property
    def depths(self) -> Depths:
        """The layers of the encoder and of the decoder, however `N` is written."""
        return self.N if isinstance(self.N, Depths) else Depths(encoder=self.N, decoder=self.N)

    @model_validator(mode="after")
    def _weights_are_named_by_their_kind(self) -> Self:
        for side in ("encoder", "decoder"):
            kinds = [each.kind for each in getattr(self, side)]
            for index, kind in enumerate(kinds):
                if kind in kinds[:index]:
                    broken_rule(
                        f"{side}.{index}",
                        problem=f"`architecture.{side}` has `{kind}` twice, and the weights of a layer are named by "
                        "the kinds in it",
                        hint="write each kind once",
                    )
        return self

    @model_validator(mode="after")
    def _both_ways_share_the_width(self) -> Self:
        for index, each in enumerate(self.encoder):
            if each.kind in ("ssru", "lstm") and self.d_model % 2:
                broken_rule(
                    "d_model",
                    f"encoder.{index}",
                    problem=f"`architecture.d_model` is odd ({self.d_model}), but the encoder's `{each.kind}` runs "
                    "both ways, each with half of it",
                    hint=f"write `d_model: {self.d_model + 1}`",
                )
        return self

    @model_validator(mode="after")
    def _kernels_have_a_middle(self) -> Self:
        for index, each in enumerate(self.encoder):
            if each.kind in ("convolution", "separable_convolution") and each.kernel % 2 == 0:
                broken_rule(
                    f"encoder.{index}.kernel",
                    problem=f"a position of the encoder is in the middle of the `kernel` that it reads, and "
                    f"{each.kernel} positions have none",
                    hint=f"write an odd one, such as `kernel: {each.kernel + 1}`",
                )
        return self

    @model_validator(mode="after")
    def _dilations_end(self) -> Self:
        for side in ("encoder", "decoder"):
            layers = getattr(self.depths, side)
            for index, each in enumerate(getattr(self, side)):
                if each.kind == "convolution" and each.dilated and each.kernel**layers > FURTHEST:
                    broken_rule(
                        f"{side}.{index}.kernel",
                        "N",
                        problem=f"`architecture.{side}` has {layers} layers of convolutions dilated by powers of "
                        f"{each.kernel}, of which the last reaches further than {FURTHEST:,} positions",
                        hint="write a smaller `kernel`, fewer layers `N`, or `dilated: false`",
                    )
        return self

    @model_validator(mode="after")
    def _decoder_reads_the_source(self) -> Self:
        if all(each.kind != "cross_attention" for each in self.decoder):
            broken_rule(
                "decoder",
                problem="`architecture.decoder` has no `cross_attention`: it would never read the source",
                hint="add `{kind: cross_attention}`",
            )
        return self

    @model_validator(mode="after")
    def _tables_begin_at_their_first_row(self) -> Self:
        if self.positional_encoding == "learned" and self.first_position:
            broken_rule(
                "first_position",
                "positional_encoding",
                problem=f"`architecture.first_position` is {self.first_position}, but a learned table of positions "
                "begins at its first row",
                hint="write `first_position: 0`",
            )
        return self

    @model_validator(mode="after")
    def _sinusoids_come_in_pairs(self) -> Self:
        if self.positional_encoding != "learned" and self.d_model % 2:
            broken_rule(
                "d_model",
                "positional_encoding",
                problem=f"`architecture.d_model` is odd ({self.d_model}), but sinusoids come in pairs",
                hint=f"write `d_model: {self.d_model + 1}`, or `positional_encoding: learned`",
            )
        return self
