// The native backend's machine: executes the instructions of compiler/instruction.py on rows of floats. One call runs
// on the thread that makes it; a program is only read, so threads can share it, each with states of its own.
#include "abi.hpp"
#include "attention.hpp"
#include "matrix.hpp"
#include "state.hpp"
#include "vocabulary.hpp"

#include <map>
#include <mutex>
#include <stdexcept>

namespace {

// The sinusoids of 3.5, computed when a position is first asked for. Tables that were outgrown may still be read.
class Sinusoids {
  public:
    std::shared_ptr<const Block<float>> of(int64_t positions, int64_t width, bool halves) {
        const std::lock_guard<std::mutex> lock(mutex);
        std::shared_ptr<Block<float>>& table = tables[{width, halves}];
        if (!table || table->size < positions * width) {
            const int64_t room = std::max<int64_t>(256, 2 * positions);
            auto larger = std::make_shared<Block<float>>(room * width);
            for (int64_t i = 0; i < room; i++) sinusoids(i, width, halves, larger->data + i * width);
            table = larger;
        }
        return table;
    }

  private:
    std::mutex mutex;
    std::map<std::pair<int64_t, bool>, std::shared_ptr<Block<float>>> tables;
};

// An instruction that there is none of.
struct Unknown {};

struct Program {
    std::vector<Instruction> encode, step;
    std::vector<int64_t> strides;  // of the buffers
    Slots memory, cache;
    Sinusoids sinusoids;
};

// What a thread needs while it runs a program, kept for the next call.
struct Workspace {
    std::vector<Block<float>> buffers;
    Block<float> scores, keys, block;
    Quantised quantised;
};
thread_local Workspace workspace;

class Run {
  public:
    Run(Program& program, State& state, const int64_t* tokens)
        : program(program), state(state), tokens(tokens), work(workspace) {}

    void encode() {
        for (Sentence& s : state.sentences)
            for (int64_t i = 0; i < s.length; i++) positions.push_back(i);
        execute(program.encode);
    }
    void step(const Likeliest& wanted) {
        likeliest = wanted;
        for (Sentence& s : state.sentences) {
            s.extend(program.cache);
            positions.insert(positions.end(), size_t(s.rows), s.position);
        }
        execute(program.step);
        for (Sentence& s : state.sentences) s.used += s.rows, s.position++;
    }

  private:
    Program& program;
    State& state;
    const int64_t* tokens;
    Workspace& work;
    std::vector<int64_t> positions;  // of each row
    Likeliest likeliest{};

    int64_t rows() const { return int64_t(positions.size()); }
    int64_t stride(int32_t buffer) const { return program.strides[size_t(buffer)]; }
    float* at(int32_t buffer, int32_t column, int64_t row = 0) const {
        return work.buffers[size_t(buffer)].data + row * stride(buffer) + column;
    }
    Rows<float> input(const Instruction& i) const { return {at(i.a, i.a_at), stride(i.a), rows(), nullptr}; }

    void execute(const std::vector<Instruction>& instructions) {
        if (work.buffers.size() < program.strides.size()) work.buffers.resize(program.strides.size());
        for (size_t i = 0; i < program.strides.size(); i++) work.buffers[i].grow(rows() * program.strides[i] + LANES);
        for (const Instruction& i : instructions) execute(i);
    }

    void execute(const Instruction& i) {
        switch (Code(i.code)) {
            case EMBED: return embed(i);
            case POSITION: return position(i);
            case LINEAR: return linear(i);
            case ADD: return plus(i);
            case NORM: return normalise(i);
            case ATTEND_SOURCE: return attend_source(i);
            case KEEP: return keep(i);
            case APPEND: return append(i);
            case ATTEND_CACHE: return attend_cache(i);
            case ATTEND_MEMORY: return attend_memory(i);
            case LOGITS: return logits(i);
            case BEND: return bent(i);
            case AVERAGE_SOURCE: return average_source(i);
            case AVERAGE: return average_cache(i);
            case COPY: return copy(i);
        }
        throw Unknown();
    }

    template <class F>
    void each_row(F f) {
        for (int64_t row = 0; row < rows(); row++) f(row);
    }

