// State of a search: for each sentence its memory, and the cached keys and values of its hypotheses.
#pragma once

#include "beam.hpp"
#include "simd.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

// Layout of the arrays of a sentence: the width of each array, and the width of all arrays before it.
struct Arrays {
    std::vector<int64_t> width, offset;
    std::vector<bool> transposed;
    int64_t keys = 0, others = 0;  // widths of all transposed arrays together, and of all others

    void set(int64_t n, const int32_t* widths) {
        width.assign(widths, widths + n), offset.assign(size_t(n), 0), transposed.assign(size_t(n), false);
    }
    void set_offsets(int64_t multiple) {
        keys = others = 0;
        for (size_t i = 0; i < width.size(); i++) {
            offset[i] = transposed[i] ? keys : others;
            (transposed[i] ? keys : others) += round_up(width[i], multiple);
        }
    }
};

// Pool of the memory of finished sentences, which avoids the page faults of fresh memory.
class BlockPool {
  public:
    Block<float> take(int64_t n) {
        for (Block<float>& block : blocks)
            if (n <= block.size && block.size <= 2 * n) {
                Block<float> found(std::move(block));
                block = std::move(blocks.back()), blocks.pop_back();
                kept -= found.size;
                return found;
            }
        return Block<float>(n);
    }
    void give(Block<float>&& block) noexcept {
        if (!block.size || kept + block.size > MAX_FLOATS || blocks.size() == blocks.capacity()) return;
        kept += block.size;
        blocks.push_back(std::move(block));
    }
    BlockPool() { blocks.reserve(256); }

  private:
    static constexpr int64_t MAX_FLOATS = 16 << 20;
    std::vector<Block<float>> blocks;
    int64_t kept = 0;
};
thread_local BlockPool block_pool;

// Sentence whose rows are its hypotheses, which share stored rows of earlier positions. For each hypothesis and
// position, `ancestry` contains the stored row of the key and value, so that selecting hypotheses copies indices only,
// and taking back positions only lowers their number.
struct Sentence {
    int64_t length = 0, padded = 0, rows = 1;
    int64_t k = 1;                  // number of tokens that each hypothesis reads in a step
    int64_t position = 0;           // number of positions of each hypothesis
    Block<float> memory;            // key arrays as [width, padded], others as [head, length, width of a head]
    Block<float> cache;             // [array, capacity, width]
    int64_t capacity = 0, used = 0; // number of stored rows
    int64_t max_positions = 0;      // positions that fit into `ancestry`
    std::vector<int32_t> ancestry;  // [rows, max_positions]
    std::unique_ptr<Beam> beam;     // null unless the kernels search
    std::unique_ptr<Shortlist> shortlist;  // null if the sentence may choose any token

    float* memory_array(const Arrays& arrays, int64_t array) const {
        const int64_t offset = arrays.offset[size_t(array)];
        return memory.data + (arrays.transposed[size_t(array)] ? offset * padded : arrays.keys * padded + offset * length);
    }
    float* cache_array(const Arrays& arrays, int64_t array) const {
        return cache.data + arrays.offset[size_t(array)] * capacity; }

    // Ancestry of hypotheses, of which the i-th one continues row parents[i].
    std::vector<int32_t> ancestry_after(const int64_t* parents, int64_t count) const {
        std::vector<int32_t> selected(size_t(count * max_positions));
        for (int64_t row = 0; row < count; row++) {
            const int64_t parent = parents[row];
            if (parent < 0 || parent >= rows) throw std::out_of_range("row");
            std::copy_n(ancestry.begin() + parent * max_positions, position, selected.begin() + row * max_positions);
        }
        return selected;
    }
    void replace_rows(std::vector<int32_t>&& selected, int64_t count) noexcept {
        ancestry.swap(selected), rows = count;
    }

