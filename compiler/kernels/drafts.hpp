// Draft tokens for speculative decoding in greedy search. One decoder step verifies several of them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace {

// Last tokens of a hypothesis, oldest first. -1 stands for tokens before the first.
struct Context {
    std::array<int64_t, 4> tokens = {-1, -1, -1, -1};

    void push(int64_t token) {
        std::move(tokens.begin() + 1, tokens.end(), tokens.begin());
        tokens.back() = token;
    }
};

// Table of the n-grams that searches have produced. Like a branch predictor, it counts how often the same token has
// followed the same context. Another token, or another context in the same entry, lowers the counter, and replaces the
// token if the counter is 0. Threads share the table without locks: a wrong draft costs time, but changes no result.
class NGrams {
  public:
    // Returns the token that probably follows, or -1. A longer context takes precedence.
    int64_t next(const Context& context) const {
        for (const size_t order : ORDERS) {
            const uint64_t key = hash(context, order), entry = entries[key % SIZE].load(std::memory_order_relaxed);
            if (entry >> COUNT_BITS == tag(key, entry_token(entry)) && (entry & MAX_COUNT) >= MIN_COUNT)
                return entry_token(entry);
        }
        return -1;
    }

    void add(const Context& context, int64_t token) {
        for (const size_t order : ORDERS) {
            const uint64_t key = hash(context, order), expected = tag(key, token) << COUNT_BITS;
            std::atomic<uint64_t>& entry = entries[key % SIZE];
            const uint64_t old = entry.load(std::memory_order_relaxed), count = old & MAX_COUNT;
            uint64_t changed = old - 1;
            if (old - count == expected) changed = expected | std::min(count + 1, MAX_COUNT);
            else if (count <= 1) changed = expected | 1;
            entry.store(changed, std::memory_order_relaxed);
        }
    }

  private:
    static constexpr size_t SIZE = 1 << 16, ORDERS[] = {4, 2};
    static constexpr uint64_t MIN_COUNT = 2, MAX_COUNT = 3, COUNT_BITS = 2, TOKEN_BITS = 30;
    // Bits of the context's hash, the token, and the counter.
    std::vector<std::atomic<uint64_t>> entries = std::vector<std::atomic<uint64_t>>(SIZE);

    static uint64_t hash(const Context& context, size_t order) {
        uint64_t h = order;
        for (size_t i = context.tokens.size() - order; i < context.tokens.size(); i++) {
            h = (h ^ uint64_t(context.tokens[i])) * 0x9E3779B97F4A7C15;
            h ^= h >> 32;
        }
        return h;
    }
    static uint64_t tag(uint64_t key, int64_t token) {
        return key >> (COUNT_BITS + TOKEN_BITS) << TOKEN_BITS | uint64_t(token);
    }
    static int64_t entry_token(uint64_t entry) { return int64_t(entry >> COUNT_BITS & ((1 << TOKEN_BITS) - 1)); }
};

}  // namespace
