"""Lowering of the whole model from a spec to a graph. The methods follow Figure 1 of the paper.

The table shows the inputs and outputs for each purpose. `source` ends with EOS. `target` starts with BOS and ends with
EOS. Both inputs are padded. Masks are computed from `source_length`, the number of positions in each source.
Source features are [batch, frames, width]. Convolutions shorten `frames` to `source` positions.

| purpose       | inputs                                       | outputs                                          |
|---------------|----------------------------------------------|--------------------------------------------------|
| `train`       | source [batch, source], source_length [b],   | loss [2]: sums with and without label smoothing  |
|               | target [batch, target+1]; with guided        |                                                  |
|               | alignment, alignment [batch, target, source] |                                                  |
| `score`       | source, source_length, target                | log_probabilities [batch, target]                |
| `encode`      | source, source_length                        | memory [batch, source, d_model], source_padding  |
| `decode_step` | token and position [batch, new], memory,     | log_probabilities [batch, new, V]                |
|               | source_padding, the state of the step before | and the new positions of the state               |
| `attend`      | source, source_length, target                | log_probabilities, and for each attention, named |
|               |                                              | after it, weights [batch, h, queries, keys]      |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pkgutil import resolve_name
from typing import Any

from compiler.builder import GraphBuilder, Value
from compiler.graph import Graph, Purpose, unique_name
from compiler.lowering.aligned_memory import aligned_memory
from compiler.lowering.attention import cross_attention, restricted_attention, self_attention
from compiler.lowering.context import LayerContext, Memory
from compiler.lowering.convolution import bottleneck_convolution, convolution, separable_convolution
from compiler.lowering.features import features
from compiler.lowering.feed_forward import feed_forward, mixture_of_experts
from compiler.lowering.norm import normalised
from compiler.lowering.positions import add_positions
from compiler.lowering.recurrence import lstm, ssru
from compiler.operations.elementwise import Dropout, Scale
from compiler.operations.mask import PaddingMask
from compiler.operations.operation import ValueKind
from compiler.operations.probability import AlignmentLoss, CrossEntropy, CtcLoss, LogSoftmax, PickLabels
from compiler.operations.projection import Embedding, Logits
from compiler.operations.views import Slice
from compiler.size import BATCH, NEW, SOURCE, TARGET, Size
from compiler.weights import Initializer
from specs import DecoderSubLayer, EncoderSubLayer, Features, Spec, ZooError

SUBLAYERS: Mapping[str, Callable[[Value, Any, LayerContext], Value]] = {
    "self_attention": self_attention,
    "cross_attention": cross_attention,
    "feed_forward": feed_forward,
    "mixture_of_experts": mixture_of_experts,
    "restricted_attention": restricted_attention,
    "ssru": ssru,
    "lstm": lstm,
    "convolution": convolution,
    "separable_convolution": separable_convolution,
    "bottleneck_convolution": bottleneck_convolution,
    "aligned_memory": aligned_memory,
}
"""The lowering function for each kind of sub-layer. To add a kind, add a function, a line here, and its spec class."""
UNPREFIXED = ("self_attention", "feed_forward", "ssru", "lstm", "convolution")
"""Sub-layer kinds whose value names have no prefix. For all other kinds, the prefix is the first word of the kind.

