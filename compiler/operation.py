"""The operations of the graph, each a type with its attributes and the rule by which shapes pass through it.

What an operation computes stands in one line of `interpreter.py`; how it is written as PyTorch, in one of `emit.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from compiler.size import Size, product

Shape = tuple[Size, ...]


class GraphError(ValueError):
    """A graph that breaks its own grammar: a fault of a lowering or a pass, never of the user."""


class Kind(StrEnum):
    INTEGER = "integer"
    FLOAT = "float"


@dataclass(frozen=True)
class Type:
    """What a value is: its symbolic shape, and whether it holds pieces or numbers."""

    shape: Shape
    kind: Kind = Kind.FLOAT

    def __str__(self) -> str:
        return f"{'i' if self.kind is Kind.INTEGER else 'f'}[{', '.join(map(str, self.shape))}]"


def require(condition: bool, operation: object, *types: Type) -> None:
    if not condition:
        raise GraphError(f"{operation} cannot take {', '.join(map(str, types))}")


class Operation:
    """An operation: `infer` gives the type of its result from its inputs and its parameters, or raises GraphError."""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        raise GraphError(f"{type(self).__name__} has no rule")

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        """FLOPs of its matrix products, a multiply-add counted as two; everything else counts nothing."""
        return Size()

    def kept(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        """Numbers beside the result that the backward pass needs."""
        return Size()


@dataclass(frozen=True)
class Embed(Operation):
    """Rows of a table, times `scale` (3.4: sqrt(d_model)). tokens, table [V, d] -> [..., d]"""

    scale: float

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (tokens,), (table,) = inputs, parameters
        require(tokens.kind is Kind.INTEGER and len(table) == 2, self, tokens)
        return Type((*tokens.shape, table[1]))


@dataclass(frozen=True)
class Position(Operation):
    """Adds the encoding of each position (3.5): of 0.. on, or of those given. x [, position [b, n]] [, table] -> x"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        x, *position = inputs
        require(len(x.shape) == 3 and all(p.shape == x.shape[:2] for p in position), self, *inputs)
        require(all(table[1] == x.shape[2] for table in parameters), self, *inputs)
        return x


@dataclass(frozen=True)
class Slice(Operation):
    """`start:stop` of one dimension, counted from the end (-1 is the last)."""

    dimension: int
    start: int = 0
    stop: int | None = None

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,) = inputs
        whole = x.shape[self.dimension]
        end = whole if self.stop is None else (whole + self.stop if self.stop < 0 else Size.of(self.stop))
        shape = list(x.shape)
        shape[self.dimension] = end - self.start
        return Type(tuple(shape), x.kind)


@dataclass(frozen=True)
class Linear(Operation):
    """x W, and b where there is one. x [..., i], W [i, o] [, b [o]] -> [..., o]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,), (matrix, *bias) = inputs, parameters
        require(x.shape[-1] == matrix[0] and all(b == matrix[1:] for b in bias), self, x, Type(matrix))
        return Type((*x.shape[:-1], matrix[1]))

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][1]


@dataclass(frozen=True)
class Logits(Operation):
    """x against every row of a table (3.4), the same one as the embedding where they are tied. [..., d] -> [..., V]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,), (table,) = inputs, parameters
        require(x.shape[-1] == table[1], self, x, Type(table))
        return Type((*x.shape[:-1], table[0]))

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]


@dataclass(frozen=True)
class QuantisedLinear(Operation):
    """x W + b in int8: x is scaled a row, W a column, sums are int32. x [..., i], W [i, o], scales [o] [, b [o]]

    A row's scale is that of its largest number alone, so that no row depends on its neighbours.
    """

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,), (matrix, *columns) = inputs, parameters
        require(x.shape[-1] == matrix[0] and all(c == matrix[1:] for c in columns), self, x, Type(matrix))
        return Type((*x.shape[:-1], matrix[1]))

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][1]


@dataclass(frozen=True)
class QuantisedLogits(Operation):
    """`Logits` in int8, as in QuantisedLinear. x [..., d], table [V, d], scales [V] -> [..., V]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,), (table, scales) = inputs, parameters
        require(x.shape[-1] == table[1] and scales == table[:1], self, x, Type(table))
        return Type((*x.shape[:-1], table[0]))

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]


@dataclass(frozen=True)
class FoldBeams(Operation):
    """Each hypothesis a row of its own. [batch, beams, w] -> [batch·beams, 1, w]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        batch, beams, width = inputs[0].shape
        return Type((batch * beams, Size.of(1), width))


@dataclass(frozen=True)
class UnfoldBeams(Operation):
    """Those of a sentence side by side again. x [batch·beams, 1, w], like [batch, beams] -> [batch, beams, w]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        x, like = inputs
        require(len(like.shape) == 2 and x.shape[0] == like.shape[0] * like.shape[1], self, *inputs)
        return Type((*like.shape, x.shape[2]))


@dataclass(frozen=True)
class SplitHeads(Operation):
    """[batch, n, h·d] -> [batch, h, n, d]"""

    heads: int

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,) = inputs
        batch, length, width = x.shape
        require(width.constant % self.heads == 0, self, x)
        return Type((batch, Size.of(self.heads), length, Size.of(width.constant // self.heads)))


@dataclass(frozen=True)
class MergeHeads(Operation):
    """[batch, h, n, d] -> [batch, n, h·d]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        batch, heads, length, width = inputs[0].shape
        return Type((batch, length, heads * width))


