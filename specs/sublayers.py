"""The sub-layers of one layer, one class a kind: what stands between two residuals (section 3.1)."""

from typing import Annotated, Literal

from pydantic import Field

from specs.section import Section


class SelfAttention(Section):
    """Every position attends to its own side's (3.2.3); in the decoder to none after it. Its sizes are h, d_k, d_v."""

    kind: Literal["self_attention"] = Field(description="Multi-head attention of a side to itself (3.2.3); a kind.")


class MemoryAttention(Section):
    """Every position of the decoder attends to the encoder's output (3.2.3). Its sizes are h, d_k, d_v."""

    kind: Literal["memory_attention"] = Field(
        description="Multi-head attention of the decoder to the encoder's output (3.2.3); a kind."
    )


class FeedForward(Section):
    """Two linear maps with a ReLU between them, at each position alone (3.3). Its size is d_ff."""

    kind: Literal["feed_forward"] = Field(description="Position-wise feed-forward network (3.3); a kind.")


EncoderSubLayer = Annotated[SelfAttention | FeedForward, Field(discriminator="kind")]
DecoderSubLayer = Annotated[SelfAttention | MemoryAttention | FeedForward, Field(discriminator="kind")]
