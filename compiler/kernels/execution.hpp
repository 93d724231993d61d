// Interpreter of the instructions of compiler/instruction.py, which work on rows of floats.
#pragma once

#include "abi.hpp"
#include "attention.hpp"
#include "packing.hpp"
#include "product.hpp"
#include "rows.hpp"
#include "state.hpp"
#include "vocabulary.hpp"

#include <stdexcept>

namespace {

struct Program {
    std::vector<Instruction> encode, step;
    std::vector<int64_t> strides;  // distance between two rows of each buffer, in floats
    Arrays memory, cache;
    PositionTables sinusoids, rotations;
    NGrams n_grams;

    // Returns the shortlist of these tokens, which must be in ascending order.
    std::unique_ptr<Shortlist> shortlist(const int64_t* tokens, int64_t count) {
        const Instruction& i = *std::find_if(step.begin(), step.end(), [](auto& each) { return each.opcode == LOGITS; });
        bool valid = count > 0 && tokens[0] >= 0 && tokens[count - 1] < i.width;
        for (int64_t n = 1; n < count; n++) valid &= tokens[n - 1] < tokens[n];
        if (!valid) throw std::out_of_range("token");
        {
            const std::lock_guard<std::mutex> lock(mutex);
            if (!columns) columns.reset(new ColumnTable(*static_cast<const Matrix*>(i.matrix)));
        }
        return std::unique_ptr<Shortlist>(new Shortlist{{tokens, tokens + count}, columns->pack(tokens, count)});
    }

  private:
    std::mutex mutex;
    std::unique_ptr<ColumnTable> columns;  // made for the first shortlist
};

// Scratch memory of a thread, reused by the next call.
struct Workspace {
    std::vector<Block<float>> buffers;
    Block<float> scores, keys, block;
    RowConverter convert;
};
thread_local Workspace workspace;

class Execution {
  public:
    Execution(Program& program, State& state, const int64_t* tokens)
        : program(program), state(state), tokens(tokens), work(workspace) {}

    void encode() {
        for (Sentence& s : state.sentences)
            for (int64_t i = 0; i < s.length; i++) positions.push_back(i);
        execute(program.encode);
    }
    // Reads the tokens of each hypothesis. Their number depends on the sentence.
    void step(const TopK& wanted) {
        top_k = wanted;
        for (Sentence& s : state.sentences) {
            s.add_positions(program.cache);
            for (int64_t row = 0; row < s.rows; row++)
                for (int64_t i = 0; i < s.k; i++) positions.push_back(s.position + i);
        }
        execute(program.step);
        for (Sentence& s : state.sentences) {
            s.used += s.rows * s.k;
            s.position += s.k;
        }
    }

  private:
    Program& program;
    State& state;
    const int64_t* tokens;
    Workspace& work;
    std::vector<int64_t> positions;  // the position of each row in its sentence
    TopK top_k{};

    int64_t rows() const { return int64_t(positions.size()); }
    int64_t stride(int32_t buffer) const { return program.strides[size_t(buffer)]; }
    float* at(int32_t buffer, int32_t column, int64_t row = 0) const {
        return work.buffers[size_t(buffer)].data + row * stride(buffer) + column;
    }
    Rows<Float32> input(const Instruction& i) const { return {at(i.a, i.a_column), stride(i.a), rows(), nullptr}; }

    void execute(const std::vector<Instruction>& instructions) {
        if (work.buffers.size() < program.strides.size()) work.buffers.resize(program.strides.size());
        for (size_t i = 0; i < program.strides.size(); i++) work.buffers[i].grow(rows() * program.strides[i] + LANES);
        for (const Instruction& i : instructions) execute(i);
    }