    void embed(const Instruction& i) {
        const float* table = static_cast<const float*>(i.table);
        each_row([&](int64_t row) {
            if (tokens[row] < 0 || tokens[row] >= i.rows) throw std::out_of_range("piece");
            scaled(table + tokens[row] * i.width, i.scale, at(i.out, i.out_at, row), i.width);
        });
    }

    void plus(const Instruction& i) {
        each_row([&](int64_t row) {
            add(at(i.a, i.a_at, row), at(i.b, i.b_at, row), at(i.out, i.out_at, row), i.width);
        });
    }

    void position(const Instruction& i) {
        const float* table = static_cast<const float*>(i.table);
        std::shared_ptr<const Block<float>> ours;
        int64_t most = 0;
        for (int64_t p : positions) most = std::max(most, p);
        if (table) {
            if (most >= i.rows) throw std::out_of_range("position");
        } else {
            ours = program.sinusoids.of(i.first + most + 1, i.width, i.halves != 0);
            table = ours->data + i.first * i.width;
        }
        each_row([&](int64_t row) {
            add(at(i.a, i.a_at, row), table + positions[size_t(row)] * i.width, at(i.out, i.out_at, row), i.width);
        });
    }

    void linear(const Instruction& i) {
        const Matrix& m = *static_cast<const Matrix*>(i.matrix);
        const Target to{at(i.out, i.out_at), stride(i.out), i.curve == RELU};
        if (m.quantised) product(m, work.quantised(input(i), m.in), 0, m.panels, to);
        else product(m, input(i), 0, m.panels, to);
        if (i.curve > RELU)
            each_row([&](int64_t row) {
                float* x = at(i.out, i.out_at, row);
                bend(x, i.curve, x, i.width);
            });
    }

    void bent(const Instruction& i) {
        each_row([&](int64_t row) { bend(at(i.a, i.a_at, row), i.curve, at(i.out, i.out_at, row), i.width); });
    }

    void copy(const Instruction& i) {
        each_row([&](int64_t row) {
            std::memcpy(at(i.out, i.out_at, row), at(i.a, i.a_at, row), size_t(i.width) * sizeof(float));
        });
    }

    void average_source(const Instruction& i) {
        int64_t first = 0;
        for (const Sentence& s : state.sentences) {
            const float* before = nullptr;
            for (int64_t t = 0; t < s.length; t++) {
                const int64_t row = first + (i.backwards ? s.length - 1 - t : t);
                float* out = at(i.out, i.out_at, row);
                average(at(i.a, i.a_at, row), at(i.b, i.b_at, row), before, out, i.width);
                before = out;
            }
            first += s.length;
        }
    }

    // Of each hypothesis from what it stored at the position before, wherever that lies.
    void average_cache(const Instruction& i) {
        const int64_t width = up(i.width, LANES);
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float* stored = s.stored(program.cache, i.c);
            for (int64_t r = 0; r < s.rows; r++, row++) {
                const float* before = nullptr;
                if (s.position) before = stored + s.ancestry[size_t(r * s.room + s.position - 1)] * width;
                float *to = stored + (s.used + r) * width, *out = at(i.out, i.out_at, row);
                average(at(i.a, i.a_at, row), at(i.b, i.b_at, row), before, to, i.width);
                std::memcpy(out, to, size_t(i.width) * sizeof(float));
            }
        }
    }

    void normalise(const Instruction& i) {
        const float *gain = static_cast<const float*>(i.gain), *bias = static_cast<const float*>(i.bias);
        each_row([&](int64_t row) {
            const float* other = i.b < 0 ? nullptr : at(i.b, i.b_at, row);
            norm(at(i.a, i.a_at, row), other, gain, bias, i.epsilon, at(i.out, i.out_at, row), i.width);
        });
    }

