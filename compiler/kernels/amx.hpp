// Products of int8 and bfloat16 in the tile registers of Intel's AMX. A register has 16 rows of 64 bytes.
#pragma once

#include "multiplication.hpp"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__AVX512VNNI__) && defined(__linux__)
#define ZOO_AMX 1
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

#if defined(ZOO_AMX)

constexpr int64_t AMX_ROWS = 32;    // rows of a block: two registers of rows, times two of columns
constexpr int64_t AMX_GROUPS = 16;  // groups per instruction; the depth of a matrix is a multiple of it

// Whether the system lets this process use the tile registers.
inline bool amx_is_available() {
    constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
    static const bool available = syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    return available;
}

// The tile registers of this thread. Registers 0 to 3 contain sums, 4 and 5 rows, 6 and 7 columns.
class TileRegisters {
  public:
    ~TileRegisters() {
        if (rows) _tile_release();
    }

    // Prepares the registers for blocks of this number of rows.
    void configure(int64_t block_rows) {
        if (rows == block_rows) return;
        rows = block_rows;
        struct alignas(64) {
            uint8_t palette = 1, reserved[15] = {};
            uint16_t row_bytes[16] = {};
            uint8_t rows[16] = {};
        } layout;
        const int64_t first = std::min<int64_t>(rows, 16), second = rows - first;
        const int64_t counts[8] = {first, first, second, second, first, second, AMX_GROUPS, AMX_GROUPS};
        for (int i = 0; i < 8; i++) layout.rows[i] = uint8_t(counts[i]), layout.row_bytes[i] = counts[i] ? 64 : 0;
        asm volatile("" ::"r"(&layout) : "memory");  // some compilers believe that only the first bytes are read
        _tile_loadconfig(&layout);
    }

    // Computes the sums of a block of rows and a panel: `sums[i][j]` are those of 16 rows and 16 columns. Prefetches the
    // memory at `prefetch_from`, `lines` cache lines for each 16 groups.
    template <class T>
    void multiply(const typename T::Element* a, int64_t stride, const typename T::Stored* panel, int64_t depth,
                  typename T::Sum (&sums)[2][2][16], const char* prefetch_from, int64_t lines) const {
        // The intrinsics do not tell the compiler which memory they read.
        asm volatile("" ::: "memory");
        if (rows > 16) multiply<T, true>(a, stride, panel, depth, prefetch_from, lines);
        else multiply<T, false>(a, stride, panel, depth, prefetch_from, lines);
        _tile_stored(0, sums[0][0], 64);
        _tile_stored(1, sums[0][1], 64);
        if (rows > 16) {
            _tile_stored(2, sums[1][0], 64);
            _tile_stored(3, sums[1][1], 64);
        }
        asm volatile("" ::: "memory");
    }

  private:
    int64_t rows = 0;

    template <class T, bool TWO>
    static void multiply(const typename T::Element* a, int64_t stride, const typename T::Stored* panel, int64_t depth,
                         const char* prefetch_from, int64_t lines) {
        constexpr int64_t BYTES = 2 * LINE;  // of a group in a panel
        const char* columns = reinterpret_cast<const char*>(panel);
        _tile_zero(0);
        _tile_zero(1);
        if constexpr (TWO) {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t i = 0; i < depth; i += AMX_GROUPS, columns += AMX_GROUPS * BYTES) {
            for (int64_t line = 0; line < lines; line++, prefetch_from += LINE) __builtin_prefetch(prefetch_from);
            _tile_loadd(6, columns, BYTES);
            _tile_loadd(7, columns + LINE, BYTES);
            _tile_loadd(4, a + i, stride * 4);
            if constexpr (TWO) _tile_loadd(5, a + 16 * stride + i, stride * 4);
            if constexpr (T::TYPE == INT8) {
                _tile_dpbusd(0, 4, 6);
                _tile_dpbusd(1, 4, 7);
                if constexpr (TWO) {
                    _tile_dpbusd(2, 5, 6);
                    _tile_dpbusd(3, 5, 7);
                }
            } else {
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                if constexpr (TWO) {
                    _tile_dpbf16ps(2, 5, 6);
                    _tile_dpbf16ps(3, 5, 7);
                }
            }
        }
    }
};

#else

constexpr int64_t AMX_GROUPS = 1;

#endif

}  // namespace
