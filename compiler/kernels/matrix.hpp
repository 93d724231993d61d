// Products of rows with a matrix that was packed once: in panels of 2 vectors of columns, in which it is read from
// memory from the first byte to the last. A tile is some rows times one panel, its sums in registers.
#pragma once

#include "simd.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>

namespace {

constexpr int PANEL = 2 * LANES;
constexpr int TILE = LANES == 16 ? 12 : 6;  // rows: as many sums as there are registers for

// How 8-bit integers are multiplied: GROUP neighbours of a row, packed in 32 bits, at a time. Sums are exact.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// The row's are unsigned for this instruction: shifted by 128, which sums of the matrix's columns make good.
constexpr int GROUP = 4, SHIFT = 128;
typedef uint8_t Quantum;
typedef Ints Packed;
inline Packed load_packed(const int8_t* p) { return *reinterpret_cast<const Ints*>(p); }
inline Ints dot(Ints sum, int32_t x, Packed y) {
#if defined(__AVX512VNNI__)
    return Ints(_mm512_dpbusd_epi32(__m512i(sum), _mm512_set1_epi32(x), __m512i(y)));
#else
    return Ints(_mm256_dpbusd_avx_epi32(__m256i(sum), _mm256_set1_epi32(x), __m256i(y)));
#endif
}
#elif defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__)) || (defined(__SSE2__) && !defined(__AVX__))
constexpr int GROUP = 2, SHIFT = 0;
typedef int16_t Quantum;
typedef int16_t Packed __attribute__((vector_size(LANES * 4), may_alias));
inline Packed load_packed(const int8_t* p) {
    typedef int8_t Narrow __attribute__((vector_size(LANES * 2), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Narrow*>(p), Packed);
}
inline Ints dot(Ints sum, int32_t x, Packed y) {
#if defined(__AVX512BW__)
    return sum + Ints(_mm512_madd_epi16(_mm512_set1_epi32(x), __m512i(y)));
#elif defined(__AVX2__)
    return sum + Ints(_mm256_madd_epi16(_mm256_set1_epi32(x), __m256i(y)));
#else
    return sum + Ints(_mm_madd_epi16(_mm_set1_epi32(x), __m128i(y)));
#endif
}
#else
constexpr int GROUP = 1, SHIFT = 0;
typedef int32_t Quantum;
typedef Ints Packed;
inline Packed load_packed(const int8_t* p) {
    typedef int8_t Narrow __attribute__((vector_size(LANES), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Narrow*>(p), Packed);
}
inline Ints dot(Ints sum, int32_t x, Packed y) { return sum + x * y; }
#endif

// The two kinds of matrix: what 4 bytes of a row are, what a vector of a panel is, and how they are multiplied.
struct Floats {
    typedef float Element;
    typedef Vector Sum;
    typedef float Stored;
    static constexpr int GROUPED = 1;
    static Vector load_panel(const float* p) { return *reinterpret_cast<const Vector*>(p); }
    static Vector add(Vector sum, float x, Vector y) { return sum + x * y; }
};
struct Bytes {
    typedef int32_t Element;
    typedef Ints Sum;
    typedef int8_t Stored;
    static constexpr int GROUPED = GROUP;
    static Packed load_panel(const int8_t* p) { return load_packed(p); }
    static Ints add(Ints sum, int32_t x, Packed y) { return dot(sum, x, y); }
};

struct Matrix {
    int64_t in, out, depth, panels;  // depth: groups of rows
    bool has_bias = false, quantised = false;
    Block<float> floats, bias, scales;
    Block<int8_t> bytes;
    Block<int32_t> offsets;  // what the sums of a column start with
};

// Rows of 4-byte elements: floats, or groups of 8-bit integers with a scale each.
template <class E>
struct Rows {
    const E* data;
    int64_t stride, count;
    const float* scales;
};

// Where a product goes, and what is done to it on the way.
struct Target {
    float* data;
    int64_t stride;
    bool relu;
};

// Panel-wise copy, zeros where the matrix ends.
template <int GROUPED, class T>
void pack(const T* from, T* to, const Matrix& m, int64_t in_stride, int64_t out_stride) {
    for (int64_t panel = 0; panel < m.panels; panel++)
        for (int64_t group = 0; group < m.depth; group++)
            for (int64_t column = panel * PANEL; column < (panel + 1) * PANEL; column++)
                for (int64_t row = group * GROUPED; row < (group + 1) * GROUPED; row++)
                    *to++ = row < m.in && column < m.out ? from[row * in_stride + column * out_stride] : T(0);
}

std::unique_ptr<Matrix> shaped(int64_t in, int64_t out, int grouped, const float* bias) {
    if (in < 0 || out < 0 || in > (1 << 30) || out > (1 << 30)) throw std::length_error("matrix");
    std::unique_ptr<Matrix> m(new Matrix);
    m->in = in, m->out = out, m->depth = (in + grouped - 1) / grouped, m->panels = (out + PANEL - 1) / PANEL;
    m->has_bias = bias;
    m->bias.grow(m->panels * PANEL);
    for (int64_t i = 0; i < m->panels * PANEL; i++) m->bias.data[i] = bias && i < out ? bias[i] : 0.0f;
    return m;
}

// Multiplies R rows with a panel. `ahead` is what will be needed next, brought nearer meanwhile: in step with the panel
// where that is used but ONCE, else a line every 2^`rarely` steps.
template <class K, int R, bool ONCE>
inline void tile(const typename K::Element* a, int64_t stride, const typename K::Stored* panel, int64_t depth,
                 typename K::Sum (&sums)[R][2], const char* ahead, int rarely) {
    constexpr int64_t WIDTH = LANES * K::GROUPED, BYTES = 2 * WIDTH * int64_t(sizeof(*panel));
    for (int64_t i = 0; i < depth; i++, panel += 2 * WIDTH) {
        if constexpr (ONCE) {
            for (int64_t line = 0; line < BYTES; line += LINE) __builtin_prefetch(ahead + i * BYTES + line);
        } else if (!(i & ((1 << rarely) - 1))) {
            __builtin_prefetch(ahead + (i >> rarely) * LINE, 0, 2);
        }
        const auto left = K::load_panel(panel), right = K::load_panel(panel + WIDTH);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            const auto x = a[r * stride + i];
            sums[r][0] = K::add(sums[r][0], x, left);
            sums[r][1] = K::add(sums[r][1], x, right);
        }
    }
}

// One panel's share of a row, cut off where the matrix ends.
inline void put(float* to, Vector left, Vector right, int64_t columns, bool relu) {
    if (relu) left = ::relu(left), right = ::relu(right);
    if (columns >= PANEL) {
        store(to, left), store(to + LANES, right);
    } else {
        float both[PANEL];
        store(both, left), store(both + LANES, right);
        std::memcpy(to, both, size_t(columns) * sizeof(float));
    }
}

// The part of a product that is computed at a time: some rows times a panel.
struct Part {
    int64_t row, panel, columns;
    const char* ahead;
    int rarely;
};

template <int R, bool ONCE>
void compute(const Matrix& m, const Rows<float>& a, const Part& part, const Target& c) {
    Vector sums[R][2];
    const float* bias = m.bias.data + part.panel * PANEL;
    for (int r = 0; r < R; r++) sums[r][0] = load(bias), sums[r][1] = load(bias + LANES);
    const float* panel = m.floats.data + part.panel * m.depth * PANEL;
    tile<Floats, R, ONCE>(a.data + part.row * a.stride, a.stride, panel, m.depth, sums, part.ahead, part.rarely);
    for (int r = 0; r < R; r++) put(c.data + (part.row + r) * c.stride, sums[r][0], sums[r][1], part.columns, c.relu);
}

template <int R, bool ONCE>
void compute(const Matrix& m, const Rows<int32_t>& a, const Part& part, const Target& c) {
    Ints sums[R][2];
    const Ints* offsets = reinterpret_cast<const Ints*>(m.offsets.data + part.panel * PANEL);
    for (int r = 0; r < R; r++) sums[r][0] = offsets[0], sums[r][1] = offsets[1];
    const int8_t* panel = m.bytes.data + part.panel * m.depth * PANEL * GROUP;
    tile<Bytes, R, ONCE>(a.data + part.row * a.stride, a.stride, panel, m.depth, sums, part.ahead, part.rarely);
    const float *scales = m.scales.data + part.panel * PANEL, *bias = m.bias.data + part.panel * PANEL;
    for (int r = 0; r < R; r++) {
        Vector y[2];
        for (int i = 0; i < 2; i++) {
            y[i] = __builtin_convertvector(sums[r][i], Vector) * a.scales[part.row + r] * load(scales + i * LANES);
            y[i] = y[i] + load(bias + i * LANES);
        }
        put(c.data + (part.row + r) * c.stride, y[0], y[1], part.columns, c.relu);
    }
}

template <class E, bool ONCE, int R = TILE>
void compute(int64_t rows, const Matrix& m, const Rows<E>& a, const Part& part, const Target& c) {
    if (rows == R) return compute<R, ONCE>(m, a, part, c);
    if constexpr (R > 1) compute<E, ONCE, R - 1>(rows, m, a, part, c);
}

// c = a times the columns of some panels, `c.data` being where the first panel's go.
template <class E>
void product(const Matrix& m, const Rows<E>& a, int64_t first, int64_t last, const Target& c) {
    constexpr int64_t NEAR = 384 << 10;  // bytes of rows that stay in the second cache beside two panels
    const int64_t bytes = m.depth * PANEL * (m.quantised ? GROUP : 4);  // of a panel
    const char* data = reinterpret_cast<const char*>(m.floats.data);
    if (m.quantised) data = reinterpret_cast<const char*>(m.bytes.data);
    const int64_t chunk = std::max<int64_t>(TILE, NEAR / (4 * std::max<int64_t>(m.depth, 1)) / TILE * TILE);
    for (int64_t row = 0; row < a.count; row += chunk) {
        const int64_t rows = std::min(chunk, a.count - row), tiles = (rows + TILE - 1) / TILE;
        const int rarely = tiles < 4 ? 0 : tiles < 8 ? 1 : 2;  // so that all tiles together fetch a panel
        for (int64_t panel = first; panel < last; panel++) {
            const Target to{c.data + (panel - first) * PANEL, c.stride, c.relu};
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t start = rows * i / tiles, count = rows * (i + 1) / tiles - start;
                Part part{row + start, panel, m.out - panel * PANEL, data + panel * bytes, rarely};
                if (tiles == 1) {
                    part.ahead += 4096;
                    compute<E, true>(count, m, a, part, to);
                } else {
                    part.ahead += bytes + i * (m.depth >> rarely) * LINE;
                    compute<E, false>(count, m, a, part, to);
                }
            }
        }
    }
}

// Rounds rows to 8 bits, each by a scale of its own (s = max|x| / 127); to even at halves, as torch does. A row with a
// number that is infinite or none becomes zeros, and its scale NaN.
struct Quantised {
    Block<int32_t> groups;
    Block<float> scales;