The prefixes give all values in a layer different names."""


def lower(spec: Spec, purpose: Purpose) -> Graph:
    """Lower a spec to the graph for one purpose, without running passes. The graph follows the paper's figures.

    A model without an encoder has no graph for the purpose `encode`, and its other graphs have no source inputs.
    """
    builder = GraphBuilder(purpose)
    transformer = Transformer(spec, builder)
    if purpose is Purpose.ENCODE:
        transformer.encode()
    elif purpose is Purpose.DECODE_STEP:
        transformer.decode_step()
    else:  # for ATTEND, each attention also adds its weights as an output
        resolve_name(spec.task.loss)(transformer)
    return builder.graph()


class Transformer:
    """Builder of a whole model's graph. The methods are in the order of Figure 1."""

    def __init__(self, spec: Spec, builder: GraphBuilder) -> None:
        self.spec, self.b = spec, builder
        self.a = spec.architecture
        self.guided: list[Value] = []
        """The attention weights that `training.guided_alignment` trains."""

    # Outputs of a compiled model that encodes and decodes

    def encode(self) -> None:
        """Add the encoder and its outputs to the graph."""
        memory, padding = self.encoder()
        self.b.output("memory", memory)
        self.b.output("source_padding", padding)

    def decode_step(self) -> None:
        """Add a decoder step and its output to the graph."""
        token, position = self.tokens("token", NEW), self.tokens("position", NEW)
        memory = None
        if self.a.encoder:
            padding = self.b.input("source_padding", BATCH, 1, 1, SOURCE, kind=ValueKind.MASK)
            memory = Memory(self.b.input("memory", BATCH, SOURCE, self.a.d_model), padding)
        logits = self.logits(self.decoder(token, memory, position))
        self.b.output("log_probabilities", self.b.node("log_softmax", LogSoftmax(), (logits,)))

    def teacher_forced(self) -> tuple[Value, Value, Memory | None]:
        """Add the model with teacher forcing to the graph. Return the logits, the labels and the encoder output.

        The decoder reads target[:, :-1], and the labels are target[:, 1:]. For the purpose `update`, the decoder input
        and the labels are separate inputs of the graph, because packed rows contain several sentences.
        """
        memory = self.encoder() if self.a.encoder else None
        if self.b.purpose is Purpose.UPDATE:
            read, labels = self.tokens("target", TARGET), self.tokens("labels", TARGET)
        else:
            target = self.tokens("target", TARGET + 1)
            read = self.b.node("shifted", Slice(dimension=1, stop=-1), (target,))
            labels = self.b.node("labels", Slice(dimension=1, start=1), (target,))
        return self.logits(self.decoder(read, memory)), labels, memory

    def tokens(self, name: str, length: Size) -> Value:
        """Add an input for token IDs, with shape [batch, length]."""
        return self.b.input(name, BATCH, length, kind=ValueKind.INTEGER)

    # Figure 1, left: the encoder (section 3.1)

    def encoder(self) -> Memory:
        """Add the encoder to the graph, and return its output."""
        if isinstance(self.a.source, Features):
            x, length = features(self.b, self.a.source, self.a.d_model)
            stream = x
            if self.a.scale_embeddings:
                x = self.b.node("scaled_features", Scale(self.a.d_model**0.5), (x,))
        else:
            stream = self.tokens("source", SOURCE)
            length = self.b.input("source_length", BATCH, kind=ValueKind.INTEGER)
            x = self.look_up("source", stream)
        padding = self.b.node("source_padding", PaddingMask(), (length, stream))
        context = LayerContext(self.b, self.a, stream, length, padding)
        x = self.with_positions(x, context)
        for i in range(self.a.depths.encoder):
            with self.b.layer(f"encoder.{i}"):
                x = self.layer(x, self.a.encoder, replace(context, index=i))
        return Memory(self.final_norm("encoder", x), padding)

    # Figure 1, right: the decoder (section 3.1)

    def decoder(self, target: Value, memory: Memory | None, position: Value | None = None) -> Value:
        """Add the decoder to the graph, and return its output [batch, target, d_model]."""
        context = LayerContext(self.b, self.a, target, position=position, memory=memory)
        y = self.with_positions(self.look_up("target", target), context)
        context = replace(context, embedded=y)
        for i in range(self.a.depths.decoder):
            with self.b.layer(f"decoder.{i}"):
                is_guided = self.b.purpose.trains and i == self.spec.guided_layer
                y = self.layer(y, self.a.decoder, replace(context, index=i, guided=self.guided if is_guided else None))
        return self.final_norm("decoder", y)

    def layer(self, x: Value, sublayers: Sequence[EncoderSubLayer | DecoderSubLayer], context: LayerContext) -> Value:
        """Apply the sub-layers of a layer in order, and return the result.

        A sub-layer is named after its kind. If a layer has several sub-layers of one kind, the second sub-layer
        gets the suffix `_2`, the third `_3`, and so on.
        """
        names = set[str]()
        for sublayer in sublayers:
            name = unique_name(sublayer.kind, names)
            names.add(name)
            word = sublayer.kind.partition("_")[0] if name == sublayer.kind else name
            with self.b.sublayer(name, "" if name in UNPREFIXED else f"{word}_"):
                x = self.residual(x, sublayer, context)
        return x

    def residual(self, x: Value, sublayer: EncoderSubLayer | DecoderSubLayer, context: LayerContext) -> Value:
        """Return LayerNorm(x + Dropout(Sublayer(x))) (sections 3.1 and 5.4). The spec may place the norm elsewhere."""
        norm, dropout = self.a.option(sublayer, "norm"), self.a.option(sublayer, "dropout")
        y = SUBLAYERS[sublayer.kind](x if norm.placement == "post" else normalised(x, norm), sublayer, context)
        if not isinstance(y, Value) or y.type != x.type:
            found = y.type if isinstance(y, Value) else repr(y)
            problem = f"the lowering function of the sub-layer `{sublayer.kind}` returns {found} for an input {x.type}"
            raise ZooError(problem, hint="change the function to return a `Value` with the type of its input")
        if norm.placement == "post":
            return normalised(x + self.dropout(y, dropout), norm)
        if norm.placement == "both":
            y = normalised(y, norm, "post_norm")
        return x + self.dropout(y, dropout)

    def dropout(self, x: Value, probability: float) -> Value:
        """Apply dropout to a value."""
        return self.b.node("dropped", Dropout(probability), (x,))

    def final_norm(self, stack: str, x: Value) -> Value:
        """Normalise the output of a stack's last layer. Return it unchanged if the norm's placement is `post`."""
        if self.a.norm.placement == "post":
            return x
        with self.b.sublayer(stack):
            return normalised(x, self.a.norm)

    # Embeddings, positional encoding and the pre-softmax projection (sections 3.4 and 3.5)

    def look_up(self, side: str, tokens: Value) -> Value:
        """Embed tokens. Multiply the embeddings by sqrt(d_model) if the spec has `scale_embeddings` (section 3.4)."""
        scale = self.a.d_model**0.5 if self.a.scale_embeddings else 1.0
        return self.b.node("embedded", Embedding(scale), (tokens,), self.table(side))

    def with_positions(self, x: Value, context: LayerContext) -> Value:
        """Add positional encodings to embeddings, normalise the sum (if specified), and apply dropout (section 5.4)."""
        x = add_positions(x, context)
        if self.a.norm.embeddings:
            with self.b.sublayer(context.stack):
                x = normalised(x, self.a.norm, "embedding_norm")
        return self.dropout(x, self.a.dropout)

    def table(self, side: str) -> str:
        """Return the name of the table for the source embedding, the target embedding or the output projection.

        The spec's `tied_embeddings` determines which of these three share one table.

        Args:
            side: `source`, `target` or `output`.
        """
        name = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "embeddings": "embedding" if side != "output" else "output_projection",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }[self.a.tied_embeddings]
        vocabulary = self.spec.vocabulary.sizes[side != "source"]
        return self.b.parameter(name, vocabulary, self.a.d_model, initial=Initializer.EMBEDDING)

    def logits(self, y: Value) -> Value:
        """Return the logits of all tokens in the vocabulary. They include a bias if the spec has `output_bias`."""
        if self.a.scale_logits:
            y = self.b.node("scaled", Scale(self.a.d_model**-0.5), (y,))
        vocabulary = self.spec.vocabulary.sizes[1]
        bias = [self.b.parameter("output_bias", vocabulary, initial=Initializer.ZERO)] if self.a.output_bias else []
        return self.b.node("logits", Logits(), (y,), self.table("output"), *bias)


def cross_entropy(model: Transformer) -> None:
    """Add the cross entropy of the target tokens to the graph (section 5.4).

    Each token is predicted from the tokens before it. For purposes other than training, add the log-probabilities of
    the target tokens instead.
    """
    (logits, labels, memory), b, training = model.teacher_forced(), model.b, model.spec.training
    if not b.purpose.trains:
        log_probabilities = b.node("log_softmax", LogSoftmax(), (logits,))
        b.output("log_probabilities", b.node("picked", PickLabels(), (log_probabilities, labels)))
        return
    loss = CrossEntropy(training.label_smoothing, training.label_smoothing_spread == "wrong_classes")
    total = b.node("loss", loss, (logits, labels))
    if training.guided_alignment is not None:
        (weights,) = model.guided
        alignment = b.input("alignment", BATCH, TARGET, SOURCE)
        total = b.node("guided_loss", AlignmentLoss(training.guided_alignment), (total, weights, alignment))
    if training.ctc_weight is not None and memory is not None:
        encoder_logits = model.logits(memory.x)
        total = b.node("ctc_loss", CtcLoss(training.ctc_weight), (total, encoder_logits, memory.padding, labels))
    b.output("loss", total)
