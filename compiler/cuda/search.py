"""Beam search kernels: embedding, self-attention, cross-attention, and the selection of tokens.

The search state of each sentence is in a slot. `compiler.slots` describes slots.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from compiler.cuda.products import early
from compiler.instruction import SentenceState
from compiler.operations.attention import HeadColumns
from compiler.slots import RESULT_HEAD, Field, Slots
from specs import BOS, EOS, PAD

KEYS = 16
"""Number of keys that a Triton program for attention reads at a time. Each Triton program has one warp."""
VOCABULARY_BLOCK = 1024
"""Number of logits that a Triton program for selection reads at a time. Each Triton program has one warp."""
PROGRAMS = 2048
"""Number of Triton programs that share the logits of all rows. Fewer programs run if there are few logits."""
COLUMNS = 64
"""Number of positions that are copied at a time when hypotheses are reordered."""

# Columns of a slot (`compiler.slots.Field`), and states.
_STATE, _LENGTH, _FINISHED, _KEPT, _SOURCE, _SIZE, _CANDIDATES, _N_BEST, _FULL_RULE, _SHRINKING, *_LIMITS = (
    tl.constexpr(field.value) for field in Field
)
_MIN_LENGTH, _MAX_LENGTH, _PREFIX = _LIMITS
_RUNNING, _EXHAUSTED, _DECIDED, _FULL, _ENDED = (tl.constexpr(state.value) for state in [*SentenceState][1:])
_RESULT_HEAD: tl.constexpr = tl.constexpr(RESULT_HEAD)
_NONE: tl.constexpr = tl.constexpr(2147483647)


@triton.jit
def _embed(
    table, width, tokens, embeddings, positions, out, length, d, scale,
    rows: tl.constexpr, has_positions: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    slot = table + row // rows * width
    columns = tl.arange(0, block)
    token = tl.load(slot + tokens + row % rows).to(tl.int64)
    x = tl.load(embeddings + token * d + columns, columns < d, other=0.0)
    x = (x.to(tl.float32) * scale).to(x.dtype)
    if has_positions:
        position = tl.minimum(tl.load(slot + _LENGTH), length - 1)  # an ended sentence may be one position further
        x = (x.to(tl.float32) + tl.load(positions + position * d + columns, columns < d, other=0.0).to(tl.float32)).to(
            x.dtype
        )
    tl.store(out + row.to(tl.int64) * d + columns, x, columns < d)


@triton.jit
def _attend(
    features, stride, stored, table, width, ancestors, out, query, key, value, scale,
    is_cache: tl.constexpr, rows: tl.constexpr, capacity: tl.constexpr, heads: tl.constexpr, group: tl.constexpr,
    d_k: tl.constexpr, d_v: tl.constexpr, stored_width: tl.constexpr, k_block: tl.constexpr, v_block: tl.constexpr,
    block: tl.constexpr, early: tl.constexpr,
):  # fmt: skip
    """Compute self-attention if `is_cache` is true, otherwise cross-attention.

    Self-attention first adds the new keys and values to the cache.
    """
    if early:  # the next product may begin to read its matrix
        gdc_launch_dependents()
        gdc_wait()
    row, head = tl.program_id(0), tl.program_id(1)
    slot, shared = row // rows, head // group
    k_columns, v_columns = tl.arange(0, k_block), tl.arange(0, v_block)
    own = features + row.to(tl.int64) * stride
    q = tl.load(own + query + head * d_k + k_columns, k_columns < d_k, other=0.0).to(tl.float32) * scale
    # The keys and values so far: their number, their first columns, and a running softmax with the sum of the values.
    if is_cache:
        length = tl.load(table + slot * width + _LENGTH)
        k_first, v_first = shared * d_k, heads // group * d_k + shared * d_v
        k = tl.load(own + key + shared * d_k + k_columns, k_columns < d_k, other=0.0)
        v = tl.load(own + value + shared * d_v + v_columns, v_columns < d_v, other=0.0)
        place = stored + (row.to(tl.int64) * capacity + length) * stored_width
        if head % group == 0:
            tl.store(place + k_first + k_columns, k, k_columns < d_k)
            tl.store(place + v_first + v_columns, v, v_columns < d_v)
        highest = tl.sum(q * k.to(tl.float32), 0)
        sums = highest * 0.0 + 1.0
        result = v.to(tl.float32)
    else:
        length = tl.load(table + slot * width + _SOURCE)
        k_first, v_first = key + shared * d_k, value + shared * d_v
        highest = tl.sum(q, 0) * 0.0 - 3.0e38
        sums, result = highest * 0.0, tl.zeros((v_block,), tl.float32)
    for first in range(0, length, block):
        positions = first + tl.arange(0, block)
        inside = positions < length
        if is_cache:
            ancestor = tl.load(table + slot * width + ancestors + row % rows * capacity + positions, inside, other=0)
            read = stored + ((slot * rows + ancestor).to(tl.int64) * capacity + positions) * stored_width
        else:
            read = stored + (slot.to(tl.int64) * capacity + positions) * stored_width
        k_valid, v_valid = inside[:, None] & (k_columns < d_k)[None, :], inside[:, None] & (v_columns < d_v)[None, :]
        keys = tl.load(read[:, None] + k_first + k_columns[None, :], k_valid, other=0.0)
        scores = tl.where(inside, tl.sum(keys.to(tl.float32) * q[None, :], 1), float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 0))
        weights, factor = tl.exp(scores - higher), tl.exp(highest - higher)
        values = tl.load(read[:, None] + v_first + v_columns[None, :], v_valid, other=0.0)
        result = result * factor + tl.sum(weights[:, None] * values.to(tl.float32), 0)
        sums, highest = sums * factor + tl.sum(weights, 0), higher
    tl.store(
        out + (row.to(tl.int64) * heads + head) * d_v + v_columns, result / tl.maximum(sums, 1e-30), v_columns < d_v
    )


@triton.jit
def _best(
    logits, units, table, width, totals, allowed, highest, sums, values, tokens, pad, bos, length_each,
    rows: tl.constexpr, count: tl.constexpr, block: tl.constexpr, alignment: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0), tl.program_id(1)
    vocabulary = units * alignment  # so that Triton can vectorise the loads
    slot = table + row // rows * width
    total = tl.load(slot + totals + row % rows).to(tl.float32, bitcast=True)
    if (tl.load(slot + _STATE) == _RUNNING) & (total != float("-inf")):
        late = (tl.load(slot + _LENGTH) >= tl.load(slot + _MIN_LENGTH)).to(tl.int32)
        n = tl.arange(0, count)
        # The best tokens so far, in any order.
        best_values, best_tokens = tl.full((count,), float("-inf"), tl.float32), tl.full((count,), _NONE, tl.int32)
        top, sum_, is_broken = -3.0e38, 0.0, 0
        begin = part * length_each
        for first in range(begin, tl.minimum(begin + length_each, vocabulary), block):
            columns = first + tl.arange(0, block)
            inside = (columns < vocabulary) & (columns < begin + length_each)
            x = tl.load(logits + row.to(tl.int64) * vocabulary + columns, inside, other=float("-inf")).to(tl.float32)
            is_broken = tl.maximum(is_broken, tl.max((x != x).to(tl.int32), 0))
            higher = tl.maximum(top, tl.max(x, 0))
            sum_ = sum_ * tl.exp(top - higher) + tl.sum(tl.exp(x - higher), 0)
            top = higher
            permitted = tl.load(allowed + late * vocabulary + columns, inside, other=0) != 0
            x = tl.where(permitted & inside & (columns != pad) & (columns != bos), x, float("-inf"))
            worst, best = tl.min(best_values, 0), tl.max(x, 0)
            while best > worst:
                token = tl.min(tl.where(x == best, columns, _NONE), 0)
                # Among equal values, the token with the highest ID is replaced.
                replaced = tl.max(tl.where(best_values == worst, best_tokens, -1), 0)
                at = tl.min(tl.where((best_values == worst) & (best_tokens == replaced), n, _NONE), 0)
                best_values, best_tokens = tl.where(n == at, best, best_values), tl.where(n == at, token, best_tokens)
                x = tl.where(columns == token, float("-inf"), x)
                worst, best = tl.min(best_values, 0), tl.max(x, 0)
        place = row * tl.num_programs(1) + part
        tl.store(highest + place, top)
        tl.store(sums + place, sum_)
        tl.store(values + place * count + n, tl.where(is_broken > 0, float("nan"), best_values))
        tl.store(tokens + place * count + n, best_tokens)


@triton.jit
def _move(table, first, parents, rows: tl.constexpr, row_block: tl.constexpr, capacity, end, block: tl.constexpr, live):
    """Replace each row i < `live` of an array [rows, capacity] with row `parents[i]`, in the columns before `end`."""
    numbers = tl.arange(0, row_block)
    for start in range(0, end, block):
        columns = start + tl.arange(0, block)
        inside = (numbers < live)[:, None] & (columns < end)[None, :]
        moved = tl.load(table + first + parents[:, None] * capacity + columns[None, :], inside, other=0)
        tl.debug_barrier()
        tl.store(table + first + numbers[:, None] * capacity + columns[None, :], moved, inside)
    tl.debug_barrier()


@triton.jit
def _select(
    table, width, states, logits, vocabulary, allowed, highest, sums, values, tokens, parts,
    token_column, totals, forced, penalties, results, sequences, ancestors, capacity, eos,
    rows: tl.constexpr, row_block: tl.constexpr, count: tl.constexpr, part_block: tl.constexpr,
    item_block: tl.constexpr, best_block: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    number = tl.program_id(0)
    slot = table + number * width
    if tl.load(slot + _STATE) == _RUNNING:
        length, prefix = tl.load(slot + _LENGTH), tl.load(slot + _PREFIX)
        min_length, max_length = tl.load(slot + _MIN_LENGTH), tl.load(slot + _MAX_LENGTH)
        size = tl.load(slot + _SIZE)
        shrinking, forces_end = tl.load(slot + _SHRINKING) != 0, tl.load(slot + _SHRINKING) == 0
        r = tl.arange(0, row_block)
        total = tl.load(slot + totals + r, r < rows, other=-8388608).to(tl.float32, bitcast=True)  # the bits of -inf
        is_live = (r < rows) & (total != float("-inf"))
        p = tl.arange(0, part_block)
        place = (number * rows + r)[:, None] * parts + p[None, :]
        read = is_live[:, None] & (p < parts)[None, :]
        tops = tl.load(highest + place, read, other=float("-inf"))
        top = tl.max(tops, 1)
        part_sums = tl.load(sums + place, read, other=0.0)
        top = tl.where(top > float("-inf"), top, 0.0)
        log_z = top + tl.log(tl.sum(part_sums * tl.exp(tops - top[:, None]), 1))
        row_logits = logits + (number * rows + r).to(tl.int64) * vocabulary
        tl.store(slot + _LENGTH, length + 1)
        if length < prefix:
            forced_token = tl.load(slot + forced + length)
            forced_value = tl.load(row_logits + forced_token, r < 1, other=0.0).to(tl.float32) - log_z
            tl.store(slot + totals + r, (total + forced_value).to(tl.int32, bitcast=True), r < 1)
            tl.store(slot + token_column, forced_token)
            tl.store(slot + ancestors + length, 0)
        else:
            written = length - prefix
            must_end = (length == max_length) & forces_end
            i = tl.arange(0, item_block)
            items = (number * rows + r)[:, None] * (parts * count) + i[None, :]
            item_read = is_live[:, None] & (i < parts * count)[None, :]
            value = tl.load(values + items, item_read, other=float("-inf"))
            token = tl.load(tokens + items, item_read, other=_NONE)
            late = (length >= min_length).to(tl.int32)
            may_end = tl.load(allowed + late * vocabulary + eos) != 0
            ending = tl.load(row_logits + eos, is_live & may_end, other=float("-inf")).to(tl.float32)
            only_end = tl.where((i == 0)[None, :], ending[:, None], float("-inf"))
            value = tl.where(must_end, only_end, value)
            token = tl.where(must_end, eos, token)
            value = value - log_z[:, None]
            t = tl.where(is_live[:, None], total[:, None] + value, float("-inf"))
            is_broken = tl.max(tl.max((t != t).to(tl.int32), 1), 0) > 0
            limit = tl.where(shrinking & (written > 0), tl.sum(is_live.to(tl.int32), 0), tl.load(slot + _CANDIDATES))
            is_last = length + 1 > max_length
            penalty = slot + penalties
            own_penalty = tl.load((penalty + 2 * (length + 1)).to(tl.pointer_type(tl.float64)))
            n_best, kept, finished = tl.load(slot + _N_BEST), tl.load(slot + _KEPT), tl.load(slot + _FINISHED)
            full_rule, any_rank = tl.load(slot + _FULL_RULE) != 0, tl.load(slot + _FULL_RULE) == 0
            result_width = _RESULT_HEAD + capacity
            n = tl.arange(0, best_block)
            stored = slot + results + n * result_width
            scores = tl.load(stored.to(tl.pointer_type(tl.float64)), n < kept, other=float("inf"))
            orders = tl.load(stored + 4, n < kept, other=0)
            live = length * 0
            parents, new_tokens = tl.zeros((row_block,), tl.int32), tl.zeros((row_block,), tl.int32)
            new_totals = tl.full((row_block,), float("-inf"), tl.float32)
            for rank in range(count):
                best = tl.max(tl.max(t, 1), 0)
                tie = t == best
                row = tl.min(tl.min(tl.where(tie, r[:, None], _NONE), 1), 0)
                tie = tie & (r[:, None] == row)
                log_probability = tl.max(tl.max(tl.where(tie, value, float("-inf")), 1), 0)
                tie = tie & (value == log_probability)
                chosen = tl.min(tl.min(tl.where(tie, token, _NONE), 1), 0)
                t = tl.where(tie & (token == chosen), float("-inf"), t)
                is_valid = (best > float("-inf")) & (limit > rank)
                continues = is_valid & (chosen != eos) & (live < size)
                here = r == tl.where(continues, live, -1)
                new_totals = tl.where(here, best, new_totals)
                new_tokens, parents = tl.where(here, chosen, new_tokens), tl.where(here, row, parents)
                live += continues.to(tl.int32)
                truncates = is_valid & (chosen != eos) & is_last & shrinking
                if (is_valid & (chosen == eos) & (any_rank | (size > rank))) | truncates:
                    score = best.to(tl.float64) / own_penalty
                    worst = tl.min(scores, 0)
                    latest = tl.max(tl.where((scores == worst) & (n < kept), orders, -1), 0)
                    at = tl.min(tl.where((scores == worst) & (orders == latest) & (n < kept), n, _NONE), 0)
                    at = tl.where(kept < n_best, kept, at)
                    if (kept < n_best) | (score > worst):
                        scores, orders = tl.where(n == at, score, scores), tl.where(n == at, finished, orders)
                        to = slot + results + at * result_width
                        tl.store(to.to(tl.pointer_type(tl.float64)), score)
                        tl.store(to + 2, best.to(tl.int32, bitcast=True))
                        tl.store(to + 3, written + truncates.to(tl.int32))
                        tl.store(to + 4, finished)
                        for start in range(0, written, block):
                            columns = start + tl.arange(0, block)
                            copied = tl.load(slot + sequences + row * capacity + columns, columns < written, other=0)
                            tl.store(to + _RESULT_HEAD + columns, copied, columns < written)
                        if truncates:
                            tl.store(to + _RESULT_HEAD + written, chosen)
                        kept = tl.where(kept < n_best, kept + 1, kept)
                    finished += 1
            tl.debug_barrier()
            _move(slot, sequences, parents, rows, row_block, capacity, written, block, live)
            _move(slot, ancestors, parents, rows, row_block, capacity, length, block, live)
            tl.store(slot + sequences + r * capacity + written, new_tokens, r < live)
            tl.store(slot + ancestors + r * capacity + length, parents, r < live)
            tl.store(slot + token_column + r, new_tokens, r < live)
            tl.store(slot + totals + r, new_totals.to(tl.int32, bitcast=True), r < rows)
            tl.store(slot + _FINISHED, finished)
            last_penalty = tl.load((penalty + 2 * (max_length + 1)).to(tl.pointer_type(tl.float64)))
            possible = tl.max(new_totals, 0).to(tl.float64) / last_penalty
            worst = tl.min(tl.where(n < n_best, scores, float("inf")), 0)
            state = tl.where(is_last, _ENDED, _RUNNING)
            state = tl.where(full_rule & (finished >= size), _FULL, state)
            state = tl.where((kept == n_best) & (worst >= possible), _DECIDED, state)
            state = tl.where(live == 0, _EXHAUSTED, state)
            if is_broken:
                to = slot + results
                tl.store(to.to(tl.pointer_type(tl.float64)), (possible * float("nan")))
                tl.store(to + 2, (possible * float("nan")).to(tl.float32).to(tl.int32, bitcast=True))
                tl.store(to + 3, 0)
                kept, state = kept * 0 + 1, state * 0 + _EXHAUSTED
            tl.store(slot + _KEPT, kept)
            tl.store(slot + _STATE, state)
    tl.debug_barrier()
    tl.store(states + number, tl.load(slot + _STATE))


def embed(
    slots: Slots, table: Float[Tensor, "V d"], scale: float, positions: Float[Tensor, "capacity d"] | None
) -> Float[Tensor, "rows 1 d"]:
    """Embed the last token of each hypothesis, and add its positional encoding (sections 3.4 and 3.5)."""
    d, layout, count = table.shape[1], slots.layout, 0 if positions is None else len(positions)
    out = table.new_empty(slots.rows, 1, d)
    _embed[(slots.rows,)](
        slots.table, layout.columns.width, layout.columns.tokens, table, positions, out, count, d, scale, layout.rows,
        positions is not None, triton.next_power_of_2(d),
    )  # fmt: skip
    return out


def attend_cache(
    features: Float[Tensor, "rows 1 _"],
    cache: Float[Tensor, "rows capacity _"],
    slots: Slots,
    heads: HeadColumns,
    scale: float,
) -> Float[Tensor, "rows 1 h·d_v"]:
    """Return the self-attention of a decoder step, and write the new keys and values to the cache.

    Args:
        features: Features that contain queries, keys and values. The values follow the keys.
        cache: Keys and values of earlier positions, indexed by the row that computed them.
        slots: Buffers of the search. For each row and position, they contain the index of the cache row to read.
        heads: The columns of queries, keys and values.
        scale: Factor by which Q Kᵀ is multiplied.
    """
    return _attention(features, cache, slots, heads, scale, is_cache=True)


def attend_memory(
    features: Float[Tensor, "rows 1 _"], slots: Slots, heads: HeadColumns, scale: float
) -> Float[Tensor, "rows 1 h·d_v"]:
    """Return the cross-attention of each hypothesis to its source sentence.

    Args:
        features: Features that contain the queries.
        slots: Buffers of the search. `slots.memory` contains the keys and values of the source positions.
        heads: The columns of queries in `features`, and of keys and values in `slots.memory`.
        scale: Factor by which Q Kᵀ is multiplied.
    """
    return _attention(features, slots.memory, slots, heads, scale, is_cache=False)


def _attention(
    features: Tensor, stored: Tensor, slots: Slots, heads: HeadColumns, scale: float, *, is_cache: bool
) -> Tensor:
    layout, options = slots.layout, early(features)
    out = features.new_empty(slots.rows, 1, heads.count * heads.d_v)
    _attend[(slots.rows, heads.count)](
        features, features.stride(0), stored, slots.table, layout.columns.width, layout.columns.ancestors, out,
        heads.query, heads.key, heads.value, scale, is_cache, layout.rows, stored.shape[1], heads.count,
        heads.count // heads.kv_count, heads.d_k, heads.d_v, stored.shape[2], triton.next_power_of_2(heads.d_k),
        triton.next_power_of_2(heads.d_v), KEYS, bool(options), num_warps=1, **options,
    )  # fmt: skip
    return out


def select(slots: Slots, logits: Float[Tensor, "rows V"]) -> None:
    """For the sentence in each slot, select the hypotheses of the next step.

    The state of each sentence's search, such as RUNNING, is written to `slots.states`.

    Args:
        slots: Buffers of the search.
        logits: The logits of the next token of each hypothesis.
    """
    layout, columns, vocabulary = slots.layout, slots.layout.columns, logits.shape[-1]
    alignment, count, blocks = math.gcd(vocabulary, 8), layout.candidates, triton.cdiv(vocabulary, VOCABULARY_BLOCK)
    each = triton.cdiv(blocks, max(1, min(blocks, PROGRAMS // slots.rows)))
    parts = triton.cdiv(blocks, each)
    highest, sums = torch.empty((2, slots.rows, parts), dtype=torch.float32, device=logits.device)
    values = torch.empty((slots.rows, parts, count), dtype=torch.float32, device=logits.device)
    tokens = torch.empty((slots.rows, parts, count), dtype=torch.int32, device=logits.device)
    _best[(slots.rows, parts)](
        logits, vocabulary // alignment, slots.table, columns.width, columns.totals, slots.allowed, highest, sums,
        values, tokens, PAD, BOS, each * VOCABULARY_BLOCK, layout.rows, count, VOCABULARY_BLOCK, alignment, num_warps=1,
    )  # fmt: skip
    _select[(slots.count,)](
        slots.table, columns.width, slots.states, logits, vocabulary, slots.allowed, highest, sums, values, tokens,
        parts, columns.tokens, columns.totals, columns.forced, columns.penalties, columns.results, columns.sequences,
        columns.ancestors, layout.capacity, EOS, layout.rows, triton.next_power_of_2(layout.rows), count,
        triton.next_power_of_2(parts), triton.next_power_of_2(parts * count), triton.next_power_of_2(layout.n_best),
        COLUMNS,
    )  # fmt: skip
