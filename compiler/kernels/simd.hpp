// Vectors of this processor's register width, in the vector extension of GCC and clang.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif
constexpr int64_t LINE = 64;  // bytes of a cache line
constexpr float INFINITE = std::numeric_limits<float>::infinity();
constexpr float NOT_A_NUMBER = std::numeric_limits<float>::quiet_NaN();

typedef float Vector __attribute__((vector_size(LANES * 4), may_alias));
typedef int32_t Ints __attribute__((vector_size(LANES * 4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4), may_alias));
typedef float LooseVector __attribute__((vector_size(LANES * 4), may_alias, aligned(4)));
typedef int32_t LooseInts __attribute__((vector_size(LANES * 4), may_alias, aligned(4)));

inline Vector load(const float* p) { return *reinterpret_cast<const LooseVector*>(p); }
inline void store(float* p, Vector v) { *reinterpret_cast<LooseVector*>(p) = v; }
inline Vector splat(float x) { return x - Vector{}; }
inline Ints bits(Vector v) { return reinterpret_cast<Ints>(v); }
inline float as_float(uint32_t bits) {
    float number;
    std::memcpy(&number, &bits, sizeof(number));
    return number;
}
inline Vector larger(Vector a, Vector b) { return a > b ? a : b; }  // b if a is NaN
inline Vector smaller(Vector a, Vector b) { return a > b ? b : a; }  // a if a is NaN
inline Vector relu(Vector v) { return v < 0.0f ? Vector{} : v; }     // NaN if v is NaN

inline int64_t round_up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// Returns x * y + sum, rounded once if the processor has such an instruction. Compilers must not choose where to fuse
// (FLAGS in library.py), because they choose differently for different numbers of rows.
inline float multiply_add(float x, float y, float sum) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fmaf(x, y, sum);
#else
    return x * y + sum;
#endif
}
inline Vector multiply_add(Vector x, Vector y, Vector sum) {
#if defined(__AVX512F__)
    return Vector(_mm512_fmadd_ps(__m512(x), __m512(y), __m512(sum)));
#elif defined(__FMA__)
    return Vector(_mm256_fmadd_ps(__m256(x), __m256(y), __m256(sum)));
#elif defined(__aarch64__)
    return Vector(vfmaq_f32(float32x4_t(sum), float32x4_t(x), float32x4_t(y)));
#else
    return x * y + sum;
#endif
}
inline Vector multiply_add(Vector x, float y, float sum) { return multiply_add(x, splat(y), splat(sum)); }

// Reduces a vector to one number, by combining its two halves repeatedly.
template <int N, class F>
inline float fold(const float* lanes, F f) {
    if constexpr (N == 1) {
        return lanes[0];
    } else {
        float half[N / 2];
        for (int i = 0; i < N / 2; i++) half[i] = f(lanes[i], lanes[i + N / 2]);
        return fold<N / 2>(half, f);
    }
}
inline float sum(Vector v) {
    float lanes[LANES];
    store(lanes, v);
    return fold<LANES>(lanes, [](float a, float b) { return a + b; });
}
inline float largest(Vector v) {
    float lanes[LANES];
    store(lanes, v);
    return fold<LANES>(lanes, [](float a, float b) { return a > b ? a : b; });
}

inline bool any(Ints mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask(reinterpret_cast<__m512i>(mask), reinterpret_cast<__m512i>(mask)) != 0;
#elif defined(__AVX__)
    return _mm256_movemask_ps(reinterpret_cast<__m256>(mask)) != 0;
#elif defined(__x86_64__)
    return _mm_movemask_ps(reinterpret_cast<__m128>(mask)) != 0;
#else
    int32_t all = 0;
    for (int i = 0; i < LANES; i++) all |= mask[i];
    return all != 0;
#endif
}

// e^x for x <= 88, with a relative error of 2e-7; about 1e-38 for all x below -87; NaN if x is NaN.
inline Vector exponential(Vector x) {
    const Vector round = splat(12582912.0f);  // adding it puts the rounded integer into the lowest bits
    x = x < -87.0f ? splat(-87.0f) : x;
    const Vector shifted = multiply_add(x, splat(1.442695022f), round), n = shifted - round;
    // log2(e) in two parts; the polynomial computes 2^r
    const Vector r = multiply_add(x, splat(1.925963033e-8f), multiply_add(x, splat(1.442695022f), -n));
    Vector p = multiply_add(r, 1.32647269e-3f, 9.67151266e-3f);
    for (const float coefficient : {5.55073374e-2f, 2.40222421e-1f, 6.93146978e-1f, 1.0f})
        p = multiply_add(p, r, splat(coefficient));
    // Multiply by the power of two: adding to the exponent bits would turn NaN into a number.
    return p * reinterpret_cast<Vector>((reinterpret_cast<Bits>(shifted) << 23) + 0x3f800000u);
}

// Uninitialised array that starts at a cache line. `grow` discards the contents.
template <class T>
struct Block {
    T* data = nullptr;
    int64_t size = 0;

    Block() = default;
    explicit Block(int64_t n) { grow(n); }
    Block(Block&& other) noexcept { swap(other); }
    Block& operator=(Block&& other) noexcept { swap(other); return *this; }
    Block(const Block&) = delete;
    ~Block() { std::free(data); }

    void swap(Block& other) noexcept { std::swap(data, other.data), std::swap(size, other.size); }
    T* grow(int64_t n, bool huge_pages = false) {
        if (n <= size) return data;
        if (n > (int64_t{1} << 46)) throw std::bad_alloc();
        std::free(data);
        data = nullptr, size = 0;
        const int64_t bytes = n * int64_t(sizeof(T)), page = int64_t{1} << 21;
        const int64_t unit = huge_pages && bytes >= page ? page : LINE;
        data = static_cast<T*>(std::aligned_alloc(size_t(unit), size_t(round_up(bytes, unit))));
        if (!data) throw std::bad_alloc();
#if defined(__linux__)
        if (unit == page) madvise(data, size_t(round_up(bytes, unit)), MADV_HUGEPAGE);
#endif
        size = n;
        return data;
    }
};

}  // namespace
