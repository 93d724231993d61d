// Types of matrices (MatrixType) and their multiplication. Rows and matrices consist of groups: neighbouring elements of
// a row, or of a column, that one instruction multiplies and adds.
#pragma once

#include "abi.hpp"
#include "simd.hpp"

namespace {

// Each struct defines four types. `Element` is a group of a row. `Stored` is one element of a matrix. `Sum` is a vector
// of sums. `Groups` is a vector of groups of a matrix.
struct Float32 {
    static constexpr MatrixType TYPE = FLOAT32;
    static constexpr int GROUP = 1;
    typedef float Element, Stored;
    typedef Vector Sum, Groups;
    static Groups load_groups(const float* p) { return *reinterpret_cast<const Vector*>(p); }
    static Sum add(Sum sum, float x, Groups y) { return multiply_add(splat(x), y, sum); }
};

// Products of bfloat16 are added in float32.
struct BFloat16 {
    static constexpr MatrixType TYPE = BFLOAT16;
    static constexpr int GROUP = 2;
    typedef uint32_t Element;
    typedef uint16_t Stored;
    typedef Vector Sum;
#if defined(__AVX512BF16__) || defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
    typedef Bits Groups;
    static Groups load_groups(const uint16_t* p) { return *reinterpret_cast<const Bits*>(p); }
    static Sum add(Sum sum, uint32_t x, Groups y) {
#if defined(__AVX512BF16__)
        return Vector(_mm512_dpbf16_ps(__m512(sum), __m512bh(_mm512_set1_epi32(int32_t(x))), __m512bh(y)));
#else
        return Vector(vbfdotq_f32(float32x4_t(sum), bfloat16x8_t(vdupq_n_u32(x)), bfloat16x8_t(y)));
#endif
    }
#else
    struct Groups {
        Vector first, second;
    };
    static Groups load_groups(const uint16_t* p) {
        const Bits both = *reinterpret_cast<const Bits*>(p);
        return {reinterpret_cast<Vector>(both << 16), reinterpret_cast<Vector>(both & 0xffff0000u)};
    }
    static Sum add(Sum sum, uint32_t x, const Groups& y) {
        return multiply_add(splat(as_float(x & 0xffff0000u)), y.second, multiply_add(splat(as_float(x << 16)), y.first,
            sum));
    }
#endif

    // Returns the bits of numbers rounded to bfloat16, halves to even, in the lower 16 bits. NaN stays NaN.
    static Bits round(Vector v) {
        const Bits b = reinterpret_cast<Bits>(v);
        return v != v ? Bits{} + 0x7fc0u : (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
    }
};

// 8-bit integers. Their sums are exact.
struct Int8 {
    static constexpr MatrixType TYPE = INT8;
    typedef int8_t Stored;
    typedef Ints Sum;
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
    // This instruction needs unsigned elements in the row. They are offset by 128; `Matrix::offsets` corrects the sums.
    static constexpr int GROUP = 4, OFFSET = 128;
    typedef uint8_t Quantum;  // element of a row
    typedef int32_t Element;
    typedef Ints Groups;
    static Groups load_groups(const int8_t* p) { return *reinterpret_cast<const Ints*>(p); }
    static Sum add(Sum sum, int32_t x, Groups y) {
#if defined(__AVX512VNNI__)
        return Ints(_mm512_dpbusd_epi32(__m512i(sum), _mm512_set1_epi32(x), __m512i(y)));
#else
        return Ints(_mm256_dpbusd_avx_epi32(__m256i(sum), _mm256_set1_epi32(x), __m256i(y)));
#endif
    }
#elif defined(__AVX512BW__) || (defined(__AVX2__) && !defined(__AVX512F__)) || (defined(__SSE2__) && !defined(__AVX__))
    static constexpr int GROUP = 2, OFFSET = 0;
    typedef int16_t Quantum;
    typedef int32_t Element;
    typedef int16_t Groups __attribute__((vector_size(LANES * 4), may_alias));
    static Groups load_groups(const int8_t* p) {
        typedef int8_t Narrow __attribute__((vector_size(LANES * 2), may_alias));
        return __builtin_convertvector(*reinterpret_cast<const Narrow*>(p), Groups);
    }
    static Sum add(Sum sum, int32_t x, Groups y) {
#if defined(__AVX512BW__)
        return sum + Ints(_mm512_madd_epi16(_mm512_set1_epi32(x), __m512i(y)));
#elif defined(__AVX2__)
        return sum + Ints(_mm256_madd_epi16(_mm256_set1_epi32(x), __m256i(y)));
#else
        return sum + Ints(_mm_madd_epi16(_mm_set1_epi32(x), __m128i(y)));
#endif
    }
#elif defined(__ARM_FEATURE_MATMUL_INT8)
    // One instruction multiplies 2 rows by 2 columns of 8 elements (`tile` in product.hpp).
    static constexpr int GROUP = 8, OFFSET = 0;
    typedef int8_t Quantum;
    typedef int64_t Element;
#elif defined(__ARM_FEATURE_DOTPROD)
    static constexpr int GROUP = 4, OFFSET = 0;
    typedef int8_t Quantum;
    typedef int32_t Element;
    typedef int8x16_t Groups;
    static Groups load_groups(const int8_t* p) { return vld1q_s8(p); }
    static Sum add(Sum sum, int32_t x, Groups y) {
        return Ints(vdotq_s32(int32x4_t(sum), int8x16_t(vdupq_n_s32(x)), y));
    }
#else
    static constexpr int GROUP = 1, OFFSET = 0;
    typedef int32_t Quantum, Element;
    typedef Ints Groups;
    static Groups load_groups(const int8_t* p) {
        typedef int8_t Narrow __attribute__((vector_size(LANES), may_alias));
        return __builtin_convertvector(*reinterpret_cast<const Narrow*>(p), Groups);
    }
    static Sum add(Sum sum, int32_t x, Groups y) { return sum + x * y; }
#endif
};

}  // namespace
