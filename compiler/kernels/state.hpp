// What a search keeps of its sentences: their memory, the keys and values of the pieces so far, and whose they are.
#pragma once

#include "simd.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace {

// Where the slots of a sentence lie: each has all that belong to the slots before it in front.
struct Slots {
    std::vector<int64_t> width, before;
    std::vector<bool> transposed;
    int64_t keys = 0, others = 0;  // widths of all transposed slots together, and of all others

    void set(int64_t n, const int32_t* widths) {
        width.assign(widths, widths + n), before.assign(size_t(n), 0), transposed.assign(size_t(n), false);
    }
    void place(int64_t multiple) {
        keys = others = 0;
        for (size_t i = 0; i < width.size(); i++) {
            before[i] = transposed[i] ? keys : others;
            (transposed[i] ? keys : others) += up(width[i], multiple);
        }
    }
};

// Memory of sentences that are done, kept for the next: fresh memory costs a fault a page.
class Spare {
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
        if (!block.size || kept + block.size > MOST || blocks.size() == blocks.capacity()) return;
        kept += block.size;
        blocks.push_back(std::move(block));
    }
    Spare() { blocks.reserve(256); }

  private:
    static constexpr int64_t MOST = 16 << 20;  // floats
    std::vector<Block<float>> blocks;
    int64_t kept = 0;
};
thread_local Spare spare;

// The rows of a sentence are its hypotheses. What they stored at earlier positions they share: `ancestry` tells in
// which stored row a hypothesis' key and value of each position lie, so that choosing hypotheses moves only numbers.
struct Sentence {
    int64_t length = 0, padded = 0, position = 0, rows = 1;
    Block<float> memory;            // key slots as [width, padded], others as [head, length, width of a head]
    Block<float> cache;             // [slot, capacity, width]
    int64_t capacity = 0, used = 0; // stored rows
    int64_t room = 0;               // positions in `ancestry`
    std::vector<int32_t> ancestry;  // [rows, room]

    float* remembered(const Slots& slots, int64_t slot) const {
        const int64_t before = slots.before[size_t(slot)];
        return memory.data + (slots.transposed[size_t(slot)] ? before * padded : slots.keys * padded + before * length);
    }
    float* stored(const Slots& slots, int64_t slot) const { return cache.data + slots.before[size_t(slot)] * capacity; }

    // Makes room for the rows of one more position, and says in the ancestry where they will be.
    void extend(const Slots& slots) {
        if (used + rows > capacity) collect(slots);
        if (position >= room) {
            const int64_t more = std::max<int64_t>(32, 2 * room);
            std::vector<int32_t> wider(size_t(rows * more));
            for (int64_t row = 0; row < rows; row++)
                std::copy_n(ancestry.begin() + row * room, position, wider.begin() + row * more);
            ancestry.swap(wider), room = more;
        }
        for (int64_t row = 0; row < rows; row++) ancestry[size_t(row * room + position)] = int32_t(used + row);
    }

    // Drops stored rows that no hypothesis descends from; takes twice the memory where that frees less than half.
    void collect(const Slots& slots) {
        std::vector<int32_t> moved(size_t(used), -1);
        for (int64_t row = 0; row < rows; row++)
            for (int64_t t = 0; t < position; t++) moved[size_t(ancestry[size_t(row * room + t)])] = 0;
        int32_t living = 0;
        for (int32_t& to : moved)
            if (to == 0) to = living++;
        const bool grow = 2 * (living + rows) > capacity;
        const int64_t more = grow ? std::max<int64_t>(2 * capacity, up(living + rows, 16)) : capacity;
        Block<float> larger;
        if (grow) larger = spare.take(slots.others * more);
        float* to = grow ? larger.data : cache.data;
        for (size_t slot = 0; slot < slots.width.size(); slot++) {
            const int64_t width = up(slots.width[slot], LANES), before = slots.before[slot];
            for (int64_t row = 0; row < used; row++)
                if (moved[size_t(row)] >= 0)
                    std::memmove(to + before * more + moved[size_t(row)] * width,
                                 cache.data + before * capacity + row * width, size_t(width) * sizeof(float));
        }
        if (grow) cache.swap(larger), spare.give(std::move(larger));
        capacity = more, used = living;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t t = 0; t < position; t++) {
                int32_t& place = ancestry[size_t(row * room + t)];
                place = moved[size_t(place)];
            }
    }
};

struct State {
    std::vector<Sentence> sentences;

    ~State() { forget(0); }

    int64_t rows() const {
        int64_t all = 0;
        for (const Sentence& s : sentences) all += s.rows;
        return all;
    }

    // Keeps some sentences; row j of the i-th goes on from its sentence's row parents[i, j].
    void select(const int64_t* kept_sentences, int64_t kept, const int64_t* parents, int64_t beams) {
        std::vector<std::vector<int32_t>> ancestries(static_cast<size_t>(kept));
        for (int64_t i = 0, before = -1; i < kept; before = kept_sentences[i++]) {
            if (kept_sentences[i] <= before || kept_sentences[i] >= int64_t(sentences.size()))
                throw std::out_of_range("sentence");
            const Sentence& s = sentences[size_t(kept_sentences[i])];
            std::vector<int32_t>& ancestry = ancestries[size_t(i)];
            ancestry.resize(size_t(beams * s.room));
            for (int64_t row = 0; row < beams; row++) {
                const int64_t parent = parents[i * beams + row];
                if (parent < 0 || parent >= s.rows) throw std::out_of_range("row");
                std::copy_n(s.ancestry.begin() + parent * s.room, s.position, ancestry.begin() + row * s.room);
            }
        }
        for (int64_t i = 0; i < kept; i++) {
            if (kept_sentences[i] != i) sentences[size_t(i)] = std::move(sentences[size_t(kept_sentences[i])]);
            sentences[size_t(i)].ancestry.swap(ancestries[size_t(i)]);
            sentences[size_t(i)].rows = beams;
        }
        forget(kept);
    }

    void join(State& other) {
        sentences.reserve(sentences.size() + other.sentences.size());
        for (Sentence& s : other.sentences) sentences.push_back(std::move(s));
        other.sentences.clear();
    }

  private:
    // Moving a sentence swaps its blocks, so that those of the others end up at the end.
    void forget(int64_t kept) noexcept {
        for (size_t i = size_t(kept); i < sentences.size(); i++)
            spare.give(std::move(sentences[i].memory)), spare.give(std::move(sentences[i].cache));
        sentences.resize(size_t(kept));
    }
};

}  // namespace
