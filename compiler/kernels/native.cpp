// Functions that Python calls. A call runs on the calling thread. Several threads can share a program: its instructions
// and weights are read-only, and its tables can be changed by several threads. A state belongs to one thread at a time.
#include "execution.hpp"

#include <chrono>
#include <numeric>

namespace {

// Appends the next input tokens of each hypothesis of a sentence to `read`. In a greedy search, up to `max_drafts` draft
// tokens follow.
void add_tokens(const NGrams& n_grams, Sentence& s, int64_t max_drafts, std::vector<int64_t>& read) {
    for (int64_t row = 0; row < s.rows; row++) read.push_back(s.beam->token(row));
    s.k = 1;
    if (s.beam->options.size > 1) return;
    Beam& beam = *s.beam;
    Context context = beam.context;
    PartialTree tree = beam.tree(0);
    for (max_drafts = std::min(max_drafts, beam.steps_left()); s.k <= max_drafts; s.k++) {
        int64_t token = n_grams.next(context);
        if (token < 0) return;
        context.push(token);
        if (token == UNK && !beam.rules.words.empty()) token = tree.next_word(beam.rules);
        if (beam.constrained()) {
            if (!tree.allows(beam.rules, token)) return;
            tree.add(beam.rules, token);
        }
        read.push_back(token);
    }
}

// Appends the mask of allowed tokens after each of the tokens that a sentence's hypotheses read. `allowed` has one mask
// for sentences that may not end yet, and one for the others.
void add_masks(Sentence& s, const int64_t* tokens, const uint8_t* allowed, int64_t vocabulary,
               std::vector<uint8_t>& memory, std::vector<Allowed>& masks) {
    for (int64_t row = 0; row < s.rows; row++) {
        PartialTree tree = s.beam->tree(row);
        for (int64_t i = 0; i < s.k; i++) {
            if (!s.beam->constrained()) {
                masks.push_back(allowed + (s.beam->may_end(i) ? vocabulary : 0));
                continue;
            }
            if (i) tree.add(s.beam->rules, tokens[row * s.k + i]);
            uint8_t* mask = memory.data() + int64_t(masks.size()) * vocabulary;
            for (int64_t token = 0; token < vocabulary; token++) mask[token] = tree.allows(s.beam->rules, token);
            masks.push_back(mask);
        }
    }
}

// Runs one search step per input token of a sentence, until a draft token is rejected. Discards the remaining tokens.
// The sentence's tokens and results start at row `first`.
void run_steps(NGrams& n_grams, bool learn, Sentence& s, const std::vector<int64_t>& read, const TopK& top,
               int64_t first) {
    Beam& beam = *s.beam;
    int64_t steps = 0;
    do {
        beam.step(top, first + steps++);
        if (beam.reason != RUNNING) return;
        if (beam.options.size > 1) continue;
        const int64_t token = beam.rules.n_gram_token(beam.token(0));
        if (learn) n_grams.add(beam.context, token);
        beam.context.push(token);
    } while (steps < s.k && beam.token(0) == read[size_t(first + steps)]);
    s.position -= s.k - steps;
    s.replace_rows(s.ancestry_after(beam.rows_before().data(), beam.rows()), beam.rows());
}

// Searches until a quarter of the sentences are done, but starts no step after `time_limit`. Removes the sentences that
// are done from the state, and writes their results. `allowed` is null, or has one row for sentences that may not end
// yet, and one for the others.
void search(Program& program, State& state, std::chrono::microseconds time_limit, int64_t max_drafts,
            const uint8_t* allowed, int64_t vocabulary) {
    // A step takes about as long for this many rows as for one, because reading the weights takes most of the time.
    constexpr int64_t MAX_DRAFT_ROWS = 6;
    const auto start = std::chrono::steady_clock::now();
    const size_t enough = (state.sentences.size() + 3) / 4;
    std::vector<int64_t> read, best, indices(state.sentences.size()), unfinished;
    std::vector<float> values, ends;
    std::vector<Allowed> masks;
    std::vector<uint8_t> tree_masks;  // of all rows
    std::iota(indices.begin(), indices.end(), 0);
    state.results = {};
    for (size_t done = 0; done < enough;) {
        read.clear(), masks.clear(), unfinished.clear();
        int64_t count = 1;
        int64_t spare_rows = MAX_DRAFT_ROWS - state.rows();
        const int64_t max_rows = std::max(MAX_DRAFT_ROWS, state.rows());
        for (Sentence& s : state.sentences) {
            if (!s.beam) throw std::out_of_range("beam");
            const size_t first = read.size();
            add_tokens(program.n_grams, s, std::min(max_drafts, spare_rows), read);
            spare_rows -= s.rows * (s.k - 1);
            if (s.beam->constrained()) tree_masks.resize(size_t(max_rows * vocabulary));
            if (allowed || s.beam->constrained())
                add_masks(s, read.data() + first, allowed, vocabulary, tree_masks, masks);
            else masks.insert(masks.end(), size_t(s.rows * s.k), nullptr);
            count = std::max(count, s.beam->options.candidates);
        }
        const size_t rows = read.size();
        values.resize(rows * size_t(count)), best.resize(rows * size_t(count)), ends.resize(rows);
        const TopK top{count, values.data(), best.data(), ends.data(), nullptr, masks.data()};
        Execution(program, state, read.data()).step(top);
        int64_t first = 0;
        for (size_t i = 0; i < state.sentences.size(); i++) {
            Sentence& s = state.sentences[i];
            const int64_t count_read = s.rows * s.k;
            run_steps(program.n_grams, max_drafts > 0, s, read, top, first);
            first += count_read;
            if (s.beam->reason == RUNNING) unfinished.push_back(int64_t(i));
            else s.beam->write(indices[i], state.results), done++;
        }
        if (unfinished.size() < state.sentences.size()) {
            state.keep(unfinished.data(), int64_t(unfinished.size()));
            for (size_t i = 0; i < unfinished.size(); i++) indices[i] = indices[size_t(unfinished[i])];
        }
        if (std::chrono::steady_clock::now() - start >= time_limit) break;
    }
}

}  // namespace

