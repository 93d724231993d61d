// Beam search for one sentence. It selects the same hypotheses as the search in zoo/generation, and adds their
// log-probabilities in the same precision and order.
#pragma once

#include "brackets.hpp"
#include "drafts.hpp"
#include "vocabulary.hpp"

#include <algorithm>

namespace {

// Results of the sentences that a call has finished. `numbers` has for each sentence: its index, the SentenceState, and
// the number of hypotheses; then for each hypothesis the number of tokens, and the tokens without prefix and EOS.
// `scores` has the score and the log-probability of each hypothesis.
struct SearchResults {
    std::vector<int64_t> numbers;
    std::vector<double> scores;
};

class Beam {
  public:
    // `total` is the log-probability of the prefix. `penalties[n]` is the length penalty of n tokens with EOS.
    Beam(const BeamOptions& options, float total, const double* penalties)
        : options(options), length(options.length), penalties(penalties, penalties + options.max_length + 2),
          live{{total, options.token, -1, {}}}, parents{0} {
        context.push(options.token);
    }

    BeamOptions options;
    SentenceState reason = RUNNING;
    Context context;  // of the only hypothesis of a greedy search
    BracketRules rules;

    bool begun() const { return steps > 0; }
    int64_t rows() const { return int64_t(live.size()); }
    int64_t token(int64_t row) const { return live[size_t(row)].token; }
    PartialTree& tree(int64_t row) { return live[size_t(row)].tree; }
    bool constrained() const { return !rules.kinds.empty(); }
    // For each row, the row of the previous step that it continues.
    const std::vector<int64_t>& rows_before() const { return parents; }
    // Whether EOS is allowed `steps` steps from now.
    bool may_end(int64_t steps) const { return length + steps >= options.min_length; }
    // Maximum number of steps after the next one.
    int64_t steps_left() const { return options.max_length - length; }

    // Selects the hypotheses of the next step. The results of the beam's rows start at row `first` of `top`.
    void step(const TopK& top, int64_t first) {
        if (!find_candidates(top, first)) return fail();
        const size_t limit = options.shrinking && steps ? live.size() : size_t(options.candidates);
        const size_t count = std::min(candidates.size(), limit);
        std::partial_sort(candidates.begin(), candidates.begin() + int64_t(count), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.total != b.total ? a.total > b.total
                                                                                     : a.index < b.index; });
        length++, steps++;
        const bool is_last = length > options.max_length;
        next.clear(), parents.clear();
        for (size_t rank = 0; rank < count; rank++) {
            const Candidate& c = candidates[rank];
            const bool ends = c.token == EOS;
            if (!ends && int64_t(next.size()) < options.size) {
                next.push_back({c.total, c.token, int32_t(nodes.size()), live[size_t(c.row)].tree});
                if (constrained()) next.back().tree.add(rules, c.token);
                parents.push_back(c.row);
                nodes.push_back({int32_t(c.token), live[size_t(c.row)].node});
            }
            if (ends && !(options.full && int64_t(rank) >= options.size)) finish(c.total, live[size_t(c.row)].node);
            if (!ends && is_last && options.shrinking) finish(c.total, next.back().node);
        }
        live.swap(next);
        reason = find_reason(is_last);
    }

    void write(int64_t sentence, SearchResults& results) const {
        std::vector<int64_t>& numbers = results.numbers;
        numbers.insert(numbers.end(), {sentence, reason, int64_t(finished.size())});
        for (const Finished& each : finished) {
            const size_t start = numbers.size();
            numbers.push_back(0);
            for (int32_t node = each.node; node >= 0; node = nodes[size_t(node)].parent)
                numbers.push_back(nodes[size_t(node)].token);
            numbers[start] = int64_t(numbers.size() - start) - 1;
            std::reverse(numbers.begin() + int64_t(start) + 1, numbers.end());
            results.scores.insert(results.scores.end(), {each.score, double(each.total)});
        }
    }

  private:
    struct Row {
        float total;
        int64_t token;
        int32_t node;
        PartialTree tree;
    };
    struct Candidate {
        float total;
        int64_t index, row, token;
    };
    // Last token of a hypothesis, and the node of the tokens before it; -1 if there are none.
    struct Node {
        int32_t token, parent;
    };
    struct Finished {
        double score;
        float total;
        int32_t node;
    };

    int64_t length, steps = 0, finished_count = 0;
    std::vector<double> penalties;
    std::vector<Row> live, next;
    std::vector<int64_t> parents;
    std::vector<Candidate> candidates;
    std::vector<Node> nodes;
    std::vector<Finished> finished;

    // Finds all possible continuations, ordered by row and probability. Returns false if a probability is NaN.
    bool find_candidates(const TopK& top, int64_t first) {
        candidates.clear();
        const bool must_end = !options.shrinking && length == options.max_length;
        for (int64_t row = 0; row < rows(); row++) {
            const int64_t start = (first + row) * top.count;
            for (int64_t i = 0; i < (must_end ? 1 : options.candidates); i++) {
                const float value = must_end ? top.ends[first + row] : top.values[start + i];
                const float total = live[size_t(row)].total + value;
                if (total != total) return false;
                if (total == -INFINITE) break;
                candidates.push_back({total, int64_t(candidates.size()), row, must_end ? EOS : top.tokens[start + i]});
            }
        }
        return true;
    }

    // Adds a finished hypothesis. Of hypotheses with equal scores, those that finished earlier come first.
    void finish(float total, int32_t node) {
        const double score = double(total) / penalties[size_t(length)];
        auto to = finished.end();
        while (to != finished.begin() && score > (to - 1)->score) --to;
        finished.insert(to, {score, total, node});
        if (int64_t(finished.size()) > options.n_best) finished.pop_back();
        finished_count++;
    }

    SentenceState find_reason(bool is_last) const {
        if (live.empty()) return EXHAUSTED;
        const double best = double(live[0].total) / penalties.back();
        if (int64_t(finished.size()) == options.n_best && finished.back().score >= best) return DECIDED;
        if (options.full && finished_count >= options.size) return FULL;
        return is_last ? LENGTH : RUNNING;
    }

    // Ends the search with a hypothesis that has no usable score.
    void fail() {
        finished = {{NOT_A_NUMBER, NOT_A_NUMBER, -1}};
        reason = EXHAUSTED;
    }
};

}  // namespace
