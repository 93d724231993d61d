// Top-k tokens and the sum of all probabilities, computed block by block. The logits of all tokens are never in
// memory at once.
#pragma once

#include "abi.hpp"
#include "product.hpp"

#include <vector>

namespace {

// Number of panels in one partial sum. It is constant, so that a row's sum does not depend on the other rows.
constexpr int64_t SUM_PANELS = 8;

// Tokens that a sentence may choose, in ascending order, and the matrix that computes their logits.
struct Shortlist {
    std::vector<int64_t> tokens;
    Block<char> memory;

    const Matrix& matrix() const { return *reinterpret_cast<const Matrix*>(memory.data); }
};

// Tokens of the columns of a matrix that computes logits. `tokens` is null if column n belongs to token n.
struct Columns {
    int64_t count;
    const int64_t* tokens = nullptr;

    int64_t token(int64_t column) const { return tokens ? tokens[column] : column; }
    // Returns the column of EOS, or `count` if there is none.
    int64_t end() const { return tokens ? std::find(tokens, tokens + count, EOS) - tokens : std::min(EOS, count); }
};

// One byte per token, 1 if a row may choose it; null if a row may choose any.
using Allowed = const uint8_t*;

// The largest values of a row in descending order, without PAD, BOS and tokens that are not allowed. Of tokens with
// equal values, the lower ID comes first. Tokens must be inserted in ascending order.
struct TopValues {
    std::vector<float> values;
    std::vector<int64_t> tokens;

    explicit TopValues(int64_t count) : values(size_t(count), -INFINITE), tokens(size_t(count), 0) {}

    // Inserts the values of `width` columns, starting with column `first`.
    void insert(const float* numbers, const Columns& columns, int64_t first, int64_t width, Allowed allowed) {
        for (int64_t i = 0; i < width; i++) {
            const float value = numbers[i];
            if (!(value > values.back())) continue;
            const int64_t token = columns.token(first + i);
            if (token == PAD || token == BOS || (allowed && !allowed[token])) continue;
            size_t index = values.size() - 1;
            for (; index > 0 && value > values[index - 1]; index--)
                values[index] = values[index - 1], tokens[index] = tokens[index - 1];
            values[index] = value, tokens[index] = token;
        }
    }
};

// Statistics of a row's logits so far.
struct RowSummary {
    float end = -INFINITE;
    TopValues largest;

    explicit RowSummary(int64_t count) : largest(count) {}

    // Adds the logits of `width` columns, starting with column `first`. Overwrites the padding after them.
    void update(float* logits, const Columns& columns, int64_t end_column, int64_t first, int64_t width,
                Allowed allowed) {
        if (first <= end_column && end_column < first + width && (!allowed || allowed[EOS]))
            end = logits[end_column - first];
        const int64_t padded = round_up(width, BATCH);
        for (int64_t i = width; i < padded; i++) logits[i] = -INFINITE;
        Vector top = splat(max);
        for (int64_t i = 0; i < padded; i += BATCH) {
            Vector x = load(logits + i);
            for (int v = 1; v < 4; v++) x = larger(load(logits + i + v * LANES), x);
            top = larger(x, top);
            if (any(x > largest.values.back())) largest.insert(logits + i, columns, first + i, BATCH, allowed);
        }
        if (any(top > max)) {
            const float previous = max;
            max = ::largest(top);
            sums = sums * std::exp(double(previous) - double(max));
        }
        const float from = max > -INFINITE ? max : 0.0f;  // if all are -inf so far, the sum stays practically 0
        Vector part{};
        for (int64_t i = 0; i < padded; i += LANES) part = part + exponential(load(logits + i) - from);
        sums = sums + __builtin_convertvector(part, Doubles);
    }

    // Returns NaN if no logit is a finite number.
    float log_sum() const {
        double sum = 0.0;
        for (int lane = 0; lane < LANES; lane++) sum += sums[lane];
        return max > -INFINITE ? float(double(max) + std::log(sum)) : NOT_A_NUMBER;
    }

    static constexpr int64_t BATCH = 4 * LANES;

  private:
    typedef double Doubles __attribute__((vector_size(LANES * 8), aligned(8)));

    float max = -INFINITE;
    Doubles sums{};  // sums of e^(logit - max), each of the columns in one lane
};

struct TopK {
    int64_t count;
    float* values;
    int64_t* tokens;
    float *ends, *log_probabilities;
    const Allowed* allowed;  // of each row; null if all rows may choose any token

