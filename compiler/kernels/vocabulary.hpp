// The likeliest pieces and the sum of all probabilities, found while the logits are made, block by block.
#pragma once

#include "abi.hpp"
#include "matrix.hpp"

#include <vector>

namespace {

// Panels that are summed up at a time, whatever the number of rows, so that no row's sum depends on its neighbours.
constexpr int64_t SUMMED = 8;

// Which pieces a row may choose, a byte each that is 0 or 1; null where it may choose any.
using Allowed = const uint8_t*;

// The largest numbers of a row but for PAD's, BOS's and those that are barred, in falling order, the lower piece first
// among equals. Pieces are to be inserted from the lowest to the highest.
struct Largest {
    std::vector<float> values;
    std::vector<int64_t> pieces;

    explicit Largest(int64_t count) : values(size_t(count), -INFINITE), pieces(size_t(count), 0) {}

    void insert(const float* numbers, int64_t first, int64_t width, Allowed allowed) {
        for (int64_t i = 0; i < width; i++) {
            const float value = numbers[i];
            const int64_t piece = first + i;
            if (!(value > values.back()) || piece == PAD || piece == BOS || (allowed && !allowed[piece])) continue;
            size_t place = values.size() - 1;
            for (; place > 0 && value > values[place - 1]; place--)
                values[place] = values[place - 1], pieces[place] = pieces[place - 1];
            values[place] = value, pieces[place] = piece;
        }
    }
};

// What is known of a row's logits so far.
struct Summary {
    float most = -INFINITE, end = -INFINITE;
    double sum = 0.0;  // of e^(logit - most)
    Largest largest;

    explicit Summary(int64_t count) : largest(count) {}

    // The logits of `width` pieces from `first` on; room up to a group of vectors is overwritten.
    void take(float* logits, int64_t first, int64_t width, Allowed allowed) {
        if (first <= EOS && EOS < first + width && (!allowed || allowed[EOS])) end = logits[EOS - first];
        const int64_t padded = up(width, BATCH);
        for (int64_t i = width; i < padded; i++) logits[i] = -INFINITE;
        Vector top = splat(most);
        for (int64_t i = 0; i < padded; i += BATCH) {
            Vector x = load(logits + i);
            for (int v = 1; v < 4; v++) x = larger(load(logits + i + v * LANES), x);
            top = larger(x, top);
            if (any(x > largest.values.back())) largest.insert(logits + i, first + i, BATCH, allowed);
        }
        const float before = most;
        most = ::largest(top);
        if (most > before) sum *= std::exp(double(before) - double(most));
        const float from = most > -INFINITE ? most : 0.0f;  // of nothing but -inf so far, the sum stays next to nothing
        Vector sums{};
        for (int64_t i = 0; i < padded; i += LANES) sums = sums + exponential(load(logits + i) - from);
        sum += double(::sum(sums));
    }

    // NaN where there is none among the logits that is a number.
    float log_sum() const { return most > -INFINITE ? float(double(most) + std::log(sum)) : NOT_A_NUMBER; }

    static constexpr int64_t BATCH = 4 * LANES;
};

struct Likeliest {
    int64_t count;
    float* values;
    int64_t* pieces;
    float *ends, *log_probabilities;
    Allowed allowed;
    int64_t allowed_stride;  // 0 where all rows may choose the same