    void execute(const Instruction& i) {
        switch (Opcode(i.opcode)) {
            case EMBED: return embed(i);
            case POSITION: return position(i);
            case LINEAR: return linear(i);
            case ADD: return add_rows(i);
            case NORM: return normalise(i);
            case ATTEND_SOURCE: return attend_source(i);
            case STORE_MEMORY: return store_memory(i);
            case APPEND_CACHE: return append_cache(i);
            case ATTEND_CACHE: return attend_cache(i);
            case ATTEND_MEMORY: return attend_memory(i);
            case LOGITS: return logits(i);
            case ACTIVATE: return activate(i);
            case SSRU_SOURCE: return ssru_source(i);
            case SSRU_STEP: return ssru_step(i);
            case COPY: return copy(i);
            case MULTIPLY: return multiply_rows(i);
            case SCALE: return scale_rows(i);
            case ROTATE: return rotate_rows(i);
        }
        throw UnknownInstruction();
    }

    template <class F>
    void for_each_row(F f) {
        for (int64_t row = 0; row < rows(); row++) f(row);
    }

    void embed(const Instruction& i) {
        const float* table = static_cast<const float*>(i.table);
        for_each_row([&](int64_t row) {
            if (tokens[row] < 0 || tokens[row] >= i.rows) throw std::out_of_range("token");
            scaled(table + tokens[row] * i.width, i.scale, at(i.out, i.out_column, row), i.width);
        });
    }

    void add_rows(const Instruction& i) {
        for_each_row([&](int64_t row) {
            add(at(i.a, i.a_column, row), at(i.b, i.b_column, row), at(i.out, i.out_column, row), i.width);
        });
    }

    void multiply_rows(const Instruction& i) {
        for_each_row([&](int64_t row) {
            map(i.width, at(i.out, i.out_column, row), [](Vector x, Vector y) { return x * y; },
                at(i.a, i.a_column, row), at(i.b, i.b_column, row));
        });
    }

    void scale_rows(const Instruction& i) {
        for_each_row([&](int64_t row) {
            scaled(at(i.a, i.a_column, row), i.scale, at(i.out, i.out_column, row), i.width);
        });
    }

    int64_t max_position() const {
        int64_t max = 0;
        for (int64_t p : positions) max = std::max(max, p);
        return max;
    }

    void rotate_rows(const Instruction& i) {
        const int64_t width = i.key_width;
        const auto fill = [&](int64_t position, float* row) { rotation(position, width, i.scale, row); };
        const auto table = program.rotations.table(max_position() + 1, width, i.scale, fill);
        for_each_row([&](int64_t row) {
            const float *angles = table->data + positions[size_t(row)] * width, *from = at(i.a, i.a_column, row);
            float* to = at(i.out, i.out_column, row);
            for (int64_t head = 0; head < i.heads; head++)
                rotate(from + head * width, angles, to + head * width, width);
        });
    }

    void position(const Instruction& i) {
        const float* table = static_cast<const float*>(i.table);
        std::shared_ptr<const Block<float>> sinusoids;
        const int64_t max = max_position();
        if (table) {
            if (max >= i.rows) throw std::out_of_range("position");
        } else {
            const bool halves = i.halves != 0;
            const auto fill = [&](int64_t p, float* row) { ::sinusoids(p, i.width, halves, row); };
            sinusoids = program.sinusoids.table(i.first + max + 1, i.width, float(halves), fill);
            table = sinusoids->data + i.first * i.width;
        }
        for_each_row([&](int64_t row) {
            add(at(i.a, i.a_column, row), table + positions[size_t(row)] * i.width, at(i.out, i.out_column, row),
                i.width);
        });
    }

    void linear(const Instruction& i) {
        const Matrix& m = *static_cast<const Matrix*>(i.matrix);
        const Target to{at(i.out, i.out_column), stride(i.out), i.activation == RELU};
        work.convert(m, input(i), [&](const auto& rows) { product(m, rows, 0, m.panels, to); });
        if (i.activation > RELU)
            for_each_row([&](int64_t row) {
                float* x = at(i.out, i.out_column, row);
                apply_activation(x, i.activation, x, i.width);
            });
    }

