// Products of rows with a packed matrix. Packing sorts a matrix into panels of 2 vectors of columns, so that a product
// reads it sequentially. A tile is the product of some rows and one panel, with its sums in registers.
#pragma once

#include "abi.hpp"
#include "simd.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace {

constexpr int PANEL = 2 * LANES;
constexpr int TILE = LANES == 16 ? 12 : 6;  // rows of a tile: its sums fill the vector registers

// Exact products of 8-bit integers: GROUP neighbours of a row, packed into 32 bits, are multiplied at a time.
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
// This instruction needs unsigned elements in the row. They are offset by 128; `Matrix::offsets` corrects the sums.
constexpr int GROUP = 4, OFFSET = 128;
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
constexpr int GROUP = 2, OFFSET = 0;
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
constexpr int GROUP = 1, OFFSET = 0;
typedef int32_t Quantum;
typedef Ints Packed;
inline Packed load_packed(const int8_t* p) {
    typedef int8_t Narrow __attribute__((vector_size(LANES), may_alias));
    return __builtin_convertvector(*reinterpret_cast<const Narrow*>(p), Packed);
}
inline Ints dot(Ints sum, int32_t x, Packed y) { return sum + x * y; }
#endif

// The two types of matrix: the element type of rows, the type of sums, the type in memory, and the multiplication.
struct Floats {
    typedef float Element;
    typedef Vector Sum;
    typedef float Stored;
    static constexpr int GROUPED = 1;
    static Vector load_panel(const float* p) { return *reinterpret_cast<const Vector*>(p); }
    static Vector add(Vector sum, float x, Vector y) { return multiply_add(splat(x), y, sum); }
};
struct Bytes {
    typedef int32_t Element;
    typedef Ints Sum;
    typedef int8_t Stored;
    static constexpr int GROUPED = GROUP;
    static Packed load_panel(const int8_t* p) { return load_packed(p); }
    static Ints add(Ints sum, int32_t x, Packed y) { return dot(sum, x, y); }
};

// A packed matrix. Its arrays follow it in memory, without pointers, so that it can be stored in a file: biases; for
// 8-bit integers, scales and offsets; then the panels. All but the panels have one element per column.
struct alignas(LINE) Matrix {
    int64_t in, out, depth, panels;  // depth: number of groups of rows
    int64_t quantised;

    int64_t columns() const { return panels * PANEL; }
    const float* bias() const { return reinterpret_cast<const float*>(this + 1); }
    const float* scales() const { return bias() + columns(); }
    const int32_t* offsets() const {  // initial values of the sums
        return reinterpret_cast<const int32_t*>(scales() + columns());
    }
    const float* floats() const { return bias() + columns(); }
    const int8_t* bytes() const { return reinterpret_cast<const int8_t*>(offsets() + columns()); }
    int64_t group_bytes() const { return quantised ? GROUP : 4; }
    const char* data() const {
        return quantised ? reinterpret_cast<const char*>(bytes()) : reinterpret_cast<const char*>(floats());
    }
    int64_t size() const { return data() + columns() * depth * group_bytes() - reinterpret_cast<const char*>(this); }
};

// Rows of 4-byte elements: floats, or groups of 8-bit integers with a scale each.
template <class E>
struct Rows {
    const E* data;
    int64_t stride, count;
    const float* scales;

    Rows part(int64_t first, int64_t rows) const {
        return {data + first * stride, stride, rows, scales ? scales + first : nullptr};
    }
};

// Destination of a product, and whether ReLU is applied to it.
struct Target {
    float* data;
    int64_t stride;
    bool relu;
};

// Copies a matrix into panels, padded with zeros.
template <int GROUPED, class T>
void pack(const T* from, T* to, const Matrix& m, int64_t in_stride, int64_t out_stride) {
    for (int64_t panel = 0; panel < m.panels; panel++)
        for (int64_t group = 0; group < m.depth; group++)
            for (int64_t column = panel * PANEL; column < (panel + 1) * PANEL; column++)
                for (int64_t row = group * GROUPED; row < (group + 1) * GROUPED; row++)
                    *to++ = row < m.in && column < m.out ? from[row * in_stride + column * out_stride] : T(0);
}

// Returns the head of a packed matrix.
Matrix matrix_head(int64_t in, int64_t out, bool quantised) {
    if (in < 0 || out < 0 || in > (quantised ? MAX_INT8_ROWS : 1 << 30) || out > (1 << 30))
        throw std::length_error("matrix");
    const int grouped = quantised ? GROUP : 1;
    return {in, out, (in + grouped - 1) / grouped, (out + PANEL - 1) / PANEL, quantised};
}

// Writes the head and the biases of a packed matrix.
Matrix* start_matrix(void* to, int64_t in, int64_t out, bool quantised, const float* bias) {
    Matrix* m = new (to) Matrix(matrix_head(in, out, quantised));
    float* biases = const_cast<float*>(m->bias());
    for (int64_t i = 0; i < m->columns(); i++) biases[i] = bias && i < out ? bias[i] : 0.0f;
    return m;
}