    Allowed allowed_of(int64_t row) const { return allowed ? allowed[row] : nullptr; }
    TopK rows_from(int64_t row, int64_t vocabulary) const {
        return {count, values + row * count, tokens + row * count, ends + row,
            log_probabilities ? log_probabilities + row * vocabulary : nullptr, allowed ? allowed + row : nullptr};
    }
};

// Computes the logits of rows a, a block of columns at a time, and calls f(row, logits, first, width). `block` is
// scratch.
template <class T, class F>
void for_each_block(const Matrix& m, const Rows<T>& a, int64_t columns, Block<float>& block, F f) {
    constexpr int64_t MAX_NEAR = 64 << 10;  // floats of a block of logits
    const int64_t panels = (columns + PANEL - 1) / PANEL;
    const int64_t step = std::max(SUM_PANELS, std::min<int64_t>(MAX_NEAR / a.count / PANEL,
        128) / SUM_PANELS * SUM_PANELS);
    const int64_t stride = round_up(step * PANEL, RowSummary::BATCH) + LANES;
    float* logits = block.grow(a.count * stride);
    for (int64_t panel = 0; panel < panels; panel += step) {
        product(m, a, panel, std::min(panel + step, panels), Target{logits, stride, false});
        const int64_t first = panel * PANEL, width = std::min(step * PANEL, columns - first);
        for (int64_t row = 0; row < a.count; row++) f(row, logits + row * stride, first, width);
    }
}

// Writes the top tokens of a row. Different logits may round to equal log-probabilities; then the lower token ID comes
// first. Returns false if a token outside of the summary may be as probable as the last one, so that the order is
// uncertain.
inline bool write_result(const RowSummary& s, int64_t count, float* values, int64_t* tokens) {
    const float all = s.log_sum();
    std::vector<std::pair<float, int64_t>> order;
    for (size_t i = 0; i < s.largest.values.size() && s.largest.values[i] > -INFINITE; i++)
        order.emplace_back(-(s.largest.values[i] - all), s.largest.tokens[i]);
    const bool full = order.size() == s.largest.values.size() && all == all;
    const float last = full ? order.back().first : INFINITE;
    if (all == all) std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; i++) {
        const bool exists = i < int64_t(order.size());
        values[i] = exists ? -order[size_t(i)].first : all == all ? -INFINITE : all;
        tokens[i] = exists ? order[size_t(i)].second : 0;
    }
    return !full || order[size_t(count - 1)].first < last;
}

// Writes the top tokens of a row exactly: computes its logits again, and rounds them before the comparison.
template <class T>
void write_exact_result(const Matrix& m, const Rows<T>& row, const Columns& columns, Block<float>& block, float all,
                        int64_t count, float* values, int64_t* tokens, Allowed allowed) {
    TopValues found(count);
    for_each_block(m, row, columns.count, block, [&](int64_t, float* logits, int64_t first, int64_t width) {
        for (int64_t i = 0; i < width; i++) logits[i] -= all;
        found.insert(logits, columns, first, width, allowed);
    });
    std::copy(found.values.begin(), found.values.end(), values);
    std::copy(found.tokens.begin(), found.tokens.end(), tokens);
}

// Writes the top tokens of each row of a, and the log-probabilities of the whole vocabulary if `out.log_probabilities`
// is not null. Probabilities are normalised over the columns of m; tokens that have no column have a probability of 0.
template <class T>
void vocabulary(const Matrix& m, const Rows<T>& a, const Columns& columns, int64_t vocabulary, Block<float>& block,
                const TopK& out) {
    constexpr int64_t CHUNK = 256, EXTRA = 4;  // rows at a time; additional tokens, because rounding creates ties
    const int64_t end_column = columns.end();
    if (float* all = out.log_probabilities; all && columns.tokens)
        std::fill_n(all, a.count * vocabulary, -INFINITE);
    for (int64_t row = 0; row < a.count; row += CHUNK) {
        const int64_t rows = std::min(CHUNK, a.count - row);
        std::vector<RowSummary> summaries(size_t(rows), RowSummary(out.count + EXTRA));
        for_each_block(m, a.part(row, rows), columns.count, block, [&](int64_t r, float* from, int64_t first,
            int64_t width) {
            if (float* all = out.log_probabilities)
                for (int64_t i = 0; i < width; i++) all[(row + r) * vocabulary + columns.token(first + i)] = from[i];
            for (int64_t at = 0; at < width; at += SUM_PANELS * PANEL)
                summaries[size_t(r)].update(from + at, columns, end_column, first + at,
                    std::min(width - at, SUM_PANELS * PANEL), out.allowed_of(row + r));
        });
        for (int64_t r = row; r < row + rows; r++) {
            const RowSummary& s = summaries[size_t(r - row)];
            const float log_sum = s.log_sum();
            float* values = out.values + r * out.count;
            int64_t* tokens = out.tokens + r * out.count;
            if (!write_result(s, out.count, values, tokens))
                write_exact_result(m, a.part(r, 1), columns, block, log_sum, out.count, values, tokens,
                    out.allowed_of(r));
            out.ends[r] = s.end - log_sum;
            if (float* all = out.log_probabilities)
                for (int64_t i = 0; i < vocabulary; i++) all[r * vocabulary + i] -= log_sum;
        }
    }
}

}  // namespace