    // Reserves stored rows for k more positions of each hypothesis, and enters them into the ancestry. The stored rows
    // of a hypothesis are consecutive.
    void add_positions(const Arrays& arrays) {
        if (used + rows * k > capacity) compact(arrays);
        if (position + k > max_positions) {
            const int64_t grown = std::max<int64_t>(round_up(position + k, 32), 2 * max_positions);
            std::vector<int32_t> copied(size_t(rows * grown));
            for (int64_t row = 0; row < rows; row++)
                std::copy_n(ancestry.begin() + row * max_positions, position, copied.begin() + row * grown);
            ancestry.swap(copied), max_positions = grown;
        }
        for (int64_t row = 0; row < rows; row++)
            for (int64_t i = 0; i < k; i++)
                ancestry[size_t(row * max_positions + position + i)] = int32_t(used + row * k + i);
    }

    // Removes stored rows that no hypothesis uses. Doubles the capacity if they and k more positions are more than half.
    void compact(const Arrays& arrays) {
        std::vector<int32_t> new_row(size_t(used), -1);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t t = 0; t < position; t++)
                new_row[size_t(ancestry[size_t(row * max_positions + t)])] = 0;
        int32_t alive = 0;
        for (int32_t& to : new_row)
            if (to == 0) to = alive++;
        const bool grow = 2 * (alive + rows * k) > capacity;
        const int64_t grown = grow ? std::max<int64_t>(2 * capacity, round_up(alive + rows * k, 16)) : capacity;
        Block<float> larger;
        if (grow) larger = block_pool.take(arrays.others * grown);
        float* to = grow ? larger.data : cache.data;
        for (size_t array = 0; array < arrays.width.size(); array++) {
            const int64_t width = round_up(arrays.width[array], LANES), offset = arrays.offset[array];
            for (int64_t row = 0; row < used; row++)
                if (new_row[size_t(row)] >= 0)
                    std::memmove(to + offset * grown + new_row[size_t(row)] * width,
                                 cache.data + offset * capacity + row * width, size_t(width) * sizeof(float));
        }
        if (grow) cache.swap(larger), block_pool.give(std::move(larger));
        capacity = grown, used = alive;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t t = 0; t < position; t++) {
                int32_t& row_index = ancestry[size_t(row * max_positions + t)];
                row_index = new_row[size_t(row_index)];
            }
    }
};

struct State {
    std::vector<Sentence> sentences;
    SearchResults results;  // of the last call

    ~State() { truncate(0); }

    int64_t rows() const {
        int64_t all = 0;
        for (const Sentence& s : sentences) all += s.rows;
        return all;
    }

    // Keeps some sentences. Row j of the i-th one continues from row parents[i, j] of the same sentence.
    void select(const int64_t* kept_sentences, int64_t kept, const int64_t* parents, int64_t beams) {
        std::vector<std::vector<int32_t>> selected;
        for (int64_t i = 0; i < kept; i++) {
            check_sentence(kept_sentences, i);
            selected.push_back(sentences[size_t(kept_sentences[i])].ancestry_after(parents + i * beams, beams));
        }
        keep(kept_sentences, kept);
        for (int64_t i = 0; i < kept; i++) sentences[size_t(i)].replace_rows(std::move(selected[size_t(i)]), beams);
    }

    // Keeps some sentences.
    void keep(const int64_t* kept_sentences, int64_t kept) {
        for (int64_t i = 0; i < kept; i++) check_sentence(kept_sentences, i);
        for (int64_t i = 0; i < kept; i++)
            if (kept_sentences[i] != i) sentences[size_t(i)] = std::move(sentences[size_t(kept_sentences[i])]);
        truncate(kept);
    }

    void join(State& other) {
        sentences.reserve(sentences.size() + other.sentences.size());
        for (Sentence& s : other.sentences) sentences.push_back(std::move(s));
        other.sentences.clear();
    }

  private:
    // Checks the i-th index of the sentences to keep. Indices must be ascending.
    void check_sentence(const int64_t* kept, int64_t i) const {
        if (kept[i] <= (i ? kept[i - 1] : -1) || kept[i] >= int64_t(sentences.size()))
            throw std::out_of_range("sentence");
    }

    // Returns the memory of dropped sentences to the pool. Moving a sentence swapped its blocks to the end.
    void truncate(int64_t kept) noexcept {
        for (size_t i = size_t(kept); i < sentences.size(); i++)
            block_pool.give(std::move(sentences[i].memory)), block_pool.give(std::move(sentences[i].cache));
        sentences.resize(size_t(kept));
    }
};

}  // namespace
