// Functions of single rows: scaling, addition, activations, norms, SSRU, sinusoids, rotations, tables of positions.
#pragma once

#include "abi.hpp"
#include "simd.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace {

// Calls whole(i) for each full vector, then single(i) for each remaining element.
template <class Whole, class Single>
inline void for_each(int64_t n, Whole whole, Single single) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) whole(i);
    for (; i < n; i++) single(i);
}

inline void scaled(const float* x, float scale, float* out, int64_t n) {
    for_each(n, [&](int64_t i) { store(out + i, load(x + i) * scale); }, [&](int64_t i) { out[i] = x[i] * scale; });
}

inline void add(const float* x, const float* y, float* out, int64_t n) {
    for_each(n, [&](int64_t i) { store(out + i, load(x + i) + load(y + i)); }, [&](int64_t i) {
        out[i] = x[i] + y[i]; });
}

// The exponent is limited to 88, because e^-x would overflow. The quotient is practically 0 there.
inline Vector sigmoid(Vector x) { return 1.0f / (exponential(smaller(-x, splat(88.0f))) + 1.0f); }

// x Phi(x), with approximation 7.1.26 of the error function by Abramowitz & Stegun, whose error is below 1.5e-7.
inline Vector gelu(Vector x) {
    const Vector z = larger(x, -x) * 0.7071067812f, t = 1.0f / multiply_add(z, 0.3275911f, 1.0f);
    Vector p = multiply_add(t, 1.061405429f, -1.453152027f);
    for (const float coefficient : {1.421413741f, -0.284496736f, 0.254829592f})
        p = multiply_add(p, t, splat(coefficient));
    const Vector tail = p * t * exponential(-z * z) * 0.5f;  // probability of the normal distribution above |x|
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

// x (1 + tanh(u)) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3), an approximation of x Phi(x).
inline Vector gelu_tanh(Vector x) { return x * sigmoid((x + x * x * x * 0.044715f) * 1.5957691216f); }

// Computes out[i] = f(x[i] ...) in vectors. The last vector is padded with zeros.
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

// Applies an activation function to a row.
inline void apply_activation(const float* x, int32_t activation, float* out, int64_t n) {
    const auto activate = [&](Vector v) {
        return activation == SILU        ? v * sigmoid(v)
               : activation == GELU      ? gelu(v)
               : activation == GELU_TANH ? gelu_tanh(v)
               : activation == RELU      ? relu(v)
                                         : v;
    };
    map(n, out, activate, x);
}

// Computes the SSRU's c = f c_previous + (1 - f) z, with f = sigmoid(gate). `previous` is null at the first position,
// where c_previous = 0.
inline void ssru_state(const float* gate, const float* z, const float* previous, float* c, int64_t n) {
    if (previous)
        map(n, c,
            [](Vector g, Vector x, Vector b) {
                const Vector f = sigmoid(g);
                return multiply_add(f, b, (1.0f - f) * x);
            },
            gate, z, previous);
    else
        map(n, c, [](Vector g, Vector x) { return (1.0f - sigmoid(g)) * x; }, gate, z);
}

// Layer normalisation of x, or of x + y if y is not null. The variance is the population variance.
inline void norm(const float* x, const float* y, const float* gain, const float* bias, float epsilon, float* out,
                 int64_t n) {
    if (y) add(x, y, out, n), x = out;
    Vector sums{};
    float rest = 0.0f;
    for_each(n, [&](int64_t i) { sums = sums + load(x + i); }, [&](int64_t i) { rest += x[i]; });
    const float mean = (sum(sums) + rest) / float(n);
    sums = Vector{}, rest = 0.0f;
    for_each(n, [&](int64_t i) { const Vector d = load(x + i) - mean; sums = multiply_add(d, d, sums); },
         [&](int64_t i) { rest += (x[i] - mean) * (x[i] - mean); });
    const float factor = 1.0f / std::sqrt((sum(sums) + rest) / float(n) + epsilon);
    for_each(n,
         [&](int64_t i) {
             store(out + i, multiply_add((load(x + i) - mean) * factor, load(gain + i), load(bias + i)));
         },
         [&](int64_t i) { out[i] = multiply_add((x[i] - mean) * factor, gain[i], bias[i]); });
}

// RMSNorm of x, or of x + y if y is not null.
inline void rms_norm(const float* x, const float* y, const float* gain, float epsilon, float* out, int64_t n) {
    if (y) add(x, y, out, n), x = out;
    Vector sums{};
    float rest = 0.0f;
    for_each(n, [&](int64_t i) { sums = multiply_add(load(x + i), load(x + i), sums); },
         [&](int64_t i) { rest += x[i] * x[i]; });
    const float factor = 1.0f / std::sqrt((sum(sums) + rest) / float(n) + epsilon);
    for_each(n, [&](int64_t i) { store(out + i, load(x + i) * factor * load(gain + i)); },
         [&](int64_t i) { out[i] = x[i] * factor * gain[i]; });
}

// Cosines, then sines, of the angles position * theta^(-2i/width) of rotary position embeddings.
inline void rotation(int64_t position, int64_t width, float theta, float* out) {
    for (int64_t i = 0; i < width / 2; i++) {
        const double angle = double(position) * std::pow(double(theta), -double(2 * i) / double(width));
        out[i] = float(std::cos(angle)), out[width / 2 + i] = float(std::sin(angle));
    }
}

// Rotates the pairs (x[i], x[i + width / 2]) by the angles of `rotation`.
inline void rotate(const float* x, const float* angles, float* out, int64_t width) {
    const int64_t half = width / 2;
    for (int64_t i = 0; i < half; i++) {
        const float first = x[i], second = x[half + i], cosine = angles[i], sine = angles[half + i];
        out[i] = first * cosine - second * sine, out[half + i] = second * cosine + first * sine;
    }
}

// PE(position, 2i) = sin(position / 10000^(2i/width)), PE(position, 2i+1) = cos(...) (section 3.5). With `halves`, all
// sines come before all cosines, and the last wavelength is that of position / 10000.
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

// Tables of a function of the position. A table grows on demand; other threads may still read the smaller one.
class PositionTables {
  public:
    // Returns a table of at least this number of positions. `fill(i, row)` writes row i. All tables with the same width
    // and parameter have the same function.
    template <class F>
    std::shared_ptr<const Block<float>> table(int64_t positions, int64_t width, float parameter, F fill) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::shared_ptr<Block<float>>& table = tables[{width, parameter}];
        if (!table || table->size < positions * width) {
            const int64_t max_positions = std::max<int64_t>(256, 2 * positions);
            auto larger = std::make_shared<Block<float>>(max_positions * width);
            for (int64_t i = 0; i < max_positions; i++) fill(i, larger->data + i * width);
            table = larger;
        }
        return table;
    }

  private:
    std::mutex mutex;
    std::map<std::pair<int64_t, float>, std::shared_ptr<Block<float>>> tables;
};

}  // namespace
