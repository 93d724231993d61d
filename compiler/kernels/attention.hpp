// Attention, softmax(scale Q K^T + bias) V, of several queries over the same keys, and of hypotheses over their own
// past.
#pragma once

#include "rows.hpp"

namespace {

// Replaces n scores with unnormalised softmax weights, and returns the weights' sum. Padding after n becomes 0.
inline float scores_to_weights(float* scores, int64_t n, int64_t padded, float scale) {
    Vector max = splat(-INFINITE), sums{};
    for (int64_t i = 0; i < padded; i += LANES) store(scores + i, load(scores + i) * scale);
    for (int64_t i = n; i < padded; i++) scores[i] = -INFINITE;
    for (int64_t i = 0; i < padded; i += LANES) max = larger(load(scores + i), max);
    const float top = largest(max);
    for (int64_t i = 0; i < padded; i += LANES) {
        const Vector e = exponential(load(scores + i) - top);
        store(scores + i, e);
        sums = sums + e;
    }
    return sum(sums);
}

// Score biases by distance, which is the position of the key minus the position of the query. With a table
// [ranges, heads], `numbers` contains a row of the table for each distance: first for keys before the query, from 0 to
// `max_distance`, then for keys after it. Without a table, `numbers` contains the slope of each head, by which the
// absolute distance is multiplied.
struct Bias {
    const float *table, *numbers;
    int64_t max_distance, heads;

    // Multiplies n scores by the scale and adds the biases. The first key is at a distance of `first`.
    void add(float* scores, int64_t head, int64_t n, int64_t first, float scale) const {
        for (int64_t i = 0; i < n; i++) scores[i] = multiply_add(scores[i], scale, value(head, first + i));
    }

  private:
    float value(int64_t head, int64_t distance) const {
        const int64_t size = std::abs(distance);
        if (!table) return -numbers[head] * float(size);
        const int64_t row = std::min(size, max_distance) + (distance > 0 ? max_distance + 1 : 0);
        return table[int64_t(numbers[row]) * heads + head];
    }
};

// Arguments for one head: queries [count, key_width], keys [key_width, padded], values [length, value_width].
// During the computation, `next_keys` and `next_values`, which are about as large, are prefetched.
struct AttentionHead {
    const float *queries, *keys, *values, *next_keys, *next_values;
    float* out;
    int64_t query_stride, value_stride, out_stride, length, padded, key_width, value_width;
    float scale;
    const Bias* bias = nullptr;
    int64_t head = 0, position = 0;  // with a bias: number of the head, and position of the first query
};

// Computes V vectors of scores (`score`) or of weighted sums of values (`gather`) for Q queries at once, so that each
// key and value is read only once.
template <int Q, int V>
inline void score(const AttentionHead& h, int64_t key, float* scores) {
    Vector sums[Q][V] = {};
    for (int64_t d = 0; d < h.key_width; d++) {
        const int64_t at = d * h.padded + key;
        for (int line = 0; line < V * LANES; line += 16) __builtin_prefetch(h.next_keys + at + line);
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++)
            for (int v = 0; v < V; v++)
                sums[q][v] = multiply_add(splat(h.queries[q * h.query_stride + d]), load(h.keys + at + v * LANES),
                    sums[q][v]);
    }
    for (int q = 0; q < Q; q++)
        for (int v = 0; v < V; v++) store(scores + q * h.padded + key + v * LANES, sums[q][v]);
}

template <int Q, int V>
inline void gather(const AttentionHead& h, int64_t column, const float* weights, const float* factors) {
    Vector sums[Q][V] = {};
    for (int64_t key = 0; key < h.length; key++) {
        const int64_t at = key * h.value_stride + column;
        for (int line = 0; line < V * LANES; line += 16) __builtin_prefetch(h.next_values + at + line);
#pragma GCC unroll 4
        for (int q = 0; q < Q; q++)
            for (int v = 0; v < V; v++)
                sums[q][v] = multiply_add(splat(weights[q * h.padded + key]), load(h.values + at + v * LANES),
                    sums[q][v]);
    }
    for (int q = 0; q < Q; q++)
        for (int v = 0; v < V; v++) store(h.out + q * h.out_stride + column + v * LANES, sums[q][v] * factors[q]);
}

template <int Q>
void attend(const AttentionHead& h, float* scores) {
    int64_t key = 0, column = 0;
    for (; key + 2 * LANES <= h.padded; key += 2 * LANES) score<Q, 2>(h, key, scores);
    for (; key < h.padded; key += LANES) score<Q, 1>(h, key, scores);
    float factors[Q];
    for (int q = 0; q < Q; q++) {
        float* row = scores + q * h.padded;
        if (h.bias) h.bias->add(row, h.head, h.length, -(h.position + q), h.scale);
        const float all = scores_to_weights(row, h.length, h.padded, h.bias ? 1.0f : h.scale);
        factors[q] = h.length ? 1.0f / all : 0.0f;
    }
    for (; column + 2 * LANES <= h.value_width; column += 2 * LANES) gather<Q, 2>(h, column, scores, factors);
    for (; column + LANES <= h.value_width; column += LANES) gather<Q, 1>(h, column, scores, factors);
    for (; column < h.value_width; column++)
        for (int q = 0; q < Q; q++) {
            const float *weights = scores + q * h.padded, *values = h.values + column;
            float all = 0.0f;
            for (int64_t key = 0; key < h.length; key++)
                all = multiply_add(weights[key], values[key * h.value_stride], all);
            h.out[q * h.out_stride + column] = all * factors[q];
        }
}

