// The likeliest pieces and the sum of all probabilities, found while the logits are made, block by block.
#pragma once

#include "abi.hpp"
#include "matrix.hpp"

#include <vector>

namespace {

// What is known of a row's logits so far.
struct Summary {
    float most = -INFINITE, end = -INFINITE;
    double sum = 0.0;  // of e^(logit - most)
    std::vector<float> values;  // the largest but for PAD and BOS, in falling order, the lower piece first
    std::vector<int64_t> pieces;

    explicit Summary(int64_t count) : values(size_t(count), -INFINITE), pieces(size_t(count), 0) {}

    // The logits of `width` pieces from `first` on; room up to a group of vectors is overwritten.
    void take(float* logits, int64_t first, int64_t width) {
        if (first <= EOS && EOS < first + width) end = logits[EOS - first];
        const int64_t padded = up(width, BATCH);
        for (int64_t i = width; i < padded; i++) logits[i] = -INFINITE;
        Vector top = splat(most);
        for (int64_t i = 0; i < padded; i += BATCH) {
            Vector x = load(logits + i);
            for (int v = 1; v < 4; v++) x = larger(load(logits + i + v * LANES), x);
            top = larger(x, top);
            if (any(x > values.back())) insert(logits, i, first);
        }
        const float before = most;
        most = largest(top);
        if (most > before) sum *= std::exp(double(before) - double(most));
        Vector sums{};
        for (int64_t i = 0; i < padded; i += LANES) sums = sums + exponential(load(logits + i) - most);
        sum += double(::sum(sums));
    }

    float log_sum() const { return float(double(most) + std::log(sum)); }

    static constexpr int64_t BATCH = 4 * LANES;

  private:
    void insert(const float* logits, int64_t from, int64_t first) {
        for (int64_t i = from; i < from + BATCH; i++) {
            const float value = logits[i];
            const int64_t piece = first + i;
            if (!(value > values.back()) || piece == PAD || piece == BOS) continue;
            size_t place = values.size() - 1;
            for (; place > 0 && value > values[place - 1]; place--)
                values[place] = values[place - 1], pieces[place] = pieces[place - 1];
            values[place] = value, pieces[place] = piece;
        }
    }
};

// Different logits can be equal log-probabilities, once rounded: then the lower piece is first.
inline void put(const Summary& s, int64_t count, float* values, int64_t* pieces, float* end) {
    const float all = s.log_sum();
    std::vector<std::pair<float, int64_t>> order;
    for (size_t i = 0; i < s.values.size() && s.values[i] > -INFINITE; i++)
        order.emplace_back(-(s.values[i] - all), s.pieces[i]);
    if (all == all) std::sort(order.begin(), order.end());
    for (int64_t i = 0; i < count; i++) {
        const bool there = i < int64_t(order.size());
        values[i] = there ? -order[size_t(i)].first : all == all ? -INFINITE : all;
        pieces[i] = there ? order[size_t(i)].second : 0;
    }
    *end = s.end - all;
}

struct Likeliest {
    int64_t count;
    float* values;
    int64_t* pieces;
    float *ends, *log_probabilities;
};

// Rows a times the matrix' first `vocabulary` columns. `block` is scratch.
template <class E>
void vocabulary(const Matrix& m, const Rows<E>& a, int64_t vocabulary, Block<float>& block, const Likeliest& out) {
    // Floats of a block; more than asked for, as rounding makes ties; panels that are summed up at a time, whatever the
    // number of rows, so that no row's sum depends on its neighbours.
    constexpr int64_t NEAR = 64 << 10, EXTRA = 4, SUMMED = 8;
    const int64_t chunk = 256, panels = (vocabulary + PANEL - 1) / PANEL;
    for (int64_t row = 0; row < a.count; row += chunk) {
        const int64_t rows = std::min(chunk, a.count - row);
        const int64_t wide = std::max(SUMMED, std::min<int64_t>(NEAR / rows / PANEL, 128) / SUMMED * SUMMED);
        const int64_t stride = up(wide * PANEL, Summary::BATCH) + LANES;
        float* logits = block.grow(rows * stride);
        const Rows<E> part{a.data + row * a.stride, a.stride, rows, a.scales ? a.scales + row : nullptr};
        std::vector<Summary> summaries(size_t(rows), Summary(out.count + EXTRA));
        for (int64_t panel = 0; panel < panels; panel += wide) {
            product(m, part, panel, std::min(panel + wide, panels), Target{logits, stride, false});
            const int64_t first = panel * PANEL, width = std::min(wide * PANEL, vocabulary - first);
            for (int64_t r = 0; r < rows; r++) {
                float* from = logits + r * stride;
                if (float* all = out.log_probabilities)
                    std::memcpy(all + (row + r) * vocabulary + first, from, size_t(width) * sizeof(float));
                for (int64_t at = 0; at < width; at += SUMMED * PANEL)
                    summaries[size_t(r)].take(from + at, first + at, std::min(width - at, SUMMED * PANEL));
            }
        }
        for (int64_t r = 0; r < rows; r++) {
            const Summary& s = summaries[size_t(r)];
            const int64_t at = (row + r) * out.count;
            put(s, out.count, out.values + at, out.pieces + at, out.ends + row + r);
            if (!out.log_probabilities) continue;
            float *all = out.log_probabilities + (row + r) * vocabulary, less = s.log_sum();
            for (int64_t i = 0; i < vocabulary; i++) all[i] -= less;
        }
    }
}

}  // namespace
