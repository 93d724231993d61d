// Restricts a search to well-formed trees, as in zoo/generation/constraints.py.
#pragma once

#include "abi.hpp"

#include <vector>

namespace {

// Rules for the trees of one sentence. `kinds` is empty if any output is allowed.
struct BracketRules {
    enum Kind : int32_t { OTHER, WORD, BRACKETS };
    std::vector<int32_t> kinds;  // of each token. BRACKETS + 2 n opens label n, the next number closes it
    std::vector<int64_t> words;  // token of each word. PAD: any word token. Empty: any word token for all words
    int64_t max_opening_run = 0;

    // Returns the token to store in the n-gram table. It is UNK for a word, if the words of the sentence are given.
    int64_t n_gram_token(int64_t token) const { return !words.empty() && kinds[size_t(token)] == WORD ? UNK : token; }
};

// Tree that a hypothesis has written so far.
struct PartialTree {
    std::vector<int32_t> open;  // kind of the bracket that closes each open constituent
    int64_t words_left = 0, constituents_left = 0, opening_run = 0;

    // Returns the token that the next word must have, or PAD.
    int64_t next_word(const BracketRules& rules) const {
        return words_left && !rules.words.empty() ? rules.words[rules.words.size() - size_t(words_left)] : PAD;
    }

    bool allows(const BracketRules& rules, int64_t token) const {
        const int32_t kind = rules.kinds[size_t(token)];
        if (token == EOS) return open.empty() && !words_left;
        if (kind == BracketRules::OTHER) return false;
        if (kind == BracketRules::WORD) {
            const int64_t word = next_word(rules);
            return words_left && (!open.empty() || words_left == 1) && (word == PAD || word == token);
        }
        if (kind % 2 == BracketRules::BRACKETS % 2)
            return words_left && constituents_left > 0 && opening_run < rules.max_opening_run;
        return !opening_run && !open.empty() && open.back() == kind && (open.size() > 1 || !words_left);
    }

    // Adds a token, which must be allowed.
    void add(const BracketRules& rules, int64_t token) {
        const int32_t kind = rules.kinds[size_t(token)];
        const bool opens = kind >= BracketRules::BRACKETS && kind % 2 == BracketRules::BRACKETS % 2;
        opening_run = opens ? opening_run + 1 : 0;
        if (opens) open.push_back(kind + 1), constituents_left--;
        else if (kind == BracketRules::WORD) words_left--;
        else if (kind >= BracketRules::BRACKETS) open.pop_back();
    }
};

}  // namespace
