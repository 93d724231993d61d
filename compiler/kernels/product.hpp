// Products of rows with a packed matrix. A tile is the product of some rows and one panel, with its sums in registers.
#pragma once

#include "matrix.hpp"

namespace {

constexpr int TILE = LANES == 16 ? 12 : 6;  // rows of a tile: its sums fill the vector registers

// Rows of groups of elements. Rows of 8-bit integers have a scale each.
template <class T>
struct Rows {
    const typename T::Element* data;
    int64_t stride, count;
    const float* scales;

    float scale(int64_t row) const { return scales ? scales[row] : 1.0f; }
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

// Prefetches memory starting at `from`. For a SINGLE_TILE per panel, it prefetches as many bytes as the panel has,
// otherwise one cache line every 2^log2_interval groups.
struct Prefetch {
    const char* from;
    int log2_interval;

    template <bool SINGLE_TILE, int64_t BYTES>
    void operator()(int64_t group) const {
        if constexpr (SINGLE_TILE) {
            for (int64_t line = 0; line < BYTES; line += LINE) __builtin_prefetch(from + group * BYTES + line);
        } else if (!(group & ((1 << log2_interval) - 1))) {
            __builtin_prefetch(from + (group >> log2_interval) * LINE, 0, 2);
        }
    }
};

#if defined(__ARM_FEATURE_MATMUL_INT8)
// Multiplies R rows of 8-bit integers with a panel. An instruction multiplies two rows by two columns.
template <class T, int R, bool SINGLE_TILE, std::enable_if_t<T::TYPE == INT8, int> = 0>
inline void tile(const int64_t* a, int64_t stride, const int8_t* panel, int64_t depth, Ints (&sums)[R][2],
                 const Prefetch& prefetch) {
    constexpr int PAIRS = (R + 1) / 2, QUARTERS = PANEL / 2;
    int32x4_t squares[PAIRS][QUARTERS] = {};  // sums of two rows and two columns
    for (int64_t i = 0; i < depth; i++, panel += PANEL * Int8::GROUP) {
        prefetch.template operator()<SINGLE_TILE, PANEL * Int8::GROUP>(i);
        for (int pair = 0; pair < PAIRS; pair++) {
            const int64_t *first = a + 2 * pair * stride + i, *second = 2 * pair + 1 < R ? first + stride : first;
            const int8x16_t x = int8x16_t(vcombine_s64(vcreate_s64(uint64_t(*first)), vcreate_s64(uint64_t(*second))));
            for (int q = 0; q < QUARTERS; q++)
                squares[pair][q] = vmmlaq_s32(squares[pair][q], x, vld1q_s8(panel + 16 * q));
        }
    }
    for (int r = 0; r < R; r++)
        for (int q = 0; q < QUARTERS; q++)
            for (int i = 0; i < 2; i++) sums[r][q / 2][q % 2 * 2 + i] += squares[r / 2][q][r % 2 * 2 + i];
}
template <class T, int R, bool SINGLE_TILE, std::enable_if_t<T::TYPE != INT8, int> = 0>
#else
template <class T, int R, bool SINGLE_TILE>
#endif
// Multiplies R rows with a panel, and adds the products to the sums.
inline void tile(const typename T::Element* a, int64_t stride, const typename T::Stored* panel, int64_t depth,
                 typename T::Sum (&sums)[R][2], const Prefetch& prefetch) {
    constexpr int64_t WIDTH = LANES * T::GROUP, BYTES = 2 * WIDTH * int64_t(sizeof(*panel));
    for (int64_t i = 0; i < depth; i++, panel += 2 * WIDTH) {
        prefetch.template operator()<SINGLE_TILE, BYTES>(i);
        const auto left = T::load_groups(panel), right = T::load_groups(panel + WIDTH);
#pragma GCC unroll 12
        for (int r = 0; r < R; r++) {
            const auto x = a[r * stride + i];
            sums[r][0] = T::add(sums[r][0], x, left);
            sums[r][1] = T::add(sums[r][1], x, right);
        }
    }
}

// Converts the sums of a panel to a part of a row of the result.
template <class T>
class PanelWriter {
  public:
    typename T::Sum initial[2];  // initial sums: biases, or for 8-bit integers the offsets

    PanelWriter(const Matrix& m, int64_t panel) : columns(m.out - panel * PANEL) {
        for (int i = 0; i < 2; i++) {
            const int64_t column = panel * PANEL + i * LANES;
            bias[i] = load(m.bias() + column);
            if constexpr (T::TYPE == INT8) {
                scales[i] = load(m.scales() + column);
                initial[i] = *reinterpret_cast<const LooseInts*>(m.offsets() + column);
            } else {
                initial[i] = bias[i];
            }
        }
    }