extern "C" {

int zoo_open(const Instruction* encode, int64_t n, const Instruction* step, int64_t m, const int32_t* buffer_widths,
             int64_t buffers, const int32_t* memory_widths, int64_t memories, const int32_t* cache_widths,
             int64_t caches, void** result) {
    return status_of([&] {
        std::unique_ptr<Program> program(new Program);
        program->encode.assign(encode, encode + n), program->step.assign(step, step + m);
        // A stride is an odd number of cache lines. Rows a power of two apart would compete for the same cache sets.
        for (int64_t i = 0; i < buffers; i++) program->strides.push_back((round_up(round_up(buffer_widths[i], PANEL),
            16) / 16 | 1) * 16);
        program->memory.set(memories, memory_widths), program->cache.set(caches, cache_widths);
        for (const auto* part : {&program->encode, &program->step})
            for (const Instruction& i : *part)
                if (i.opcode < 0 || i.opcode >= OPCODES) throw UnknownInstruction();
        for (const Instruction& i : program->encode)
            if (i.opcode == STORE_MEMORY) program->memory.transposed.at(size_t(i.out)) = i.keys != 0;
        program->memory.set_offsets(1), program->cache.set_offsets(LANES);
        *result = program.release();
    });
}

void zoo_close(void* program) { delete static_cast<Program*>(program); }

int zoo_encode(void* handle, const int64_t* tokens, const int32_t* lengths, int64_t sentences, void** result) {
    return status_of([&] {
        Program& program = *static_cast<Program*>(handle);
        std::unique_ptr<State> state(new State);
        state->sentences.resize(static_cast<size_t>(sentences));
        for (int64_t i = 0; i < sentences; i++) {
            Sentence& s = state->sentences[size_t(i)];
            s.length = lengths[i], s.padded = round_up(s.length, LANES);
            s.memory = block_pool.take(program.memory.keys * s.padded + program.memory.others * s.length);
        }
        Execution(program, *state, tokens).encode();
        *result = state.release();
    });
}

int zoo_restrict(void* program, void* state, const int64_t* tokens, const int64_t* counts) {
    return status_of([&] {
        for (Sentence& s : static_cast<State*>(state)->sentences) {
            s.shortlist = static_cast<Program*>(program)->shortlist(tokens, *counts);
            tokens += *counts++;
        }
    });
}

int zoo_step(void* program, void* state, const int64_t* tokens, int64_t k, int64_t count, float* values,
             int64_t* top_tokens, float* ends, float* log_probabilities, const uint8_t* allowed,
             int64_t allowed_stride) {
    return status_of([&] {
        if (k < 1 || count < 1) throw std::out_of_range("count");
        State& s = *static_cast<State*>(state);
        std::vector<Allowed> masks;
        for (int64_t row = 0; allowed && row < s.rows() * k; row++) masks.push_back(allowed + row * allowed_stride);
        const TopK wanted{count, values, top_tokens, ends, log_probabilities, allowed ? masks.data() : nullptr};
        for (Sentence& sentence : s.sentences) sentence.k = k;
        Execution(*static_cast<Program*>(program), s, tokens).step(wanted);
    });
}

int zoo_select(void* state, const int64_t* sentences, int64_t kept, const int64_t* parents, int64_t beams) {
    return status_of([&] { static_cast<State*>(state)->select(sentences, kept, parents, beams); });
}

int zoo_keep(void* state, const int64_t* sentences, int64_t kept) {
    return status_of([&] { static_cast<State*>(state)->keep(sentences, kept); });
}

int zoo_start_search(void* state, const int64_t* options, const float* totals, const double* penalties,
                     int64_t stride) {
    return status_of([&] {
        const BeamOptions* of = reinterpret_cast<const BeamOptions*>(options);
        for (Sentence& s : static_cast<State*>(state)->sentences) {
            if (of->size < 1 || of->candidates < 1 || of->n_best < 1 || of->length < 0 || of->length > of->max_length)
                throw std::out_of_range("options");
            s.beam.reset(new Beam(*of++, *totals++, penalties)), penalties += stride;
        }
    });
}

int zoo_constrain(void* state, const int32_t* kinds, int64_t vocabulary, int64_t max_opening_run, const int64_t* counts,
                  const int64_t* words, const int64_t* prefixes, int64_t prefix_length) {
    return status_of([&] {
        for (Sentence& s : static_cast<State*>(state)->sentences) {
            if (!s.beam || s.beam->begun() || counts[0] < 0 || (counts[2] && counts[2] != counts[0])) throw std::out_of_range("words");
            const BracketRules& rules = s.beam->rules = {
                {kinds, kinds + vocabulary}, {words, words + counts[2]}, max_opening_run};
            PartialTree& tree = s.beam->tree(0);
            tree.words_left = counts[0], tree.constituents_left = counts[1];
            words += counts[2], counts += 3;
            for (int64_t i = 0; i < prefix_length; i++, prefixes++) {
                if (*prefixes < 0 || *prefixes >= vocabulary || !tree.allows(rules, *prefixes))
                    throw std::out_of_range("prefix");
                tree.add(rules, *prefixes);
            }
        }
    });
}

int zoo_search(void* program, void* state, int64_t microseconds, int64_t max_drafts, const uint8_t* allowed,
               int64_t vocabulary, const int64_t** numbers, int64_t* count, const double** scores) {
    return status_of([&] {
        State& s = *static_cast<State*>(state);
        search(*static_cast<Program*>(program), s, std::chrono::microseconds(microseconds), max_drafts, allowed,
            vocabulary);
        *numbers = s.results.numbers.data(), *count = int64_t(s.results.numbers.size());
        *scores = s.results.scores.data();
    });
}

int zoo_join(void* first, void* second) {
    return status_of([&] { static_cast<State*>(first)->join(*static_cast<State*>(second)); });
}

void zoo_free_state(void* state) { delete static_cast<State*>(state); }

}  // extern "C"
