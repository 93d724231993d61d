"""From a spec to its graph. Read from top to bottom, this file is Figure 1 of the paper.

Inputs and outputs of each purpose, where `source` ends with EOS and `target` runs from BOS to EOS, both padded:

| purpose       | inputs                                       | outputs                                          |
|---------------|----------------------------------------------|--------------------------------------------------|
| `train`       | source [batch, source], target [b, target+1] | loss [2]: smoothed and plain, summed             |
| `score`       | the same                                     | log_probabilities [batch, target]                |
| `encode`      | source                                       | memory [batch, source, d_model]                  |
| `decode_step` | token and position [batch, 1], source,       | log_probabilities [batch, 1, V],                 |
|               | memory, two caches a layer                   | the caches, one position longer                  |
"""

from __future__ import annotations

from collections.abc import Callable

from compiler.builder import Builder, Value
from compiler.graph import Graph, Kind, Purpose
from compiler.operation import (
    Activation,
    Append,
    Attention,
    Cached,
    Dropout,
    Embed,
    Linear,
    Logits,
    LogSoftmax,
    Loss,
    MergeHeads,
    Norm,
    Pick,
    Position,
    Slice,
    SplitHeads,
)
from compiler.size import BATCH, SOURCE, TARGET
from compiler.weights import Initial
from specs import Spec


def lower(spec: Spec, purpose: Purpose) -> Graph:
    """The graph of a spec for one purpose, exactly as the paper has it: no pass has touched it."""
    return getattr(_Transformer(spec, Builder(purpose)), purpose)()  # type: ignore[no-any-return]


class _Transformer:
    def __init__(self, spec: Spec, builder: Builder) -> None:
        self.spec, self.b = spec, builder
        self.a = spec.architecture

    # What each purpose asks for.

    def train(self) -> Graph:
        logits, labels = self._teacher_forced()
        training = self.spec.training
        loss = Loss(training.label_smoothing, training.label_smoothing_spread == "wrong_classes")
        self.b.output("loss", self.b.node("loss", loss, (logits, labels)))
        return self.b.graph()

    def score(self) -> Graph:
        logits, labels = self._teacher_forced()
        log_probabilities = self.b.node("log_softmax", LogSoftmax(), (logits,))
        self.b.output("log_probabilities", self.b.node("picked", Pick(), (log_probabilities, labels)))
        return self.b.graph()

    def encode(self) -> Graph:
        self.b.output("memory", self.encoder(self.tokens("source", SOURCE)))
        return self.b.graph()

    def decode_step(self) -> Graph:
        token, position = self.tokens("token", 1), self.tokens("position", 1)
        self.tokens("source", SOURCE)
        memory = self.b.input("memory", BATCH, SOURCE, self.a.d_model)
        logits = self.logits(self.decoder(token, memory, position))
        self.b.output("log_probabilities", self.b.node("log_softmax", LogSoftmax(), (logits,)))
        return self.b.graph()

    def _teacher_forced(self) -> tuple[Value, Value]:
        source, target = self.tokens("source", SOURCE), self.tokens("target", TARGET + 1)
        given = self.b.node("given", Slice(dimension=1, stop=-1), (target,))
        labels = self.b.node("labels", Slice(dimension=1, start=1), (target,))
        return self.logits(self.decoder(given, self.encoder(source))), labels

    def tokens(self, name: str, length: object) -> Value:
        return self.b.input(name, BATCH, length, kind=Kind.INTEGER)  # type: ignore[arg-type]

    # Figure 1, left: the encoder (3.1).

    def encoder(self, source: Value) -> Value:
        x = self.embedding("source", source)
        for i in range(self.a.N):
            with self.b.layer(f"encoder.{i}"):
                x = self.sublayer("self_attention", x, lambda x: self.attention(x, x, padding="source"))
                x = self.sublayer("feed_forward", x, self.feed_forward)
        return self.final_norm("encoder", x)

    # Figure 1, right: the decoder (3.1).

    def decoder(self, target: Value, memory: Value, position: Value | None = None) -> Value:
        y = self.embedding("target", target, position)
        for i in range(self.a.N):
            with self.b.layer(f"decoder.{i}"):
                y = self.sublayer("self_attention", y, lambda y: self.attention(y, y, causal=True))
                y = self.sublayer("memory_attention", y, lambda y: self.attention(y, memory, padding="source"))
                y = self.sublayer("feed_forward", y, self.feed_forward)
        return self.final_norm("decoder", y)

    def sublayer(self, name: str, x: Value, function: Callable[[Value], Value]) -> Value:
        """LayerNorm(x + Dropout(Sublayer(x))) as in 3.1 and 5.4, or with the norm before."""
        with self.b.part(name):
            if self.a.norm == "pre":
                return x + self.dropout(function(self.norm(x)))
            return self.norm(x + self.dropout(function(x)))

    # Figure 2: multi-head attention (3.2).

    def attention(self, x: Value, memory: Value, *, causal: bool = False, padding: str | None = None) -> Value:
        a = self.a
        query = self.heads("query", x, a.d_k)
        key = self.heads("key", memory, a.d_k)
        value = self.heads("value", memory, a.d_v)
        cached = None
        if causal and self.b.purpose is Purpose.DECODE_STEP:
            key, value, causal, cached = self.cached("keys", key), self.cached("values", value), False, Cached.GROWN
        attention = Attention(a.d_k**-0.5, causal, padding, a.attention_dropout, cached)
        context = self.b.node("context", attention, (query, key, value))
        return self.linear("output", self.b.node("merged", MergeHeads(), (context,)), a.d_model)

    def heads(self, name: str, x: Value, width: int) -> Value:
        projected = self.linear(name, x, self.a.h * width)
        return self.b.node(f"{name}_heads", SplitHeads(self.a.h), (projected,))

    def cached(self, name: str, new: Value) -> Value:
        """All positions up to this one. Those before it come in, and `target` counts this one too."""
        cache = self.b.cache(name, BATCH, self.a.h, TARGET - 1, new.width)
        grown = self.b.node(f"grown_{name}", Append(), (cache, new))
        self.b.carry(cache, grown)
        return grown

    def linear(self, name: str, x: Value, width: int) -> Value:
        matrix = self.b.parameter(name, x.width, width)
        bias = self.b.parameter(f"{name}_bias", width, initial=Initial.ZERO) if self.a.projection_bias else None
        return self.b.node(name, Linear(), (x,), *filter(None, (matrix, bias)))

    # 3.3: the position-wise feed-forward network, max(0, x W1 + b1) W2 + b2.

    def feed_forward(self, x: Value) -> Value:
        a = self.a
        w1, b1 = (
            self.b.parameter("w1", a.d_model, a.d_ff),
            self.b.parameter("b1", a.d_ff, initial=Initial.ZERO),
        )
        w2, b2 = (
            self.b.parameter("w2", a.d_ff, a.d_model),
            self.b.parameter("b2", a.d_model, initial=Initial.ZERO),
        )
        inner = self.b.node("inner", Activation(), (self.b.node("widened", Linear(), (x,), w1, b1),))
        return self.b.node("narrowed", Linear(), (inner,), w2, b2)

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
        return self.dropout(self.b.node("placed", Position(), inputs, *learned))

    def table(self, side: str) -> str:
        """The embedding of a side, or `output` for the pre-softmax projection; which are one says `tied_embeddings`."""
        name = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }[self.a.tied_embeddings]
        return self.b.parameter(name, self.spec.vocabulary.size, self.a.d_model, initial=Initial.EMBEDDING)

    def logits(self, y: Value) -> Value:
        return self.b.node("logits", Logits(), (y,), self.table("output"))

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