    Allowed of(int64_t row) const { return allowed ? allowed + row * allowed_stride : nullptr; }
};

// Rows a times the matrix' first `vocabulary` columns, some at a time: f(row, logits, first, width). `block` is scratch.
template <class E, class F>
void each_logits(const Matrix& m, const Rows<E>& a, int64_t vocabulary, Block<float>& block, F f) {
    constexpr int64_t NEAR = 64 << 10;  // floats of a block
    const int64_t panels = (vocabulary + PANEL - 1) / PANEL;
    const int64_t wide = std::max(SUMMED, std::min<int64_t>(NEAR / a.count / PANEL, 128) / SUMMED * SUMMED);
    const int64_t stride = up(wide * PANEL, Summary::BATCH) + LANES;
    float* logits = block.grow(a.count * stride);
    for (int64_t panel = 0; panel < panels; panel += wide) {
        product(m, a, panel, std::min(panel + wide, panels), Target{logits, stride, false});
        const int64_t first = panel * PANEL, width = std::min(wide * PANEL, vocabulary - first);
        for (int64_t row = 0; row < a.count; row++) f(row, logits + row * stride, first, width);
    }
}

// Different logits can be equal log-probabilities, once rounded: then the lower piece is first. Whether that is known
// of the `count` likeliest pieces: nothing that was left out is as likely as the last of them.
inline bool put(const Summary& s, int64_t count, float* values, int64_t* pieces) {
    const float all = s.log_sum();
    std::vector<std::pair<float, int64_t>> order;
    for (size_t i = 0; i < s.largest.values.size() && s.largest.values[i] > -INFINITE; i++)
        order.emplace_back(-(s.largest.values[i] - all), s.largest.pieces[i]);
    const bool full = order.size() == s.largest.values.size() && all == all;
    const float last = full ? order.back().first : INFINITE;
    if (all == all) std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; i++) {
        const bool there = i < int64_t(order.size());
        values[i] = there ? -order[size_t(i)].first : all == all ? -INFINITE : all;
        pieces[i] = there ? order[size_t(i)].second : 0;
    }
    return !full || order[size_t(count - 1)].first < last;
}

// The same of a row whose sum is known: its logits are made again, and rounded before they are compared.
template <class E>
void put_rounded(const Matrix& m, const Rows<E>& row, int64_t vocabulary, Block<float>& block, float all, int64_t count,
                 float* values, int64_t* pieces, Allowed allowed) {
    Largest found(count);
    each_logits(m, row, vocabulary, block, [&](int64_t, float* logits, int64_t first, int64_t width) {
        for (int64_t i = 0; i < width; i++) logits[i] -= all;
        found.insert(logits, first, width, allowed);
    });
    std::copy(found.values.begin(), found.values.end(), values);
    std::copy(found.pieces.begin(), found.pieces.end(), pieces);
}

// The likeliest pieces of each row a times the matrix, and all log-probabilities where they are wanted.
template <class E>
void vocabulary(const Matrix& m, const Rows<E>& a, int64_t vocabulary, Block<float>& block, const Likeliest& out) {
    constexpr int64_t CHUNK = 256, EXTRA = 4;  // rows; more than asked for, as rounding makes ties
    for (int64_t row = 0; row < a.count; row += CHUNK) {
        const auto some = [&](int64_t from, int64_t rows) {
            return Rows<E>{a.data + from * a.stride, a.stride, rows, a.scales ? a.scales + from : nullptr};
        };
        const int64_t rows = std::min(CHUNK, a.count - row);
        std::vector<Summary> summaries(size_t(rows), Summary(out.count + EXTRA));
        each_logits(m, some(row, rows), vocabulary, block, [&](int64_t r, float* from, int64_t first, int64_t width) {
            if (float* all = out.log_probabilities)
                std::memcpy(all + (row + r) * vocabulary + first, from, size_t(width) * sizeof(float));
            for (int64_t at = 0; at < width; at += SUMMED * PANEL)
                summaries[size_t(r)].take(from + at, first + at, std::min(width - at, SUMMED * PANEL), out.of(row + r));
        });
        for (int64_t r = row; r < row + rows; r++) {
            const Summary& s = summaries[size_t(r - row)];
            const float less = s.log_sum();
            float* values = out.values + r * out.count;
            int64_t* pieces = out.pieces + r * out.count;
            if (!put(s, out.count, values, pieces))
                put_rounded(m, some(r, 1), vocabulary, block, less, out.count, values, pieces, out.of(r));
            out.ends[r] = s.end - less;
            if (float* all = out.log_probabilities)
                for (int64_t i = 0; i < vocabulary; i++) all[r * vocabulary + i] -= less;
        }
    }
}

}  // namespace
