// Checks the kernels' products on the processor that it is compiled for. `tests/compiler/test_processors.py` runs it, if
// necessary in an emulator. It compares them with sums in double precision, and requires that a row does not depend on other rows.
#include "packing.hpp"
#include "product.hpp"

#include <cstdio>
#include <random>
#include <vector>

namespace {

std::mt19937 generator(1);
float random_number() { return std::normal_distribution<float>()(generator); }

int fail(const char* problem, int64_t rows, int64_t in, int64_t out, int64_t type) {
    std::printf("%s: %d rows, %d inputs, %d outputs, type %d\n", problem, int(rows), int(in), int(out), int(type));
    return 1;
}

// Returns the product of some rows, computed by the kernels.
std::vector<float> multiplied(const Matrix& m, const float* x, int64_t rows) {
    RowConverter convert;
    std::vector<float> result(size_t(rows * m.out));
    convert(m, Rows<Float32>{x, m.in, rows, nullptr}, [&](const auto& converted) {
        product(m, converted, 0, m.panels, Target{result.data(), m.out, false});
    });
    return result;
}

float rounded(float x) { return as_float(uint32_t(BFloat16::round(splat(x))[0]) << 16); }

int check(int64_t rows, int64_t in, int64_t out, MatrixType type) {
    std::vector<float> x(size_t(rows * in)), weights(size_t(in * out)), bias(static_cast<size_t>(out));
    std::vector<int8_t> integers(weights.size());
    std::vector<float> scales(size_t(out), 0.25f);
    for (float& each : bias) each = random_number();
    for (size_t i = 0; i < weights.size(); i++) {
        integers[i] = int8_t(generator() % 255 - 127);
        weights[i] = type == INT8 ? float(integers[i]) * 0.25f : random_number();
        if (type == BFLOAT16) weights[i] = rounded(weights[i]);
    }
    for (float& each : x) each = type == INT8 ? float(generator() % 255) - 127.0f : random_number();
    for (int64_t row = 0; row < rows; row++) x[size_t(row * in)] = row % 2 ? 127.0f : -127.0f;  // so the scale is 1
    int64_t size = 0;
    zoo_matrix_bytes(in, out, type, &size);
    Block<char> memory(size);
    const int status = type == INT8
        ? zoo_matrix_int8(integers.data(), scales.data(), in, out, out, 1, bias.data(), memory.data)
        : zoo_matrix(weights.data(), in, out, out, 1, bias.data(), type, memory.data);
    if (status != DONE) return fail("could not pack", rows, in, out, type);
    const Matrix& m = *reinterpret_cast<const Matrix*>(memory.data);
    const std::vector<float> result = multiplied(m, x.data(), rows);
    for (int64_t row = 0; row < rows; row++) {
        const float* numbers = x.data() + row * in;
        const std::vector<float> alone = multiplied(m, numbers, 1);
        if (std::memcmp(alone.data(), result.data() + row * out, size_t(out) * sizeof(float)))
            return fail("a row depends on other rows", rows, in, out, type);
        for (int64_t column = 0; column < out; column++) {
            double expected = bias[size_t(column)], magnitude = std::abs(expected);
            for (int64_t i = 0; i < in; i++) {
                const double term = double(type == BFLOAT16 ? rounded(numbers[i]) : numbers[i])
                    * weights[size_t(i * out + column)];
                expected += term, magnitude += std::abs(term);
            }
            const double error = std::abs(double(result[size_t(row * out + column)]) - expected);
            if (!(error <= 1e-5 * magnitude)) return fail("wrong sum", rows, in, out, type);
        }
    }
    return 0;
}

}  // namespace

int main() {
    for (const MatrixType type : {FLOAT32, BFLOAT16, INT8})
        for (const auto& [in, out] : {std::pair{1, 1}, {5, 7}, {37, 45}, {64, 130}, {520, 33}})
            for (int rows = 1; rows <= 40; rows += rows < 14 ? 1 : 13)
                if (check(rows, in, out, type)) return 1;
    float ones[LANES] = {};
    for (int lane = 0; lane < LANES; lane++) {
        ones[lane] = 1.0f;
        if (!any(load(ones) > 0.5f) || any(load(ones) > 1.5f)) return std::printf("`any` is wrong\n"), 1;
        ones[lane] = 0.0f;
        const float x = float(lane) * 7.0f - 20.0f, e = exponential(splat(x))[lane];
        if (!(std::abs(e / std::exp(double(x)) - 1.0) < 3e-7)) return std::printf("e^%g is wrong\n", double(x)), 1;
    }
    std::printf("checked\n");
}