class Cached(StrEnum):
    """Which keys of a cache are a row's own, where some rows are at earlier positions than others."""

    GROWN = "grown"  # the last ones, as many as it has read
    PLANNED = "planned"  # the first ones


class Kernel(StrEnum):
    """How an attention is computed."""

    EXPLICIT = "explicit"  # product, softmax, product
    FUSED = "fused"  # in one call, its weights never whole


@dataclass(frozen=True)
class Attention(Operation):
    """softmax(scale · Q Kᵀ, masked) V (3.2.1). Q [batch, h, n, d_k], K [batch, h, m, d_k], V [batch, h, m, d_v].

    Masks are attributes: `causal` hides keys after the query; `padding` names the graph input whose padding the
    keys stand for; `cached` hides keys of a cache that are not the row's own, by the input `position`. Dropout falls
    on the weights after the softmax.
    """

    scale: float
    causal: bool = False
    padding: str | None = None
    dropout: float = 0.0
    cached: Cached | None = None
    kernel: Kernel = Kernel.EXPLICIT

    @property
    def masked_by(self) -> tuple[str, ...]:
        """The graph's inputs that its masks are made of."""
        return (*((self.padding,) if self.padding else ()), *(("position",) if self.cached else ()))

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        query, key, value = inputs
        require(query.shape[:2] == key.shape[:2] == value.shape[:2], self, *inputs)
        require(query.shape[3] == key.shape[3] and key.shape[2] == value.shape[2], self, *inputs)
        require(not self.causal or query.shape[2] == key.shape[2], self, *inputs)
        return Type((*query.shape[:3], value.shape[3]))

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        query, key, value = inputs
        return 2 * product(query.shape[:3]) * key.shape[2] * (key.shape[3] + value.shape[3])

    def kept(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        weights = product(inputs[0].shape[:3]) * inputs[1].shape[2]
        # The scaled query and, with dropout, its mask and the weights after it.
        return product(inputs[0].shape) + weights * (3 if self.dropout else 1)


@dataclass(frozen=True)
class Append(Operation):
    """The cache write: one position more. cache [batch, h, n, d], new [batch, h, 1, d] -> [batch, h, n + 1, d]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        cache, new = inputs
        fits = cache.shape[:2] == new.shape[:2] and cache.shape[3] == new.shape[3]
        require(fits, self, *inputs)
        return Type((*cache.shape[:2], cache.shape[2] + new.shape[2], cache.shape[3]))


@dataclass(frozen=True)
class Write(Operation):
    """The cache write where there is room already. cache [b, h, room, d], new [b, h, 1, d], position -> cache"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        cache, new, position = inputs
        fits = cache.shape[:2] == new.shape[:2] and cache.shape[3] == new.shape[3]
        require(fits and product(position.shape) == cache.shape[0], self, *inputs)
        return cache


@dataclass(frozen=True)
class Add(Operation):
    """The residual connection (3.1)."""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        x, y = inputs
        require(x == y, self, x, y)
        return x


@dataclass(frozen=True)
class Norm(Operation):
    """Layer normalisation over the last dimension, with gain and bias."""

    epsilon: float

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        (x,) = inputs
        require(all(p == x.shape[-1:] for p in parameters) and len(parameters) == 2, self, x)
        return x


@dataclass(frozen=True)
class Activation(Operation):
    """max(0, x) (3.3)."""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        return inputs[0]


@dataclass(frozen=True)
class Dropout(Operation):
    """Each number is zero with this probability while training, the others scaled up (5.4)."""

    probability: float

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        return inputs[0]

    def kept(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return product(inputs[0].shape)  # its mask


@dataclass(frozen=True)
class LogSoftmax(Operation):
    """Log-probabilities over the last dimension, in float32 whatever comes in."""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        return inputs[0]


@dataclass(frozen=True)
class Pick(Operation):
    """Of each position the log-probability of its label, and 0 at padding. [..., V], labels [...] -> [...]"""

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and labels.kind is Kind.INTEGER, self, x, labels)
        return Type(labels.shape)


@dataclass(frozen=True)
class Loss(Operation):
    """Cross entropy (5.4) summed over the labels that are not padding. logits [..., V], labels [...] -> [2]

    The first number is smoothed and is what training lowers, the second is not and gives the perplexity.
    `wrong_classes`: the smoothing is spread over V - 1 classes, else over all V.
    """

    smoothing: float
    wrong_classes: bool

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        logits, labels = inputs
        require(logits.shape[:-1] == labels.shape and labels.kind is Kind.INTEGER, self, logits, labels)
        return Type((Size.of(2),))


@dataclass(frozen=True)
class ChunkedLoss(Operation):
    """Logits and Loss in one, a chunk of positions at a time, so that the logits never exist whole.

    x [..., d], labels [...], table [at least V, d] -> [2], where V is `classes`
    """

    smoothing: float
    wrong_classes: bool
    classes: int

    def infer(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Type:
        x, labels = inputs
        require(x.shape[:-1] == labels.shape and x.shape[-1] == parameters[0][1], self, x, labels)
        return Type((Size.of(2),))

    def products(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return 2 * product(inputs[0].shape) * parameters[0][0]

    def kept(self, inputs: tuple[Type, ...], parameters: tuple[Shape, ...]) -> Size:
        return product(parameters[0])  # the table's gradient is there before the others