    void activate(const Instruction& i) {
        for_each_row([&](int64_t row) { apply_activation(at(i.a, i.a_column, row), i.activation, at(i.out,
            i.out_column, row), i.width); });
    }

    void copy(const Instruction& i) {
        for_each_row([&](int64_t row) {
            std::memcpy(at(i.out, i.out_column, row), at(i.a, i.a_column, row), size_t(i.width) * sizeof(float));
        });
    }

    void ssru_source(const Instruction& i) {
        int64_t first = 0;
        for (const Sentence& s : state.sentences) {
            const float* previous = nullptr;
            for (int64_t t = 0; t < s.length; t++) {
                const int64_t row = first + (i.backwards ? s.length - 1 - t : t);
                float* out = at(i.out, i.out_column, row);
                ssru_state(at(i.a, i.a_column, row), at(i.b, i.b_column, row), previous, out, i.width);
                previous = out;
            }
            first += s.length;
        }
    }

    // Computes the next state of each hypothesis from the state that its parent stored at the previous position.
    void ssru_step(const Instruction& i) {
        const int64_t width = round_up(i.width, LANES);
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float *stored = s.cache_array(program.cache, i.c), *to = stored + s.used * width;
            for (int64_t r = 0; r < s.rows; r++) {
                const float* previous = nullptr;
                if (s.position) previous = stored + s.ancestry[size_t(r * s.max_positions + s.position - 1)] * width;
                for (int64_t j = 0; j < s.k; j++, row++, previous = to, to += width) {
                    ssru_state(at(i.a, i.a_column, row), at(i.b, i.b_column, row), previous, to, i.width);
                    std::memcpy(at(i.out, i.out_column, row), to, size_t(i.width) * sizeof(float));
                }
            }
        }
    }

    void normalise(const Instruction& i) {
        const float *gain = static_cast<const float*>(i.gain), *bias = static_cast<const float*>(i.bias);
        for_each_row([&](int64_t row) {
            const float* other = i.b < 0 ? nullptr : at(i.b, i.b_column, row);
            float* out = at(i.out, i.out_column, row);
            if (bias) norm(at(i.a, i.a_column, row), other, gain, bias, i.epsilon, out, i.width);
            else rms_norm(at(i.a, i.a_column, row), other, gain, i.epsilon, out, i.width);
        });
    }

    static Bias bias_of(const Instruction& i) {
        return {static_cast<const float*>(i.table), static_cast<const float*>(i.constants), i.rows, i.heads};
    }

