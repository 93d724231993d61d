// Packed matrices. Packing sorts a matrix into panels of 2 vectors of columns, so that a product reads it sequentially.
#pragma once

#include "amx.hpp"

#include <algorithm>
#include <new>
#include <stdexcept>

namespace {

constexpr int PANEL = 2 * LANES;

// Calls f with the type of matrix (Float32, BFloat16 or Int8) as argument.
template <class F>
inline auto with_type(MatrixType type, F f) {
    switch (type) {
        case FLOAT32: return f(Float32());
        case BFLOAT16: return f(BFloat16());
        case INT8: return f(Int8());
    }
    throw std::length_error("type");
}

// A packed matrix. Its arrays follow it in memory, without pointers, so that it can be stored in a file: biases; for
// 8-bit integers, scales and offsets; then the panels. All but the panels have one element per column.
struct alignas(LINE) Matrix {
    int64_t in, out, depth, panels;  // depth: number of groups of rows
    MatrixType type;

    int64_t columns() const { return panels * PANEL; }
    const float* bias() const { return reinterpret_cast<const float*>(this + 1); }
    const float* scales() const { return bias() + columns(); }
    const int32_t* offsets() const {  // initial values of the sums
        return reinterpret_cast<const int32_t*>(scales() + columns());
    }
    const char* data() const { return reinterpret_cast<const char*>(bias() + columns() * (type == INT8 ? 3 : 1)); }
    int64_t group_bytes() const { return type == INT8 ? Int8::GROUP : 4; }
    int64_t size() const { return data() + columns() * depth * group_bytes() - reinterpret_cast<const char*>(this); }
};

// Returns the head of a packed matrix.
Matrix matrix_head(int64_t in, int64_t out, MatrixType type) {
    if (in < 0 || out < 0 || in > (type == INT8 ? MAX_INT8_ROWS : 1 << 30) || out > (1 << 30))
        throw std::length_error("matrix");
    const int64_t group = with_type(type, [](auto t) { return decltype(t)::GROUP; });
    const int64_t depth = round_up((in + group - 1) / group, type == FLOAT32 ? 1 : AMX_GROUPS);
    return {in, out, depth, (out + PANEL - 1) / PANEL, type};
}

// Writes the head and the biases of a packed matrix.
Matrix* start_matrix(void* to, int64_t in, int64_t out, MatrixType type, const float* bias) {
    Matrix* m = new (to) Matrix(matrix_head(in, out, type));
    float* biases = const_cast<float*>(m->bias());
    for (int64_t i = 0; i < m->columns(); i++) biases[i] = bias && i < out ? bias[i] : 0.0f;
    return m;
}

// Copies a matrix into the panels of a packed one, padded with zeros. `convert` changes the type of an element.
template <class T, class V, class F>
void pack(const V* from, Matrix& m, int64_t in_stride, int64_t out_stride, F convert) {
    typedef typename T::Stored Stored;
    Stored* to = reinterpret_cast<Stored*>(const_cast<char*>(m.data()));
    for (int64_t panel = 0; panel < m.panels; panel++)
        for (int64_t group = 0; group < m.depth; group++)
            for (int64_t column = panel * PANEL; column < (panel + 1) * PANEL; column++)
                for (int64_t row = group * T::GROUP; row < (group + 1) * T::GROUP; row++)
                    *to++ = row < m.in && column < m.out ? convert(from[row * in_stride + column * out_stride])
                                                         : Stored(0);
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
        Block<char> memory(matrix_head(m.in, count, m.type).size());
        Matrix* packed = start_matrix(memory.data, m.in, count, m.type, nullptr);
        char* to = const_cast<char*>(packed->data());
        float *bias = const_cast<float*>(packed->bias()), *scales = const_cast<float*>(packed->scales());
        int32_t* offsets = const_cast<int32_t*>(packed->offsets());
        for (int64_t i = 0; i < packed->columns(); i++) {
            const int64_t column = chosen[std::min(i, count - 1)];  // the padding repeats the last one, and is not used
            copy(columns.data, 1, column * bytes, to, PANEL, panel_offset(i));
            bias[i] = m.bias()[column];
            if (m.type == INT8) scales[i] = m.scales()[column], offsets[i] = m.offsets()[column];
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
        if (m.type == INT8) copy_groups<Int8::GROUP>(from, from_step, to, to_step, m.depth);
        else copy_groups<4>(from, from_step, to, to_step, m.depth);
    }
};

}  // namespace