    void attend_source(const Instruction& i) {
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float *scores = work.scores.grow(4 * s.padded), *keys = work.keys.grow(i.key_width * s.padded);
            for (int64_t head = 0; head < i.heads; head++) {
                const int64_t k = head * i.key_width, v = head * i.value_width;
                transpose(at(i.b, i.b_at, row) + k, stride(i.b), s, i.key_width, keys);
                const float* values = at(i.c, i.c_at, row) + v;
                attend(Head{at(i.a, i.a_at, row) + k, keys, values, keys, values, at(i.out, i.out_at, row) + v,
                            stride(i.a), stride(i.c), stride(i.out), s.length, s.padded, i.key_width, i.value_width,
                            i.scale},
                       s.length, scores);
            }
            row += s.length;
        }
    }

    // [length, width] as [width, padded]; what pads is zero.
    static void transpose(const float* from, int64_t stride, const Sentence& s, int64_t width, float* to) {
        for (int64_t d = 0; d < width; d++) {
            for (int64_t t = 0; t < s.length; t++) to[d * s.padded + t] = from[t * stride + d];
            for (int64_t t = s.length; t < s.padded; t++) to[d * s.padded + t] = 0.0f;
        }
    }

    void keep(const Instruction& i) {
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            const float* from = at(i.a, i.a_at, row);
            float* to = s.remembered(program.memory, i.out);
            if (program.memory.transposed[size_t(i.out)]) {
                transpose(from, stride(i.a), s, i.width, to);
            } else {
                const int64_t width = i.width / i.heads;
                for (int64_t head = 0; head < i.heads; head++)
                    for (int64_t t = 0; t < s.length; t++, to += width)
                        std::memcpy(to, from + t * stride(i.a) + head * width, size_t(width) * sizeof(float));
            }
            row += s.length;
        }
    }

    void append(const Instruction& i) {
        const int64_t width = up(i.width, LANES);
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float* to = s.stored(program.cache, i.out) + s.used * width;
            for (int64_t end = row + s.rows; row < end; row++, to += width)
                std::memcpy(to, at(i.a, i.a_at, row), size_t(i.width) * sizeof(float));
        }
    }

    void attend_cache(const Instruction& i) {
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float* scores = work.scores.grow(s.rows * i.heads * (up(s.position + 1, LANES) + 1));
            attend(Past{at(i.a, i.a_at, row), s.stored(program.cache, i.b), s.stored(program.cache, i.c),
                        at(i.out, i.out_at, row), s.ancestry.data(), stride(i.a), up(i.heads * i.key_width, LANES),
                        up(i.heads * i.value_width, LANES), stride(i.out), s.rows, s.room, s.position + 1, i.heads,
                        i.key_width, i.value_width, i.scale},
                   scores);
            row += s.rows;
        }
    }

    void attend_memory(const Instruction& i) {
        int64_t row = 0;
        for (size_t n = 0; n < state.sentences.size(); n++) {
            const Sentence &s = state.sentences[n], &next = state.sentences[n + 1 < state.sentences.size() ? n + 1 : n];
            float* scores = work.scores.grow(4 * s.padded);
            const int64_t key_step = i.key_width * s.padded, value_step = i.value_width * s.length;
            const float *keys = s.remembered(program.memory, i.b), *values = s.remembered(program.memory, i.c);
            for (int64_t head = 0; head < i.heads; head++, keys += key_step, values += value_step) {
                const bool last = head + 1 == i.heads;
                attend(Head{at(i.a, i.a_at, row) + head * i.key_width, keys, values,
                            last ? next.remembered(program.memory, i.b) : keys + key_step,
                            last ? next.remembered(program.memory, i.c) : values + value_step,
                            at(i.out, i.out_at, row) + head * i.value_width, stride(i.a), i.value_width, stride(i.out),
                            s.length, s.padded, i.key_width, i.value_width, i.scale},
                       s.rows, scores);
            }
            row += s.rows;
        }
    }

    void logits(const Instruction& i) {
        const Matrix& m = *static_cast<const Matrix*>(i.matrix);
        if (m.quantised) vocabulary(m, work.quantised(input(i), m.in), i.width, work.block, likeliest);
        else vocabulary(m, input(i), i.width, work.block, likeliest);
    }
};

// Nothing is thrown across the border.
template <class F>
int guarded(F f) {
    try {
        return f(), DONE;
    } catch (const std::out_of_range&) {
        return IMPOSSIBLE;
    } catch (const std::length_error&) {
        return TOO_WIDE;
    } catch (const Unknown&) {
        return UNKNOWN;
    } catch (const std::exception&) {
        return NO_MEMORY;
    }
}

}  // namespace

