"""Lowering of position-wise feed-forward networks (section 3.3) and mixtures of experts (Shazeer et al. 2017)."""

# ruff: noqa: D102 - methods that override those of `Operation` are documented there

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from compiler.builder import Value
from compiler.lowering.context import LayerContext
from compiler.operations.elementwise import ActivationOperation, Dropout, Gelu, GeluTanh, Multiply, Relu, Silu
from compiler.operations.operation import (
    EmitContext,
    Expressions,
    Operation,
    Shape,
    Tensors,
    ValueType,
    ValueTypes,
    require,
)
from compiler.operations.projection import Linear
from compiler.size import Size, product
from compiler.weights import Initializer
from specs import FeedForward, MixtureOfExperts

if TYPE_CHECKING:
    from torch import Tensor


ACTIVATIONS: Mapping[str, ActivationOperation] = {
    "relu": Relu(),
    "silu": Silu(),
    "gelu": Gelu(),
    "gelu_tanh": GeluTanh(),
}


def feed_forward(x: Value, sublayer: FeedForward, context: LayerContext) -> Value:
    """Apply two linear maps, with an activation function between them, to each position separately.

    If gated, the activation is multiplied by another linear map: (activation(x W_gate) * x W1) W2 (Shazeer 2020).
    """
    b, a = context.builder, context.architecture
    names = ("d_ff", "activation", "activation_dropout")
    d_ff, activation, dropout = (a.option(sublayer, name) for name in names)

    def linear(hint: str, x: Value, matrix: str, bias: str, width: int) -> Value:
        parameters = [b.parameter(matrix, x.width, width)]
        if sublayer.bias:
            parameters.append(b.parameter(bias, width, initial=Initializer.ZERO))
        return b.node(hint, Linear(), (x,), *parameters)

    if sublayer.gated:
        gate = b.node("gate", ACTIVATIONS[activation], (linear("gate_input", x, "gate", "gate_bias", d_ff),))
        inner = b.node("inner", Multiply(), (gate, linear("expanded", x, "w1", "b1", d_ff)))
    else:
        inner = b.node("inner", ACTIVATIONS[activation], (linear("expanded", x, "w1", "b1", d_ff),))
    dropped = b.node("inner_dropped", Dropout(dropout), (inner,))
    return linear("contracted", dropped, "w2", "b2", a.d_model)


def mixture_of_experts(x: Value, sublayer: MixtureOfExperts, context: LayerContext) -> Value:
    """Compute the sum over experts e of G(x)_e · E_e(x), with feed-forward networks E_e and sparse gates G(x).

    The gate matrix W_g is initialised at random. Shazeer et al. (2017, appendix A) initialise it to 0, but then all
    scores would be equal, and backends could select different experts.
    """
    b, experts, d_model = context.builder, sublayer.experts, context.architecture.d_model
    d_ff = context.architecture.option(sublayer, "d_ff")
    gate = b.parameter("gate", d_model, experts)
    noise = b.parameter("noise", d_model, experts, initial=Initializer.ZERO)
    noisy = b.purpose.trains
    gates = b.node("gates", TopKGates(sublayer.top_k, noisy, sublayer.balance if noisy else 0.0), (x,), gate, noise)
    parameters = (
        b.parameter("w1", experts, d_model, d_ff, initial=Initializer.EXPERTS),
        b.parameter("b1", experts, d_ff, initial=Initializer.ZERO),
        b.parameter("w2", experts, d_ff, d_model, initial=Initializer.EXPERTS),
        b.parameter("b2", experts, d_model, initial=Initializer.ZERO),
    )
    return b.node("mixed", Experts(), (x, gates), *parameters)


class TopKGates(Operation):
    """Expert weights: softmax of the k largest scores x W_g, otherwise 0 (Shazeer et al. 2017, equations 3 to 5).

    Input: x [batch, n, d]. Parameters: W_g and W_noise [d, experts]. Result: [batch, n, experts]. If `noisy`, training
    adds noise with the standard deviation softplus(x W_noise) to the scores, and minimises a balance loss with the
    weight `balance`. Outside training, W_noise is unused, but stays a parameter so that all graphs share one weights
    file.
    """

    k: int
    noisy: bool = False
    balance: float = 0.0

    depends_on_batch = True

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x,), (gate, noise) = inputs, parameters
        require(len(x.shape) == 3 and gate == noise and gate[0] == x.shape[2], self, x, ValueType(gate))
        require(self.k <= gate[1].constant, self, x, ValueType(gate))
        return ValueType((*x.shape[:2], gate[1]))

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        scores = inputs[0].float() @ parameters[0].float()
        smallest = scores.sort(-1, descending=True).values[..., self.k - 1 : self.k]
        return scores.masked_fill(scores < smallest, -float("inf")).softmax(-1).to(inputs[0].dtype)

    def emit(self, context: EmitContext, inputs: Expressions, parameters: Expressions) -> str:
        (x,), (gate, noise) = inputs, parameters
        if not self.noisy:
            return f"layers.top_k_gates({x}, {gate}, {self.k})"
        return f"layers.noisy_top_k_gates({x}, {gate}, {noise}, {self.k}, {self.balance!r}, w.training)"

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape[:2]) * product(parameters[0]) * (2 if self.noisy else 1)

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 3 * product(inputs[0].shape[:2]) * parameters[0][1]  # scores, noise and its deviation


class Experts(Operation):
    """Sum of experts: Σ_e gate_e · (max(0, x W1_e + b1_e) W2_e + b2_e) (section 3.3; Shazeer et al. 2017, equation 1).

    Inputs: x [batch, n, d], gates [batch, n, experts]. Parameters: W1 [experts, d, f], b1 [experts, f],
    W2 [experts, f, d], b2 [experts, d]. Result: [batch, n, d]. Every expert runs at every position, even if its gate
    is 0.
    """

    code = "layers.mix_experts({all})"

    def infer(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> ValueType:
        (x, gates), (w1, b1, w2, b2) = inputs, parameters
        experts, inner, outer = w1
        require(gates.shape == (*x.shape[:2], experts) and inner == x.shape[2], self, *inputs, ValueType(w1))
        require(b1 == (experts, outer) and w2 == (experts, outer, inner), self, ValueType(w1), ValueType(w2))
        require(b2 == (experts, inner), self, ValueType(b2))
        return x

    def interpret(self, inputs: Tensors, parameters: Tensors) -> Tensor:
        x, gates = inputs
        result = x.new_zeros(x.shape)
        for expert, (w1, b1, w2, b2) in enumerate(zip(*parameters, strict=True)):
            result = result + gates[..., expert, None] * ((x @ w1 + b1).clamp(min=0) @ w2 + b2)
        return result

    def matmul_flops(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        w1, _, w2, b2 = parameters
        return 2 * product(inputs[0].shape[:2]) * (product(w1) + product(w2) + product(b2))

    def saved_elements(self, inputs: ValueTypes, parameters: Sequence[Shape]) -> Size:
        return 2 * product(inputs[0].shape[:2]) * product(parameters[1])  # inner features before and after the gates
