// What is done to each row by itself.
#pragma once

#include "abi.hpp"
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

// Where e^-x would overflow, it is large enough for the quotient to be next to nothing.
inline Vector sigmoid(Vector x) { return 1.0f / (exponential(smaller(-x, splat(88.0f))) + 1.0f); }

// x Phi(x), with the error function of Abramowitz & Stegun 7.1.26, which is within 1.5e-7 of its own.
inline Vector gelu(Vector x) {
    const Vector z = larger(x, -x) * 0.7071067812f, t = 1.0f / (z * 0.3275911f + 1.0f);
    Vector p = t * 1.061405429f - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    const Vector beyond = p * t * exponential(-z * z) * 0.5f;  // of the normal distribution, further out than |x|
    return x * (x < 0.0f ? beyond : 1.0f - beyond);
}

// out[i] = f(x[i] ...), in whole vectors: what is left over of a row as one that is filled up with zeros.
template <class F, class... X>
inline void map(int64_t n, float* out, F f, const X*... x) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(out + i, f(load(x + i)...));
    if (i == n) return;
    const size_t rest = size_t(n - i) * sizeof(float);
    const auto filled = [&](const float* from) {
        float some[LANES] = {};
        std::memcpy(some, from, rest);
        return load(some);
    };
    float some[LANES];
    store(some, f(filled(x + i)...));
    std::memcpy(out + i, some, rest);
}

// What a curve makes of the numbers of a row.
inline void bend(const float* x, int32_t curve, float* out, int64_t n) {
    const auto bent = [&](Vector v) {
        return curve == SILU ? v * sigmoid(v) : curve == GELU ? gelu(v) : curve == RELU ? relu(v) : v;
    };
    map(n, out, bent, x);
}

// c = f c_before + (1 - f) z, f the sigmoid of the gate; before the first position c is 0.
inline void average(const float* gate, const float* z, const float* before, float* c, int64_t n) {
    if (before)
        map(n, c, [](Vector g, Vector x, Vector b) { const Vector f = sigmoid(g); return f * b + (1.0f - f) * x; },
            gate, z, before);
    else
        map(n, c, [](Vector g, Vector x) { return (1.0f - sigmoid(g)) * x; }, gate, z);
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
