"""Compare the Triton kernels with their functions in PyTorch, or compile them for a GPU. Used by `test_triton.py`.

`python -m tests.compiler.triton_kernels PART` compares in Triton's interpreter, with TRITON_INTERPRET=1, and prints
"done". The part `compile` compiles all kernels to PTX for an H100, without TRITON_INTERPRET.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import product
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compiler import cuda
from compiler.instruction import SentenceState
from compiler.operations.attention import HeadColumns
from compiler.padded_batch import PaddedBatch
from compiler.program import BeamOptions
from compiler.slots import BufferSizes, Field, SlotLayout, Slots
from compiler.update import PackedRows
from specs import EOS, PAD
from tests.compiler import beam_in_slots
from tests.compiler.kernels_in_pytorch import kernels_in_pytorch

SEED = torch.tensor(12345678901234567)


def both(function: str | Callable[..., Tensor], *given: Any, gradient: Tensor) -> None:
    """Check that the result and the gradients of a function are the same with kernels and without.

    A name is the name of a function in `compiler.cuda`, with its module.
    """
    found = []
    for context in (nullcontext, kernels_in_pytorch):
        leaves = [x.clone().requires_grad_() if isinstance(x, Tensor) and x.is_floating_point() else x for x in given]
        with context():
            result = (attrgetter(function)(cuda) if isinstance(function, str) else function)(*leaves)
        wanted = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
        found.append((result.detach(), *torch.autograd.grad(result, wanted, gradient.to(result.dtype))))
    for one, other in zip(*found, strict=True):
        close = 1e-5 if one.dtype == torch.float32 else 3e-2
        torch.testing.assert_close(one, other, rtol=close, atol=close)


def norms() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        x, y = (torch.randn(7, 48).to(dtype) for _ in range(2))
        c, gain, bias = torch.randn(3, 48).unbind()
        gradient = torch.randn(7, 48)
        for options in ((y, c), (y, None), (None, None)):
            given = (x, *options, gain, bias, 1e-6, 0.3 if options[0] is not None else 0.0, SEED, 77, True)
            both("norms.residual_norm", *given, gradient=gradient)
        if dtype == torch.float32:
            both(_two_norms, x, y, gain, bias, torch.randn(48, 48) / 7, gradient=gradient)
        both("norms.seeded_dropout", x, 0.3, SEED, 2**31 - 5, True, gradient=gradient)
        matrix, bias = torch.randn(48, 40).to(dtype), torch.randn(40).to(dtype)
        both("norms.linear_relu", x, matrix, bias, gradient=torch.ones(7, 40))


def _two_norms(x: Tensor, y: Tensor, gain: Tensor, bias: Tensor, matrix: Tensor) -> Tensor:
    """Return a norm whose result is read by a product and by the residual connection around it."""
    first = cuda.norms.residual_norm(x, y, None, gain, bias, 1e-6)
    second = cuda.norms.residual_norm(first, first @ matrix, None, gain, bias, 1e-6)
    if first.grad_fn.name().startswith("_ResidualNorm"):  # the first norm receives two gradients, and adds them itself
        assert second.grad_fn.next_functions[0] == (first.grad_fn, 1)  # type: ignore[union-attr]
    return second


def products() -> None:
    """Compare products in a decoder step, of few rows and of more, whose rows may lie apart from each other."""
    for inner, outer in ((48, 37), (512, 24), (4096, 16)):
        matrix, (x, y) = torch.randn(inner, outer) / inner**0.5, torch.randn(2, 6, 1, inner + 3)[..., :inner]
        c, gain, norm_bias = torch.randn(3, inner).unbind()
        matrix, x, y, bias = (each.bfloat16() for each in (matrix, x, y, torch.randn(outer)))
        for rows in (1, 3, 4, 6):
            given: list[Any] = []
            for options in ((None, False), (bias, False), (bias, True)):
                given.append(("step_linear", x[:rows], matrix, *options))
                for added in ((y[:rows], c), (y[:rows], None), (None, None)):
                    given.append(("norm_linear", x[:rows], *added, gain, norm_bias, 1e-6, matrix, *options))
            for function, *arguments in given:
                found = []
                for context in (nullcontext, kernels_in_pytorch):
                    with torch.no_grad(), context():
                        found.append(getattr(cuda.products, function)(*arguments))
                torch.testing.assert_close(*found, rtol=3e-2, atol=3e-2)


def loss() -> None:
    labels, gradient = torch.tensor([[1, 35, PAD, 5, 6, PAD, PAD]], dtype=torch.int32), torch.tensor([1.0, 0.0])
    for dtype in (torch.float32, torch.bfloat16):
        x, table = torch.randn(1, 7, 48).to(dtype), (torch.randn(40, 48) / 7).to(dtype)
        bias = torch.randn(40).to(dtype)
        bias[-4:-3] = -1e9  # a suppressed token
        for wrong_classes, options in product((True, False), ((), (bias,))):
            both("losses.whole_loss", x, table, labels, 0.1, wrong_classes, 37, *options, gradient=gradient)


def attention() -> None:
    """In float32 only: the interpreter cannot multiply matrices in bfloat16."""
    lengths, others = torch.tensor([3, 70, 10, 20]), torch.tensor([6, 60, 5, 33])
    rows, zeros = PackedRows(150, 140, "cpu"), torch.zeros(4, 70, dtype=torch.int32)
    sides = PaddedBatch(zeros, lengths), PaddedBatch(zeros, others)
    rows.buffer.copy_(rows.host(*sides, seed=1, rate=0.0, tokens=1.0))
    inputs, gradient = rows.inputs, torch.randn(1, 140, 48)
    q, kv = torch.randn(1, 140, 32), torch.randn(1, 150, 16 + 24)
    heads = HeadColumns(2, 1, 16, 24, 0, 0, 16)
    cross = (inputs["memory_spans"], inputs["reader_spans"], heads, 0.25, False)
    both("attention.packed_attention", q, kv, *cross, gradient=gradient)
    features, heads = torch.randn(1, 140, 32 + 40), HeadColumns(2, 1, 16, 24, 0, 32, 48)
    own = (inputs["target_spans"], inputs["target_spans"], heads, 0.25, True)
    both(lambda x: cuda.attention.packed_attention(x, x, *own), features, gradient=gradient)


def recurrence() -> None:
    """Compare the SSRU of sentences of 1 to 70 tokens, and padding after them."""
    lengths = torch.tensor([3, 70, 1, 20])
    rows, zeros = PackedRows(100, 100, "cpu"), torch.zeros(4, 71, dtype=torch.int32)
    sides = PaddedBatch(zeros, lengths), PaddedBatch(zeros, lengths + 1)
    rows.buffer.copy_(rows.host(*sides, seed=1, rate=0.0, tokens=1.0))
    for dtype in (torch.float32, torch.bfloat16):
        (gate, value), gradient = torch.randn(2, 1, 100, 150).to(dtype), torch.randn(1, 100, 150)
        gradient[:, 94:] = 0
        both("recurrence.packed_ssru", gate, value, rows.inputs["target_spans"], gradient=gradient)


def selection() -> None:
    """Continue random hypotheses by random logits, some of them equal, with all rules, limits and prefixes."""
    for number in range(5):
        _select(random.Random(number), number)


def _select(draw: random.Random, number: int) -> None:
    vocabulary, count = draw.choice([7, 12, 40]), 3
    sizes, rules = ([draw.choice(options) for _ in range(count)] for options in ([1, 2, 4], ["", "full", "shrinking"]))
    options = []
    for size, rule in zip(sizes, rules, strict=True):
        candidates = size if size == 1 or rule == "shrinking" else 2 * size
        limits = draw.randint(1, size), rule == "full", rule == "shrinking", draw.choice([0, 2]), draw.randint(3, 9)
        options.append(BeamOptions(size, candidates, *limits))
    layout = SlotLayout(4, 64, 64, 4, 8)
    prefixes = [[draw.randrange(4, vocabulary) for _ in range(2 * (number % 2))] for _ in range(count)]
    penalties = [tuple([0.0] + [((5 + n) / 6) ** 0.6 for n in range(1, 70)])] * count
    table = torch.from_numpy(layout.new(options, [5] * count, prefixes, penalties))
    made = [Slots(layout, count, torch.zeros(1), BufferSizes({}, {}, 4, vocabulary)) for _ in range(2)]
    for each in made:
        each.table.copy_(table)
        each.allowed[0, EOS], each.allowed[:, 5] = False, number % 3 > 0
    for step in range(12):
        logits = torch.randn(count * 4, vocabulary) * 2
        logits = logits.round() if step % 3 == 1 else logits
        if number == 4 and step == 2:
            logits[1, 3] = torch.nan
        for each, advance in zip(made, (cuda.search.select, beam_in_slots.select), strict=True):
            advance(each, logits)
        _compare(layout, *made)


def _compare(layout: SlotLayout, one: Slots, other: Slots) -> None:
    columns = layout.columns
    assert torch.equal(one.states, other.states)
    for x, y in zip(one.table.numpy(), other.table.numpy(), strict=True):
        found, expected = (layout.read(slot[None])[0] for slot in (x, y))
        assert [tokens for tokens, *_ in found] == [tokens for tokens, *_ in expected]
        np.testing.assert_allclose([r[1:] for r in found], [r[1:] for r in expected], rtol=1e-4, atol=1e-5)
        if x[Field.STATE] == SentenceState.RUNNING:
            totals = [slot[columns.totals : columns.forced].view(np.float32) for slot in (x, y)]
            np.testing.assert_allclose(*totals, rtol=1e-4, atol=1e-5)
            live, length = np.isfinite(totals[0]), x[Field.LENGTH]
            for first, end in ((columns.sequences, length - x[Field.PREFIX]), (columns.ancestors, length)):
                rows = [slot[first : first + 4 * 64].reshape(4, 64)[live, :end] for slot in (x, y)]
                np.testing.assert_array_equal(*rows)


def steps() -> None:
    """Compare embedding and attention of a decoder step, at random positions of hypotheses with random ancestors."""
    layout, count, heads = SlotLayout(4, 64, 64, 1, 8), 2, HeadColumns(4, 2, 8, 16, 0, 32, 48)
    made = Slots(layout, count, torch.zeros(1), BufferSizes({"cache": 2 * (8 + 16)}, {}, 2 * 48, 30))
    for buffer in (made.memory, made.caches["cache"]):
        buffer.normal_()
    made.table[:, [Field.LENGTH, Field.SOURCE]] = torch.tensor([[5, 7], [33, 50]], dtype=torch.int32)
    made.table[:, layout.columns.ancestors :] = torch.randint(0, 4, (count, 4 * 64), dtype=torch.int32)
    made.table[:, layout.columns.tokens : layout.columns.totals] = torch.randint(0, 30, (count, 4), dtype=torch.int32)
    features, table, positions = torch.randn(8, 1, 80), torch.randn(30, 24), torch.randn(64, 24)
    found: list[list[Tensor]] = []
    for context in (nullcontext, kernels_in_pytorch):
        cache = made.caches["cache"].clone()
        with context():
            results = [cuda.search.embed(made, table, 2.5, each) for each in (positions, None)]
            results.append(cuda.search.attend_cache(features, cache, made, heads, 0.3))
            results.append(cuda.search.attend_memory(features, made, HeadColumns(4, 2, 8, 16, 0, 48, 64), 0.3))
        found.append([*results, cache])
    torch.testing.assert_close(*found)


def compile_all() -> None:
    """Compile every kernel for compute capability 9.0, and kernels that start early also for 8.0, without that."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    from compiler.cuda import attention, losses, norms, products, recurrence, search

    integers = ("spans", "readers", "labels", "tokens", "states", "table")
    floats = ("logs", "deltas", "gain", "bias", "c", "means", "deviations", "sums", "losses", "highest", "values")
    numbers = ("scale", "epsilon", "smoothing", "suppressed")
    data = "q kv x y d out matrix outer_bias normed twin gradient q_gradient kv_gradient x_gradient y_gradient gate z "
    data += "gate_gradient z_gradient logits features stored embeddings positions"
    pointers = {**dict.fromkeys(integers, "*i32"), **dict.fromkeys(floats, "*fp32"), **dict.fromkeys(numbers, "fp32")}
    pointers |= {"seed": "*i64", "allowed": "*i1"}
    blocks = {"k_block": 64, "v_block": 64, "group": 1}
    step = {**blocks, "rows": 4, "heads": 8, "d_k": 64, "d_v": 64, "block": 16, "early": True}
    flags = dict.fromkeys(("has_y", "has_c", "has_bias", "relu", "early"), True)
    multiplied = {**flags, "rows": 4, "width": 512, "block": 16}
    selected = {"rows": 4, "row_block": 4, "count": 8, "block": 64}
    selected |= {"part_block": 32, "item_block": 256, "best_block": 1}
    norm = {"has_y": True, "has_c": True, "drops": True, "block_rows": 2, "block_width": 512}
    kernels: list[tuple[Any, Mapping[str, Any], Mapping[str, str]]] = [
        (norms._forward, norm, {}),
        (norms._backward, {**norm, "has_twin": True}, {}),
        (products._product, {**multiplied, "has_norm": True, "chunks": 1}, {}),
        (products._product, {**multiplied, "has_norm": False, "chunks": 2}, {}),
        (norms._drop, {"block": 1024}, {}),
        (norms._relu_backward, {"rows_each": 256, "block_rows": 32, "block_width": 128}, {}),
        (losses._cross_entropy, {"wrong_classes": True, "suppresses": True, "block": 4096, "alignment": 8}, {}),
        (attention._forward, {"causal": True, "block": 64, **blocks}, {}),
        (attention._query_gradients, {"causal": True, "block": 64, **blocks}, {}),
        (attention._key_gradients, {"causal": True, "block": 32, **blocks}, {}),
        (recurrence._forward, {"block": 128}, {}),
        (recurrence._backward, {"block": 128}, {}),
        (search._embed, {"rows": 4, "has_positions": True, "block": 512}, {"tokens": "i32", "d": "i32"}),
        (search._attend, {"is_cache": True, "capacity": 64, "stored_width": 1024, **step}, {}),
        (search._attend, {"is_cache": False, "capacity": 64, "stored_width": 6144, **step}, {}),
        (search._best, {"rows": 4, "count": 8, "block": 1024, "alignment": 8}, {}),
        (search._select, selected, {}),
    ]
    cases = [(90, *each) for each in kernels]
    cases += [(80, kernel, {**used, "early": False}, others) for kernel, used, others in kernels if "early" in used]
    for capability, kernel, constants, others in cases:
        for dtype, precision in (("*fp32", "ieee"), ("*bf16", "tf32")):
            fixed = {**constants, **({"precision": precision} if "precision" in kernel.arg_names else {})}
            types = {**dict.fromkeys(data.split(), dtype), **pointers, **others}
            signature = {name: "constexpr" if name in fixed else types.get(name, "i32") for name in kernel.arg_names}
            places = {(kernel.arg_names.index(name),): value for name, value in fixed.items()}
            made = compile(ASTSource(kernel, signature, places), target=GPUTarget("cuda", capability, 32))
            assert f".target sm_{capability}" in made.asm["ptx"]


def _convert_arrays_of_one_element() -> None:
    """Let Triton's interpreter use tensors of one element as numbers, which numpy 2.5 refuses."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))
        scope.set_attr(tensor, "__bool__", lambda self: self.handle.data.size != 1 or bool(self.handle.data.item()))

    interpreter._patch_lang_tensor = patched


if __name__ == "__main__":
    torch.manual_seed(0)
    if sys.argv[1] != "compile":
        _convert_arrays_of_one_element()
    parts = (norms, products, loss, attention, recurrence, selection, steps)
    {"compile": compile_all, **{part.__name__: part for part in parts}}[sys.argv[1]]()
    print("done")