// Runs attention for `count` queries. `scores` is scratch memory for 4 queries.
inline void attend(AttentionHead h, int64_t count, float* scores) {
    for (; count > 0; count -= 4, h.position += 4, h.queries += 4 * h.query_stride, h.out += 4 * h.out_stride) {
        if (count >= 4) attend<4>(h, scores);
        else if (count == 3) attend<3>(h, scores);
        else if (count == 2) attend<2>(h, scores);
        else attend<1>(h, scores);
    }
}

inline float dot(const float* x, const float* y, int64_t n) {
    Vector sums{};
    float rest = 0.0f;
    for_each(n, [&](int64_t i) { sums = multiply_add(load(x + i), load(y + i), sums); },
         [&](int64_t i) { rest = multiply_add(x[i], y[i], rest); });
    return sum(sums) + rest;
}

// The dot product of V vectors, fully unrolled.
template <int V>
inline float dot(const float* x, const float* y) {
    Vector sums = load(x) * load(y);
    for (int v = 1; v < V; v++) sums = multiply_add(load(x + v * LANES), load(y + v * LANES), sums);
    return sum(sums);
}

// Arguments for the hypotheses of a sentence, all heads. The key and the value of hypothesis r at position t are in
// stored row ancestry[r * max_positions + t]. Most hypotheses share most stored rows. Each hypothesis has k queries, at
// the last k of `length` positions, which see the keys up to their own position.
struct CachedAttention {
    const float *queries, *keys, *values;
    float* out;
    const int32_t* ancestry;
    int64_t query_stride, key_stride, value_stride, out_stride;
    int64_t rows, k, max_positions, length, heads, groups, key_width, value_width;  // groups: query heads per key head
    float scale;
    const Bias* bias;

    // Returns the number of keys that a query sees. The queries of a hypothesis are consecutive.
    int64_t visible(int64_t query) const { return length - k + query % k + 1; }

    // Prefetches the stored rows of position t, which are too scattered for the hardware prefetcher. Forced inline,
    // because GCC removes a call that only prefetches as a call without effect.
    __attribute__((always_inline)) inline void prefetch(int64_t t) const {
        for (int64_t row = 0; row < rows && t < length; row++) {
            const int32_t* stored = ancestry + row * max_positions + t;
            if (row && stored[0] == stored[-max_positions]) continue;
            const float *key = keys + *stored * key_stride, *value = values + *stored * value_stride;
            for (int64_t i = 0; i < key_stride; i += 16) __builtin_prefetch(key + i);
            for (int64_t i = 0; i < value_stride; i += 16) __builtin_prefetch(value + i, 0, 2);
        }
    }
};

// Computes V vectors of one hypothesis' weighted sum of values.
template <int V>
inline void mix(const CachedAttention& p, const float* weights, float factor, const float* values,
                const int32_t* stored, int64_t length, float* out) {
    Vector sums[V] = {};
    for (int64_t t = 0; t < length; t++)
        for (int v = 0; v < V; v++)
            sums[v] = multiply_add(splat(weights[t]), load(values + stored[t] * p.value_stride + v * LANES), sums[v]);
    for (int v = 0; v < V; v++) store(out + v * LANES, sums[v] * factor);
}

// Runs attention over the cache. `scores` is scratch memory for all queries and heads, and one more float for each.
inline void attend(const CachedAttention& p, float* scores) {
    constexpr int64_t AHEAD = 2;
    const int64_t padded = round_up(p.length, LANES), queries = p.rows * p.k;
    for (int64_t t = 0; t < AHEAD; t++) p.prefetch(t);
    for (int64_t t = 0; t < p.length; t++) {
        p.prefetch(t + AHEAD);
        for (int64_t row = 0; row < p.rows; row++) {
            const float* first_key = p.keys + p.ancestry[row * p.max_positions + t] * p.key_stride;
            for (int64_t i = row * p.k; i < (row + 1) * p.k; i++) {
                const float *key = first_key, *query = p.queries + i * p.query_stride;
                float* score = scores + i * padded + t;
                for (int64_t head = 0; head < p.heads; head++, query += p.key_width) {
                    if (head && head % p.groups == 0) key += p.key_width;
                    const float x = p.key_width == 64 ? dot<64 / LANES>(query, key) : dot(query, key, p.key_width);
                    score[head * queries * padded] = x;
                }
            }
        }
    }
    float* factors = scores + p.heads * queries * padded;
    for (int64_t i = 0; i < p.heads * queries; i++) {
        const int64_t visible = p.visible(i % queries);
        if (p.bias) p.bias->add(scores + i * padded, i / queries, visible, 1 - visible, p.scale);
        factors[i] = 1.0f / scores_to_weights(scores + i * padded, visible, padded, p.bias ? 1.0f : p.scale);
    }
    for (int64_t i = 0; i < p.heads * queries; i++) {
        const int64_t head = i / queries, query = i % queries, visible = p.visible(query);
        const float *weights = scores + i * padded, factor = factors[i];
        const float* values = p.values + head / p.groups * p.value_width;
        const int32_t* stored = p.ancestry + query / p.k * p.max_positions;
        float* out = p.out + query * p.out_stride + head * p.value_width;
        int64_t column = 0;
        for (; column + 4 * LANES <= p.value_width; column += 4 * LANES)
            mix<4>(p, weights, factor, values + column, stored, visible, out + column);
        for (; column + LANES <= p.value_width; column += LANES)
            mix<1>(p, weights, factor, values + column, stored, visible, out + column);
        for (; column < p.value_width; column++) {
            float all = 0.0f;
            for (int64_t t = 0; t < visible; t++)
                all = multiply_add(weights[t], values[stored[t] * p.value_stride + column], all);
            out[column] = all * factor;
        }
    }
}

}  // namespace