    // Writes the sums of a row without the padding columns. `row_scale` is the scale of a row of 8-bit integers.
    void write(typename T::Sum left, typename T::Sum right, float row_scale, float* to, bool relu) const {
        Vector x = result(left, 0, row_scale), y = result(right, 1, row_scale);
        if (relu) x = ::relu(x), y = ::relu(y);
        if (columns >= PANEL) {
            store(to, x), store(to + LANES, y);
        } else {
            float both[PANEL];
            store(both, x), store(both + LANES, y);
            std::memcpy(to, both, size_t(columns) * sizeof(float));
        }
    }

  private:
    int64_t columns;
    Vector bias[2], scales[2];

    Vector result(typename T::Sum sums, int i, float row_scale) const {
        if constexpr (T::TYPE == INT8) return __builtin_convertvector(sums, Vector) * row_scale * scales[i] + bias[i];
        else return sums;
    }
};

// A part of a product: the rows starting at `row`, and a panel.
struct Part {
    int64_t row, panel;
    Prefetch prefetch;
};

template <class T>
inline const typename T::Stored* panel_of(const Matrix& m, int64_t panel) {
    return reinterpret_cast<const typename T::Stored*>(m.data()) + panel * m.depth * PANEL * T::GROUP;
}

template <class T, int R, bool SINGLE_TILE>
void compute(const Matrix& m, const Rows<T>& a, const Part& part, const Target& c) {
    const PanelWriter<T> panel(m, part.panel);
    typename T::Sum sums[R][2];
    for (int r = 0; r < R; r++) sums[r][0] = panel.initial[0], sums[r][1] = panel.initial[1];
    tile<T, R, SINGLE_TILE>(a.data + part.row * a.stride, a.stride, panel_of<T>(m, part.panel), m.depth, sums,
        part.prefetch);
    for (int r = 0; r < R; r++)
        panel.write(sums[r][0], sums[r][1], a.scale(part.row + r), c.data + (part.row + r) * c.stride, c.relu);
}

template <class T, bool SINGLE_TILE, int R = TILE>
void compute(int64_t rows, const Matrix& m, const Rows<T>& a, const Part& part, const Target& c) {
    if (rows == R) return compute<T, R, SINGLE_TILE>(m, a, part, c);
    if constexpr (R > 1) compute<T, SINGLE_TILE, R - 1>(rows, m, a, part, c);
}

// Calls f(first row, number of rows) for chunks of rows that fit into the L2 cache together with two panels.
template <class T, class F>
void for_each_chunk(const Matrix& m, const Rows<T>& a, F f) {
    constexpr int64_t MAX_CACHED_BYTES = 384 << 10;
    const int64_t bytes = std::max<int64_t>(m.depth, 1) * int64_t(sizeof(typename T::Element));
    const int64_t chunk = std::max<int64_t>(TILE, MAX_CACHED_BYTES / bytes / TILE * TILE);
    for (int64_t row = 0; row < a.count; row += chunk) f(row, std::min(chunk, a.count - row));
}

#if defined(ZOO_AMX)
template <class T>
void product_amx(const Matrix& m, const Rows<T>& a, int64_t first, int64_t last, const Target& c) {
    TileRegisters registers;
    alignas(LINE) typename T::Sum sums[2][2][16];
    const int64_t bytes = m.depth * PANEL * m.group_bytes();  // size of a panel
    for_each_chunk(m, a, [&](int64_t row, int64_t rows) {
        // All blocks have the same number of rows, so that the registers are configured once. They may overlap.
        const int64_t blocks = (rows + AMX_ROWS - 1) / AMX_ROWS, block_rows = (rows + blocks - 1) / blocks;
        const int64_t lines = (2 * AMX_GROUPS + blocks - 1) / blocks;  // to prefetch the next panel
        registers.configure(block_rows);
        for (int64_t i = first; i < last; i++) {
            const typename T::Stored* data = panel_of<T>(m, i);
            const char* next = reinterpret_cast<const char*>(data) + (blocks == 1 ? 4096 : bytes);
            for (int64_t block = 0; block < blocks; block++) {
                const int64_t start = row + rows * block / blocks;
                registers.multiply<T>(a.data + start * a.stride, a.stride, data, m.depth, sums, next, lines);
                next += lines * LINE * (m.depth / AMX_GROUPS);
                const PanelWriter<T> panel(m, i);
                for (int64_t r = 0; r < block_rows; r++) {
                    const auto& both = sums[r / 16];
                    panel.write(panel.initial[0] + both[0][r % 16], panel.initial[1] + both[1][r % 16],
                        a.scale(start + r), c.data + (start + r) * c.stride + (i - first) * PANEL, c.relu);
                }
            }
        }
    });
}
#endif

// Computes c = a times the panels from `first` to `last`; the first panel's columns go to `c.data`.
template <class T>
void product(const Matrix& m, const Rows<T>& a, int64_t first, int64_t last, const Target& c) {
#if defined(ZOO_AMX)
    if constexpr (T::TYPE != FLOAT32)
        if (amx_is_available()) return product_amx(m, a, first, last, c);
#endif
    const int64_t bytes = m.depth * PANEL * m.group_bytes();  // size of a panel
    for_each_chunk(m, a, [&](int64_t row, int64_t rows) {
        const int64_t tiles = (rows + TILE - 1) / TILE;
        // All tiles together prefetch the next panel.
        const int log2_interval = tiles < 4 ? 0 : tiles < 8 ? 1 : 2;
        for (int64_t panel = first; panel < last; panel++) {
            const Target to{c.data + (panel - first) * PANEL, c.stride, c.relu};
            const char* data = m.data() + panel * bytes;
            for (int64_t i = 0; i < tiles; i++) {
                const int64_t start = rows * i / tiles, count = rows * (i + 1) / tiles - start;
                Part part{row + start, panel, {data, log2_interval}};
                if (tiles == 1) {
                    part.prefetch.from += 4096;
                    compute<T, true>(count, m, a, part, to);
                } else {
                    part.prefetch.from += bytes + i * (m.depth >> log2_interval) * LINE;
                    compute<T, false>(count, m, a, part, to);
                }
            }
        }
    });
}

// Converts rows of floats to the type of a matrix.
class RowConverter {
  public:
    // Calls f with the rows in the type of the matrix.
    template <class F>
    void operator()(const Matrix& m, const Rows<Float32>& x, F f) {
        with_type(m.type, [&](auto type) {
            typedef decltype(type) T;
            if constexpr (T::TYPE == FLOAT32) f(x);
            else f(convert<T>(m, x));
        });
    }