// Copies groups of BYTES bytes. The distance between two groups is `from_step` and `to_step` groups.
template <int64_t BYTES>
void copy_groups(const char* from, int64_t from_step, char* to, int64_t to_step, int64_t groups) {
    for (int64_t i = 0; i < groups; i++, from += from_step * BYTES, to += to_step * BYTES) std::memcpy(to, from, BYTES);
}

// Unpacked copy of a matrix, from which smaller matrices of some of its columns are packed quickly. It must not outlive
// the matrix.
class ColumnTable {
  public:
    explicit ColumnTable(const Matrix& m) : m(m), bytes(m.depth * m.group_bytes()) {
        columns.grow(m.out * bytes, true);
        for (int64_t i = 0; i < m.out; i++) copy(m.data(), PANEL, panel_offset(i), columns.data, 1, i * bytes);
    }

    // Returns the memory of a packed matrix of these columns.
    Block<char> pack(const int64_t* chosen, int64_t count) const {
        Block<char> memory(matrix_head(m.in, count, m.quantised).size());
        Matrix* packed = start_matrix(memory.data, m.in, count, m.quantised, nullptr);
        char* to = const_cast<char*>(packed->data());
        float *bias = const_cast<float*>(packed->bias()), *scales = const_cast<float*>(packed->scales());
        int32_t* offsets = const_cast<int32_t*>(packed->offsets());
        for (int64_t i = 0; i < packed->columns(); i++) {
            const int64_t column = chosen[std::min(i, count - 1)];  // the padding repeats the last one, and is not used
            copy(columns.data, 1, column * bytes, to, PANEL, panel_offset(i));
            bias[i] = m.bias()[column];
            if (m.quantised) scales[i] = m.scales()[column], offsets[i] = m.offsets()[column];
        }
        return memory;
    }

  private:
    const Matrix& m;
    int64_t bytes;  // size of a column
    Block<char> columns;

    int64_t panel_offset(int64_t column) const {
        return column / PANEL * PANEL * bytes + column % PANEL * m.group_bytes();
    }
    void copy(const char* from, int64_t from_step, int64_t from_offset, char* to, int64_t to_step,
              int64_t to_offset) const {
        from += from_offset, to += to_offset;
        if (m.quantised) copy_groups<GROUP>(from, from_step, to, to_step, m.depth);
        else copy_groups<4>(from, from_step, to, to_step, m.depth);
    }
};

