// What is done to each row by itself.
#pragma once

#include "simd.hpp"

namespace {

// f(i, lanes) for whole vectors, and for what is left over number by number.
template <class Whole, class Single>
inline void each(int64_t n, Whole whole, Single single) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) whole(i);
    for (; i < n; i++) single(i);
}

inline void scaled(const float* x, float scale, float* out, int64_t n) {
    each(n, [&](int64_t i) { store(out + i, load(x + i) * scale); }, [&](int64_t i) { out[i] = x[i] * scale; });
}

inline void add(const float* x, const float* y, float* out, int64_t n) {
    each(n, [&](int64_t i) { store(out + i, load(x + i) + load(y + i)); }, [&](int64_t i) { out[i] = x[i] + y[i]; });
}

// Layer normalisation of x, or of x + y; the variance is that of the population.
inline void norm(const float* x, const float* y, const float* gain, const float* bias, float epsilon, float* out,
                 int64_t n) {
    if (y) add(x, y, out, n), x = out;
    Vector sums{};
    float rest = 0.0f;
    each(n, [&](int64_t i) { sums = sums + load(x + i); }, [&](int64_t i) { rest += x[i]; });
    const float mean = (sum(sums) + rest) / float(n);
    sums = Vector{}, rest = 0.0f;
    each(n, [&](int64_t i) { const Vector d = load(x + i) - mean; sums = sums + d * d; },
         [&](int64_t i) { rest += (x[i] - mean) * (x[i] - mean); });
    const float factor = 1.0f / std::sqrt((sum(sums) + rest) / float(n) + epsilon);
    each(n, [&](int64_t i) { store(out + i, (load(x + i) - mean) * factor * load(gain + i) + load(bias + i)); },
         [&](int64_t i) { out[i] = (x[i] - mean) * factor * gain[i] + bias[i]; });
}

// PE(position, 2i) = sin(position / 10000^(2i/width)), PE(position, 2i+1) = cos of the same (3.5). In halves the sines
// stand before the cosines, and the last of each is of position / 10000.
inline void sinusoids(int64_t position, int64_t width, bool halves, float* out) {
    const int64_t half = width / 2;
    for (int64_t i = 0; halves && i < half; i++) {
        const double angle = double(position) / std::pow(10000.0, double(i) / double(std::max<int64_t>(1, half - 1)));
        out[i] = float(std::sin(angle)), out[half + i] = float(std::cos(angle));
    }
    for (int64_t i = 0; !halves && i < width; i++) {
        const double angle = double(position) / std::pow(10000.0, double(i / 2 * 2) / double(width));
        out[i] = float(i % 2 ? std::cos(angle) : std::sin(angle));
    }
}

}  // namespace