  private:
    Block<char> elements;
    Block<float> scales;

    template <class T>
    Rows<T> convert(const Matrix& m, const Rows<Float32>& x) {
        typedef typename T::Element Element;
        // Whole vectors are written, so each row has a spare vector at its end.
        const int64_t stride = round_up(m.depth, LANES) + LANES, bytes = stride * int64_t(sizeof(Element));
        char* to = elements.grow(x.count * bytes);
        float* scale = scales.grow(x.count);
        for (int64_t row = 0; row < x.count; row++) {
            char* start = to + row * bytes;
            if (m.depth * T::GROUP > m.in) std::memset(start, 0, size_t(bytes));  // so that no padding is NaN
            if constexpr (T::TYPE == INT8) scale[row] = quantise(x.data + row * x.stride, m.in, start);
            else round(x.data + row * x.stride, m.in, start);
        }
        return {reinterpret_cast<const Element*>(to), stride, x.count, scale};
    }

    static void round(const float* x, int64_t in, char* to) {
        typedef uint16_t Narrow __attribute__((vector_size(LANES * 2)));
        each_vector(x, in, [&](int64_t i, Vector v) {
            const Narrow rounded = __builtin_convertvector(BFloat16::round(v), Narrow);
            std::memcpy(to + i * 2, &rounded, sizeof(rounded));
        });
    }

    // Quantises a row to 8 bits with a scale (max|x| / 127), rounding halves to even, as torch does, and returns the
    // scale. A row that contains infinity or NaN becomes zeros, with the scale NaN.
    static float quantise(const float* x, int64_t in, char* to) {
        // The bits of magnitudes, read as integers, have the same order as the numbers, and NaN is the largest.
        Ints max{};
        each_vector(x, in, [&](int64_t, Vector v) {
            const Ints magnitude = bits(v) & 0x7fffffff;
            max = magnitude > max ? magnitude : max;
        });
        int32_t top = 0;
        for (int lane = 0; lane < LANES; lane++) top = std::max<int32_t>(top, max[lane]);
        const float largest = as_float(uint32_t(top));
        const bool finite = largest < INFINITE;
        const float factor = finite && largest > 0.0f && 127.0f / largest < INFINITE ? 127.0f / largest : 0.0f;
        typedef Int8::Quantum Quanta __attribute__((vector_size(LANES * sizeof(Int8::Quantum))));
        each_vector(x, in, [&](int64_t i, Vector v) {
            const Vector y = finite ? v * factor : Vector{};
            const Ints rounded = bits(y + 12582912.0f) - (0x4b400000 - Int8::OFFSET);
            const Quanta quanta = __builtin_convertvector(rounded, Quanta);
            std::memcpy(to + i * int64_t(sizeof(Int8::Quantum)), &quanta, sizeof(quanta));
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
