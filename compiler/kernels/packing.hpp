// Functions that pack matrices. Python calls them.
#pragma once

#include "matrix.hpp"

namespace {

// Exception for an opcode that the kernels do not implement.
struct UnknownInstruction {};

// Calls f and returns a Status, because C++ exceptions must not reach Python.
template <class F>
int status_of(F f) {
    try {
        return f(), DONE;
    } catch (const std::out_of_range&) {
        return OUT_OF_RANGE;
    } catch (const std::length_error&) {
        return TOO_LARGE;
    } catch (const UnknownInstruction&) {
        return UNKNOWN;
    } catch (const std::exception&) {
        return NO_MEMORY;
    }
}

}  // namespace

extern "C" {

int zoo_matrix_bytes(int64_t in, int64_t out, int64_t type, int64_t* result) {
    return status_of([&] {
        *result = matrix_head(in, out, MatrixType(type)).size();
    });
}

int zoo_matrix(const float* values, int64_t in, int64_t out, int64_t in_stride, int64_t out_stride, const float* bias,
               int64_t type, void* to) {
    return status_of([&] {
        Matrix& m = *start_matrix(to, in, out, MatrixType(type), bias);
        if (type == FLOAT32) pack<Float32>(values, m, in_stride, out_stride, [](float x) { return x; });
        else if (type == BFLOAT16)
            pack<BFloat16>(values, m, in_stride, out_stride, [](float x) {
                return uint16_t(BFloat16::round(splat(x))[0]);
            });
        else throw std::out_of_range("type");
    });
}

int zoo_matrix_int8(const int8_t* values, const float* scales, int64_t in, int64_t out, int64_t in_stride,
                    int64_t out_stride, const float* bias, void* to) {
    return status_of([&] {
        Matrix& m = *start_matrix(to, in, out, INT8, bias);
        pack<Int8>(values, m, in_stride, out_stride, [](int8_t x) { return x; });
        float* packed_scales = const_cast<float*>(m.scales());
        int32_t* offsets = const_cast<int32_t*>(m.offsets());
        for (int64_t column = 0; column < m.columns(); column++) {
            int32_t all = 0;
            for (int64_t row = 0; row < in && column < out; row++) all += values[row * in_stride + column * out_stride];
            offsets[column] = -Int8::OFFSET * all;
            packed_scales[column] = column < out ? scales[column] : 0.0f;
        }
    });
}

}  // extern "C"