// Multiplies R rows with a panel, and prefetches memory from `prefetch_from` on: as many bytes as the panel has if this
// is the panel's SINGLE_TILE, otherwise one cache line every 2^log2_interval steps.
template <class K, int R, bool SINGLE_TILE>
inline void tile(const typename K::Element* a, int64_t stride, const typename K::Stored* panel, int64_t depth,
                 typename K::Sum (&sums)[R][2], const char* prefetch_from, int log2_interval) {
    constexpr int64_t WIDTH = LANES * K::GROUPED, BYTES = 2 * WIDTH * int64_t(sizeof(*panel));
    for (int64_t i = 0; i < depth; i++, panel += 2 * WIDTH) {
        if constexpr (SINGLE_TILE) {
            for (int64_t line = 0; line < BYTES; line += LINE) __builtin_prefetch(prefetch_from + i * BYTES + line);
        } else if (!(i & ((1 << log2_interval) - 1))) {
            __builtin_prefetch(prefetch_from + (i >> log2_interval) * LINE, 0, 2);
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

// Stores one panel's part of a row, without the padding columns.
inline void write_row(float* to, Vector left, Vector right, int64_t columns, bool relu) {
    if (relu) left = ::relu(left), right = ::relu(right);
    if (columns >= PANEL) {
        store(to, left), store(to + LANES, right);
    } else {
        float both[PANEL];
        store(both, left), store(both + LANES, right);
        std::memcpy(to, both, size_t(columns) * sizeof(float));
    }
}

// Part of a product: the first row and the panel, the panel's columns, and what to prefetch.
struct Part {
    int64_t row, panel, columns;
    const char* prefetch_from;
    int log2_interval;
};

template <int R, bool SINGLE_TILE>
void compute(const Matrix& m, const Rows<float>& a, const Part& part, const Target& c) {
    Vector sums[R][2];
    const float* bias = m.bias() + part.panel * PANEL;
    for (int r = 0; r < R; r++) sums[r][0] = load(bias), sums[r][1] = load(bias + LANES);
    const float* panel = m.floats() + part.panel * m.depth * PANEL;
    tile<Floats, R, SINGLE_TILE>(a.data + part.row * a.stride, a.stride, panel, m.depth, sums, part.prefetch_from,
        part.log2_interval);
    for (int r = 0; r < R; r++) write_row(c.data + (part.row + r) * c.stride, sums[r][0], sums[r][1], part.columns,
        c.relu);
}

template <int R, bool SINGLE_TILE>
void compute(const Matrix& m, const Rows<int32_t>& a, const Part& part, const Target& c) {
    Ints sums[R][2];
    const Ints* offsets = reinterpret_cast<const Ints*>(m.offsets() + part.panel * PANEL);
    for (int r = 0; r < R; r++) sums[r][0] = offsets[0], sums[r][1] = offsets[1];
    const int8_t* panel = m.bytes() + part.panel * m.depth * PANEL * GROUP;
    tile<Bytes, R, SINGLE_TILE>(a.data + part.row * a.stride, a.stride, panel, m.depth, sums, part.prefetch_from,
        part.log2_interval);
    const float *scales = m.scales() + part.panel * PANEL, *bias = m.bias() + part.panel * PANEL;
    for (int r = 0; r < R; r++) {
        Vector y[2];
        for (int i = 0; i < 2; i++) {
            y[i] = __builtin_convertvector(sums[r][i], Vector) * a.scales[part.row + r] * load(scales + i * LANES);
            y[i] = y[i] + load(bias + i * LANES);
        }
        write_row(c.data + (part.row + r) * c.stride, y[0], y[1], part.columns, c.relu);
    }
}

template <class E, bool SINGLE_TILE, int R = TILE>
void compute(int64_t rows, const Matrix& m, const Rows<E>& a, const Part& part, const Target& c) {
    if (rows == R) return compute<R, SINGLE_TILE>(m, a, part, c);
    if constexpr (R > 1) compute<E, SINGLE_TILE, R - 1>(rows, m, a, part, c);
}

// Computes c = a times the panels from `first` to `last`; the first panel's columns go to `c.data`.
template <class E>
void product(const Matrix& m, const Rows<E>& a, int64_t first, int64_t last, const Target& c) {
    constexpr int64_t MAX_NEAR = 384 << 10;  // bytes of rows that fit into the level-2 cache with two panels
    const int64_t bytes = m.depth * PANEL * m.group_bytes();  // size of a panel
    const char* data = m.data();
    const int64_t chunk = std::max<int64_t>(TILE, MAX_NEAR / (4 * std::max<int64_t>(m.depth, 1)) / TILE * TILE);
    for (int64_t row = 0; row < a.count; row += chunk) {
        const int64_t rows = std::min(chunk, a.count - row), tiles = (rows + TILE - 1) / TILE;
        // so that all tiles together prefetch the next panel
        const int log2_interval = tiles < 4 ? 0 : tiles < 8 ? 1 : 2;
        for (int64_t panel = first; panel < last; panel++) {
            const Target to{c.data + (panel - first) * PANEL, c.stride, c.relu};
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t start = rows * i / tiles, count = rows * (i + 1) / tiles - start;
                Part part{row + start, panel, m.out - panel * PANEL, data + panel * bytes, log2_interval};
                if (tiles == 1) {
                    part.prefetch_from += 4096;
                    compute<E, true>(count, m, a, part, to);
                } else {
                    part.prefetch_from += bytes + i * (m.depth >> log2_interval) * LINE;
                    compute<E, false>(count, m, a, part, to);
                }
            }
        }
    }
}

// Quantises rows to 8 bits, each with its own scale (max|x| / 127), rounding halves to even, as torch does. A row that
// contains infinity or NaN becomes zeros, with the scale NaN.
struct RowQuantiser {
    Block<int32_t> groups;
    Block<float> scales;

    Rows<int32_t> operator()(const Rows<float>& x, int64_t in) {
        // Whole vectors are written, so each row has a spare vector at its end.
        const int64_t depth = (in + GROUP - 1) / GROUP, stride = round_up(depth, LANES) + LANES;
        int32_t* to = groups.grow(x.count * stride);
        float* scale = scales.grow(x.count);
        for (int64_t row = 0; row < x.count; row++)
            scale[row] = one(x.data + row * x.stride, in, to + row * stride);
        return {to, stride, x.count, scale};
    }

    static float one(const float* x, int64_t in, int32_t* to) {
        // The bits of magnitudes, read as integers, have the same order as the numbers, and NaN is the largest.
        Ints max{};
        each_vector(x, in, [&](int64_t, Vector v) {
            const Ints magnitude = bits(v) & 0x7fffffff;
            max = magnitude > max ? magnitude : max;
        });
        int32_t top = 0;
        for (int lane = 0; lane < LANES; lane++) top = std::max<int32_t>(top, max[lane]);
        float largest;
        std::memcpy(&largest, &top, 4);
        const bool finite = largest < INFINITE;
        const float factor = finite && largest > 0.0f && 127.0f / largest < INFINITE ? 127.0f / largest : 0.0f;
        typedef Quantum Quanta __attribute__((vector_size(LANES * sizeof(Quantum))));
        char* bytes = reinterpret_cast<char*>(to);
        each_vector(x, in, [&](int64_t i, Vector v) {
            const Vector y = finite ? v * factor : Vector{};
            const Ints rounded = bits(y + 12582912.0f) - (0x4b400000 - OFFSET);
            const Quanta quanta = __builtin_convertvector(rounded, Quanta);
            std::memcpy(bytes + i * int64_t(sizeof(Quantum)), &quanta, sizeof(quanta));
        });
        return finite ? largest / 127.0f : NOT_A_NUMBER;
    }

    // Calls f(i, vector at i); the last vector is padded with zeros.
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
