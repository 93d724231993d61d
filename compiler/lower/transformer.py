"""From a spec to its graph. Read from top to bottom, this file is Figure 1 of the paper.

Inputs and outputs of each purpose, where `source` ends with EOS and `target` runs from BOS to EOS, both padded:

| purpose       | inputs                                       | outputs                                          |
|---------------|----------------------------------------------|--------------------------------------------------|
| `train`       | source [batch, source], target [b, target+1] | loss [2]: smoothed and plain, summed             |
| `score`       | the same                                     | log_probabilities [batch, target]                |
| `encode`      | source                                       | memory [batch, source, d_model]                  |
| `decode_step` | token and position [batch, new], source,     | log_probabilities [batch, new, V]                |
|               | memory; what a step carries to the next      |                                                  |
| `attend`      | as of `score`                                | the same; of each attention, by its name in the  |
|               |                                              | weights file, weights [batch, h, queries, keys]  |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler.builder import Builder, Value
from compiler.graph import Graph, Purpose
from compiler.lower.attention import cross_attention, self_attention
from compiler.lower.convolution import convolution
from compiler.lower.feed_forward import feed_forward
from compiler.lower.lstm import lstm
from compiler.lower.restricted_attention import restricted_attention
from compiler.lower.separable_convolution import separable_convolution
from compiler.lower.ssru import ssru
from compiler.lower.surroundings import Surroundings
from compiler.operations.embedding import Embed, Position
from compiler.operations.operation import Kind
from compiler.operations.probability import LogSoftmax, Loss, Pick
from compiler.operations.projection import Logits
from compiler.operations.residual import Dropout, Norm
from compiler.operations.views import Slice
from compiler.size import BATCH, NEW, SOURCE, TARGET, Size
from compiler.weights import Initial
from specs import DecoderSubLayer, EncoderSubLayer, Spec

SUBLAYERS: Mapping[str, Callable[[Value, Any, Surroundings], Value]] = {
    "self_attention": self_attention,
    "cross_attention": cross_attention,
    "feed_forward": feed_forward,
    "restricted_attention": restricted_attention,
    "ssru": ssru,
    "lstm": lstm,
    "convolution": convolution,
    "separable_convolution": separable_convolution,
}
"""How each kind is drawn. To add one: its file, its line here, and what a spec says of it (`specs/sublayers.py`)."""
PREFIXES = {
    "cross_attention": "memory_",
    "restricted_attention": "near_",
    "separable_convolution": "separable_",
}
"""Of the names of values, where two kinds of a layer would call theirs alike."""


def lower(spec: Spec, purpose: Purpose) -> Graph:
    """The graph of a spec for one purpose, exactly as the paper has it: no pass has touched it."""
    builder = Builder(purpose)
    transformer = _Transformer(spec, builder)
    draw = {
        Purpose.TRAIN: transformer.train,
        Purpose.SCORE: transformer.score,
        Purpose.ENCODE: transformer.encode,
        Purpose.DECODE_STEP: transformer.decode_step,
        Purpose.ATTEND: transformer.attend,
    }
    draw[purpose]()
    return builder.graph()


class _Transformer:
    def __init__(self, spec: Spec, builder: Builder) -> None:
        self.spec, self.b = spec, builder
        self.a = spec.architecture

    # What each purpose asks for.

    def train(self) -> None:
        logits, labels = self._teacher_forced()
        training = self.spec.training
        loss = Loss(training.label_smoothing, training.label_smoothing_spread == "wrong_classes")
        self.b.output("loss", self.b.node("loss", loss, (logits, labels)))

    def score(self) -> None:
        logits, labels = self._teacher_forced()
        log_probabilities = self.b.node("log_softmax", LogSoftmax(), (logits,))
        self.b.output("log_probabilities", self.b.node("picked", Pick(), (log_probabilities, labels)))

    def encode(self) -> None:
        self.b.output("memory", self.encoder(self.tokens("source", SOURCE)))

    def decode_step(self) -> None:
        token, position = self.tokens("token", NEW), self.tokens("position", NEW)
        source = self.tokens("source", SOURCE)
        memory = self.b.input("memory", BATCH, SOURCE, self.a.d_model)
        logits = self.logits(self.decoder(token, source, memory, position))
        self.b.output("log_probabilities", self.b.node("log_softmax", LogSoftmax(), (logits,)))

    def attend(self) -> None:
        """As for scoring. Each attention gives out its weights by itself (`lower/attention.py`)."""
        self.score()

    def _teacher_forced(self) -> tuple[Value, Value]:
        source, target = self.tokens("source", SOURCE), self.tokens("target", TARGET + 1)
        given = self.b.node("given", Slice(dimension=1, stop=-1), (target,))
        labels = self.b.node("labels", Slice(dimension=1, start=1), (target,))
        return self.logits(self.decoder(given, source, self.encoder(source))), labels

    def tokens(self, name: str, length: Size) -> Value:
        return self.b.input(name, BATCH, length, kind=Kind.INTEGER)

    # Figure 1, left: the encoder (3.1).

    def encoder(self, source: Value) -> Value:
        x = self.embedding("source", source)
        around = Surroundings(self.b, self.a, source, causal=False)
        for i in range(self.a.depths.encoder):
            with self.b.layer(f"encoder.{i}"):
                x = self.layer(x, self.a.encoder, replace(around, number=i))
        return self.final_norm("encoder", x)

    # Figure 1, right: the decoder (3.1).

    def decoder(self, target: Value, source: Value, memory: Value, position: Value | None = None) -> Value:
        y = self.embedding("target", target, position)
        around = Surroundings(self.b, self.a, target, True, position, source, memory)
        for i in range(self.a.depths.decoder):
            with self.b.layer(f"decoder.{i}"):
                y = self.layer(y, self.a.decoder, replace(around, number=i))
        return self.final_norm("decoder", y)

    def layer(self, x: Value, kinds: Sequence[EncoderSubLayer | DecoderSubLayer], around: Surroundings) -> Value:
        """LayerNorm(x + Dropout(Sublayer(x))) of each in turn, as in 3.1 and 5.4, or with the norm before."""
        for of in kinds:
            sublayer = SUBLAYERS[of.kind]
            with self.b.part(of.kind, PREFIXES.get(of.kind, "")):
                if self.a.norm == "pre":
                    x += self.dropout(sublayer(self.norm(x), of, around))
                else:
                    x = self.norm(x + self.dropout(sublayer(x, of, around)))
        return x

    # 3.4 and 3.5: embeddings, positions and the pre-softmax projection.

    def embedding(self, side: str, tokens: Value, position: Value | None = None) -> Value:
        embedded = self.b.node("embedded", Embed(self.a.d_model**0.5), (tokens,), self.table(side))
        inputs = (embedded,) if position is None else (embedded, position)
        part = "encoder" if side == "source" else "decoder"
        learned = (
            [self.b.parameter(f"{part}.positions", self.a.max_positions, self.a.d_model, initial=Initial.EMBEDDING)]
            if self.a.positional_encoding == "learned"
            else []
        )
        placing = Position(self.a.positional_encoding == "sinusoidal_halves", self.a.first_position)
        return self.dropout(self.b.node("placed", placing, inputs, *learned))

    def table(self, side: str) -> str:
        """The embedding of a side, or `output` for the pre-softmax projection; which are one says `tied_embeddings`."""
        name = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }[self.a.tied_embeddings]
        vocabulary = self.spec.vocabulary.sizes[side != "source"]
        return self.b.parameter(name, vocabulary, self.a.d_model, initial=Initial.EMBEDDING)

    def logits(self, y: Value) -> Value:
        """Against each token, and with `output_bias` how likely it is whatever is written."""
        vocabulary = self.spec.vocabulary.sizes[1]
        bias = [self.b.parameter("output_bias", vocabulary, initial=Initial.ZERO)] if self.a.output_bias else []
        return self.b.node("logits", Logits(), (y,), self.table("output"), *bias)

    # The rest of 3.1 and 5.4.

    def dropout(self, x: Value) -> Value:
        return self.b.node("dropped", Dropout(self.a.dropout), (x,))

    def norm(self, x: Value) -> Value:
        gain = self.b.parameter("norm_gain", x.width, initial=Initial.ONE)
        bias = self.b.parameter("norm_bias", x.width, initial=Initial.ZERO)
        return self.b.node("normed", Norm(self.a.norm_epsilon), (x,), gain, bias)

    def final_norm(self, part: str, x: Value) -> Value:
        """Where the norm comes before each sub-layer, one more is due after the last."""
        if self.a.norm == "post":
            return x
        with self.b.part(part):
            return self.norm(x)