    Rows<int32_t> operator()(const Rows<float>& x, int64_t in) {
        // Whole vectors are written: after the end of a row there is room for one.
        const int64_t depth = (in + GROUP - 1) / GROUP, stride = up(depth, LANES) + LANES;
        int32_t* to = groups.grow(x.count * stride);
        float* scale = scales.grow(x.count);
        for (int64_t row = 0; row < x.count; row++)
            scale[row] = one(x.data + row * x.stride, in, to + row * stride);
        return {to, stride, x.count, scale};
    }

    static float one(const float* x, int64_t in, int32_t* to) {
        // As integers, magnitudes are ordered like numbers, and NaN is the largest of all.
        Ints most{};
        each_vector(x, in, [&](int64_t, Vector v) {
            const Ints magnitude = bits(v) & 0x7fffffff;
            most = magnitude > most ? magnitude : most;
        });
        int32_t top = 0;
        for (int lane = 0; lane < LANES; lane++) top = std::max<int32_t>(top, most[lane]);
        float largest;
        std::memcpy(&largest, &top, 4);
        const bool finite = largest < INFINITE;
        const float factor = finite && largest > 0.0f && 127.0f / largest < INFINITE ? 127.0f / largest : 0.0f;
        typedef Quantum Quanta __attribute__((vector_size(LANES * sizeof(Quantum))));
        char* bytes = reinterpret_cast<char*>(to);
        each_vector(x, in, [&](int64_t i, Vector v) {
            const Vector y = finite ? v * factor : Vector{};
            const Ints rounded = bits(settled(y) + 12582912.0f) - (0x4b400000 - SHIFT);
            const Quanta quanta = __builtin_convertvector(rounded, Quanta);
            std::memcpy(bytes + i * int64_t(sizeof(Quantum)), &quanta, sizeof(quanta));
        });
        return finite ? largest / 127.0f : NOT_A_NUMBER;
    }

    // f(i, the numbers from i on), the last ones filled up with zeros.
    template <class F>
    static void each_vector(const float* x, int64_t n, F f) {
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES) f(i, load(x + i));
        if (i == n) return;
        float rest[LANES] = {};
        std::memcpy(rest, x + i, size_t(n - i) * sizeof(float));
        f(i, load(rest));
    }
};

}  // namespace