extern "C" {

int zoo_matrix(const float* values, int64_t in, int64_t out, int64_t in_stride, int64_t out_stride,
               const float* bias, void** result) {
    return guarded([&] {
        auto m = shaped(in, out, 1, bias);
        pack<1>(values, m->floats.grow(m->panels * m->depth * PANEL, true), *m, in_stride, out_stride);
        *result = m.release();
    });
}

int zoo_matrix_int8(const int8_t* values, const float* scales, int64_t in, int64_t out, int64_t in_stride,
                    int64_t out_stride, const float* bias, void** result) {
    return guarded([&] {
        if (in > MAX_INT8_ROWS) throw std::length_error("matrix");
        auto m = shaped(in, out, GROUP, bias);
        const int64_t columns = m->panels * PANEL;
        m->quantised = true;
        pack<GROUP>(values, m->bytes.grow(columns * m->depth * GROUP, true), *m, in_stride, out_stride);
        m->scales.grow(columns), m->offsets.grow(columns);
        for (int64_t column = 0; column < columns; column++) {
            int32_t all = 0;
            for (int64_t row = 0; row < in && column < out; row++) all += values[row * in_stride + column * out_stride];
            m->offsets.data[column] = -SHIFT * all;
            m->scales.data[column] = column < out ? scales[column] : 0.0f;
        }
        *result = m.release();
    });
}

void zoo_matrix_free(void* matrix) { delete static_cast<Matrix*>(matrix); }

int zoo_open(const Instruction* encode, int64_t n, const Instruction* step, int64_t m, const int32_t* buffer_widths,
             int64_t buffers, const int32_t* memory_widths, int64_t memories, const int32_t* cache_widths,
             int64_t caches, void** result) {
    return guarded([&] {
        std::unique_ptr<Program> program(new Program);
        program->encode.assign(encode, encode + n), program->step.assign(step, step + m);
        // Strides are odd numbers of cache lines: rows a power of two apart would share a few lines of the cache.
        for (int64_t i = 0; i < buffers; i++) program->strides.push_back((up(up(buffer_widths[i], PANEL), 16) / 16 | 1) * 16);
        program->memory.set(memories, memory_widths), program->cache.set(caches, cache_widths);
        for (const auto* part : {&program->encode, &program->step})
            for (const Instruction& i : *part)
                if (i.code < 0 || i.code >= CODES) throw Unknown();
        for (const Instruction& i : program->encode)
            if (i.code == KEEP) program->memory.transposed.at(size_t(i.out)) = i.keys != 0;
        program->memory.place(1), program->cache.place(LANES);
        *result = program.release();
    });
}

void zoo_close(void* program) { delete static_cast<Program*>(program); }

int zoo_encode(void* handle, const int64_t* tokens, const int32_t* lengths, int64_t sentences, void** result) {
    return guarded([&] {
        Program& program = *static_cast<Program*>(handle);
        std::unique_ptr<State> state(new State);
        state->sentences.resize(static_cast<size_t>(sentences));
        for (int64_t i = 0; i < sentences; i++) {
            Sentence& s = state->sentences[size_t(i)];
            s.length = lengths[i], s.padded = up(s.length, LANES);
            s.memory = spare.take(program.memory.keys * s.padded + program.memory.others * s.length);
        }
        Run(program, *state, tokens).encode();
        *result = state.release();
    });
}

int zoo_step(void* program, void* state, const int64_t* tokens, int64_t count, float* values, int64_t* pieces,
             float* ends, float* log_probabilities, const uint8_t* allowed, int64_t allowed_stride) {
    return guarded([&] {
        if (count < 1) throw std::out_of_range("count");
        const Likeliest wanted{count, values, pieces, ends, log_probabilities, allowed, allowed_stride};
        Run(*static_cast<Program*>(program), *static_cast<State*>(state), tokens).step(wanted);
    });
}

int zoo_select(void* state, const int64_t* sentences, int64_t kept, const int64_t* parents, int64_t beams) {
    return guarded([&] { static_cast<State*>(state)->select(sentences, kept, parents, beams); });
}

int zoo_join(void* first, void* second) {
    return guarded([&] { static_cast<State*>(first)->join(*static_cast<State*>(second)); });
}

void zoo_free_state(void* state) { delete static_cast<State*>(state); }

}  // extern "C"