    void attend_source(const Instruction& i) {
        const Bias bias = bias_of(i);
        const int64_t groups = i.groups;
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float *scores = work.scores.grow(4 * s.padded), *keys = work.keys.grow(i.key_width * s.padded);
            for (int64_t head = 0; head < i.heads; head++) {
                const int64_t k = head * i.key_width, v = head * i.value_width, shared = head / groups;
                if (head % groups == 0)
                    transpose(at(i.b, i.b_column, row) + shared * i.key_width, stride(i.b), s, i.key_width, keys);
                const float* values = at(i.c, i.c_column, row) + shared * i.value_width;
                attend(AttentionHead{at(i.a, i.a_column, row) + k, keys, values, keys, values, at(i.out, i.out_column,
                    row) + v,
                            stride(i.a), stride(i.c), stride(i.out), s.length, s.padded, i.key_width, i.value_width,
                            i.scale, i.constants ? &bias : nullptr, head},
                       s.length, scores);
            }
            row += s.length;
        }
    }

    // Copies [length, width] to [width, padded], padded with zeros.
    static void transpose(const float* from, int64_t stride, const Sentence& s, int64_t width, float* to) {
        for (int64_t d = 0; d < width; d++) {
            for (int64_t t = 0; t < s.length; t++) to[d * s.padded + t] = from[t * stride + d];
            for (int64_t t = s.length; t < s.padded; t++) to[d * s.padded + t] = 0.0f;
        }
    }

    void store_memory(const Instruction& i) {
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            const float* from = at(i.a, i.a_column, row);
            float* to = s.memory_array(program.memory, i.out);
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

    void append_cache(const Instruction& i) {
        const int64_t width = round_up(i.width, LANES);
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            float* to = s.cache_array(program.cache, i.out) + s.used * width;
            for (int64_t end = row + s.rows * s.k; row < end; row++, to += width)
                std::memcpy(to, at(i.a, i.a_column, row), size_t(i.width) * sizeof(float));
        }
    }

    void attend_cache(const Instruction& i) {
        const Bias bias = bias_of(i);
        int64_t row = 0;
        for (const Sentence& s : state.sentences) {
            const int64_t length = s.position + s.k, shared = i.heads / i.groups;
            float* scores = work.scores.grow(s.rows * s.k * i.heads * (round_up(length, LANES) + 1));
            attend(CachedAttention{at(i.a, i.a_column, row), s.cache_array(program.cache, i.b),
                        s.cache_array(program.cache, i.c), at(i.out, i.out_column, row), s.ancestry.data(),
                        stride(i.a), round_up(shared * i.key_width, LANES), round_up(shared * i.value_width, LANES),
                        stride(i.out), s.rows, s.k, s.max_positions, length, i.heads, i.groups, i.key_width,
                        i.value_width, i.scale, i.constants ? &bias : nullptr},
                   scores);
            row += s.rows * s.k;
        }
    }

    void attend_memory(const Instruction& i) {
        const int64_t groups = i.groups;
        int64_t row = 0;
        for (size_t n = 0; n < state.sentences.size(); n++) {
            const Sentence &s = state.sentences[n], &next = state.sentences[n + 1 < state.sentences.size() ? n + 1 : n];
            float* scores = work.scores.grow(4 * s.padded);
            const int64_t key_step = i.key_width * s.padded, value_step = i.value_width * s.length;
            const float *first_keys = s.memory_array(program.memory, i.b);
            const float *first_values = s.memory_array(program.memory, i.c);
            for (int64_t head = 0; head < i.heads; head++) {
                const int64_t shared = head / groups, following = (head + 1) / groups;
                const bool last = head + 1 == i.heads;
                const float *keys = first_keys + shared * key_step, *values = first_values + shared * value_step;
                attend(AttentionHead{at(i.a, i.a_column, row) + head * i.key_width, keys, values,
                            last ? next.memory_array(program.memory, i.b) : first_keys + following * key_step,
                            last ? next.memory_array(program.memory, i.c) : first_values + following * value_step,
                            at(i.out, i.out_column, row) + head * i.value_width, stride(i.a), i.value_width,
                                stride(i.out),
                            s.length, s.padded, i.key_width, i.value_width, i.scale},
                       s.rows * s.k, scores);
            }
            row += s.rows * s.k;
        }
    }

    void logits(const Instruction& i) {
        const Matrix& m = *static_cast<const Matrix*>(i.matrix);
        work.convert(m, input(i), [&](const auto& rows) { logits(i, m, rows); });
    }

    // A sentence with a shortlist has its own matrix. Successive sentences without a shortlist share a product.
    template <class T>
    void logits(const Instruction& i, const Matrix& m, const Rows<T>& a) {
        int64_t row = 0;
        for (auto s = state.sentences.begin(); s != state.sentences.end();) {
            const Shortlist* list = s->shortlist.get();
            int64_t count = 0;
            do count += s->rows * s->k, ++s;
            while (!list && s != state.sentences.end() && !s->shortlist);
            const Columns columns = list ? Columns{int64_t(list->tokens.size()), list->tokens.data()} : Columns{i.width};
            vocabulary(list ? list->matrix() : m, a.part(row, count), columns, i.width, work.block,
                top_k.rows_from(row, i.width));
            row += count;
        }
    }
};

}  // namespace
