"""Translators over a toy program and a vocabulary of letters."""

import math
import random
import re

import pytest
import torch

import specs
from compiler import build
from specs import PAD, ZooError
from zoo.generation.constraints import BracketConstraint
from zoo.generation.sampling import Sampling
from zoo.generation.scoring import TokenScores
from zoo.generation.translator import Translation, Translator
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary


class Listening(Report):
    def __init__(self):
        self.warnings, self.advanced, self.total = [], 0, None

    def warn(self, text):
        self.warnings.append(text)

    def progress(self, label, total, unit):
        self.total = total
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def advance(self, n=1, **_):
        self.advanced += n


@pytest.fixture
def translator(translator_of):
    return translator_of()


TEXTS = ["ab", "", "hgfedc", " \t", "a b", "ab", "h", "abcabcabc"]


def test_a_text_gives_a_text_and_a_list_gives_a_list(translator):
    several = translator.translate(TEXTS)
    assert len(several) == len(TEXTS)
    assert several == [translator.translate(text) for text in TEXTS]
    assert translator.translate(iter(TEXTS)) == several
    assert translator.translate([]) == []
    assert translator.translate(tuple(TEXTS[:1])) == several[:1]
    assert several[0] == several[5] != ""


def test_n_best_returns_different_texts_best_first(translator):
    several = translator.translate(TEXTS, n_best=3)
    assert [texts[0] for texts in several] == translator.translate(TEXTS)
    assert translator.translate("hgfedc", n_best=2) == several[2][:2]
    assert len(set(several[2])) == 3
    assert translator.translate("ab", n_best=1) == [translator.translate("ab")]


def test_translation_equals_the_search_with_the_specs_options(translator, letters, search):
    source, program = letters.encode("fed"), translator.program
    (found,) = search(program, [source], [3 + 2], beam=3, alpha=translator.spec.decoding.alpha, n_best=3)
    expected = [Translation(letters.decode(h.tokens), h.score, h.log_probability, h.tokens) for h in found]
    assert translator.hypotheses(["fed"], n_best=3) == [expected]
    greedy = search(program, [source], [3 + 2], beam=1, alpha=0.0)[0][0]
    assert translator.hypotheses(["fed"], beam=1, alpha=0.0)[0][0].tokens == greedy.tokens
    drawn = search(program, [source], [3 + 2], Sampling(2, translator.spec.decoding.alpha, 0.9, 5, 0.8, 7))[0]
    choice = {"search": "sample", "temperature": 0.9, "top_k": 5, "top_p": 0.8, "seed": 7}
    assert [each.tokens for each in translator.hypotheses(["fed"], n_best=2, **choice)[0]] == [h.tokens for h in drawn]


def test_translations_start_with_their_prefixes(translator):
    """Their scores include the prefix."""
    prefixes = ["", "", "ba", "", "h", "ab", "", "hhh"]
    found = translator.hypotheses(TEXTS, n_best=2, prefixes=prefixes)
    free = translator.hypotheses(TEXTS, n_best=2)
    for prefix, several, others in zip(prefixes, found, free, strict=True):
        assert several == others or prefix
        for each in several:
            assert each.text.startswith(prefix)
    begun = [(each, text) for text, several in zip(TEXTS, found, strict=True) for each in several if each.tokens]
    for each, text in begun:
        source = torch.tensor([[*translator.vocabulary.encode(text), specs.EOS]])
        target = torch.tensor([[specs.BOS, *each.tokens, specs.EOS]])
        assert translator.program.score(source, target).sum() == each.log_probability
    assert translator.translate(iter(TEXTS), prefixes=iter(prefixes)) == [several[0].text for several in found]
    assert translator.translate("h", prefixes="ab") == translator.translate(["h"], prefixes=["ab"])[0]
    assert translator.translate("hgfedc", prefixes="ba", search="sample").startswith("ba")


def test_each_text_needs_one_prefix(translator):
    for texts, prefixes in ((["a", "b"], ["a"]), (["a"], ["a", "b"])):
        with pytest.raises(ZooError, match="there are 1 "):
            translator.translate(texts, prefixes=prefixes)
    for mixed in (("ab", ["ab"]), (["ab"], "ab")):
        with pytest.raises(TypeError, match="one text and one prefix"):
            translator.translate(mixed[0], prefixes=mixed[1])
    with pytest.raises(ZooError, match="an empty text has the prefix 'a'"):
        translator.translate(["a", " "], prefixes=["", "a"])
    with pytest.raises(ZooError, match="the prefix 'abcd' has 4 tokens, but a translation of 'h' has at most 3"):
        translator.translate("h", prefixes="abcd")
    assert translator.translate("h", prefixes="abc") == "abc"
    with pytest.raises(ZooError, match=r"prefix 1 \('a.nb'\) has a line break"):
        translator.translate("ab", prefixes="a\nb")
    with pytest.raises(TypeError, match="prefix 2 is a NoneType"):
        translator.translate(["ab", "a"], prefixes=["a", None])


def test_empty_texts_do_not_reach_the_model(translator):
    for nothing in ("", "   ", "\t", "\u00a0", "\n", "\x01"):  # the last has no token
        assert translator.translate(nothing) == ""
        assert translator.translate(nothing, n_best=2) == [""]
    assert translator.program.read == []


def test_batches_fit_the_budget_and_change_nothing(translator_of):
    draw = random.Random(3)
    texts = ["".join(draw.choices("abcdefgh ", k=draw.randrange(40))) for _ in range(60)]
    whole, report = translator_of(), Listening()
    expected = whole.hypotheses(texts, report=report)
    assert (report.total, report.advanced) == (60, 60)
    small = translator_of()
    assert small.hypotheses(texts, max_batch_tokens=90) == expected
    shapes = small.program.encoded
    assert len(shapes) > 5
    assert all(rows * length <= 90 for rows, length in shapes)
    assert translator_of().hypotheses(texts, max_batch_tokens=1) == expected


def test_scoring_halves_batches_that_do_not_fit_into_memory(translator_of):
    """A pair that does not fit alone is named by its number."""
    texts = ["ab", "hgf", "c", "abc"]
    translator = translator_of()
    expected, whole, room = translator.score_tokens(texts, texts), translator.program.score, [2]

    def short(source, target):
        if len(source) > room[0]:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return whole(source, target)

    translator.program.score = short
    assert translator.score_tokens(texts, texts) == expected
    room[0] = 0
    with pytest.raises(ZooError, match=r"not enough memory to score pair . alone: . source tokens and . target tokens"):
        translator.score_tokens(texts, texts)
    translator.program.score = lambda *_: torch.zeros(2).reshape(3)
    with pytest.raises(RuntimeError, match="invalid for input of size 2"):
        translator.score_tokens(texts, texts)


def test_scores_are_sums_over_tokens_with_eos(translator, letters):
    sources, targets = ["ab", "hgf", "", "c"], ["ba", "", "abc", "abcdefgh"]
    forced = translator.score_tokens(sources, targets, max_batch_tokens=20)
    assert [score.tokens for score in forced] == [3, 1, 4, 9]
    for source, target, score in zip(sources, targets, forced, strict=True):
        given = (*letters.encode(source), specs.EOS)
        tokens = (*letters.encode(target), specs.EOS)
        expected = [translator.program.row(given, tokens[:i])[token] for i, token in enumerate(tokens)]
        assert list(score.token_log_probabilities) == expected
    assert translator.score(sources, targets) == [score.log_probability for score in forced]
    assert translator.score("ab", "ba") == forced[0].log_probability
    assert translator.score([], []) == []
    assert TokenScores((-1.0, -2.5)).log_probability == -3.5


def test_the_score_of_a_translation_equals_its_log_probability(translator, letters):
    texts = ["abc", "hh", "a b"]
    for text, (best,) in zip(texts, translator.hypotheses(texts), strict=True):
        source = torch.tensor([[*letters.encode(text), specs.EOS]])
        target = torch.tensor([[specs.BOS, *best.tokens, specs.EOS]])
        assert translator.program.score(source, target).sum() == best.log_probability


def test_each_source_needs_one_target(translator):
    with pytest.raises(ZooError, match="2 sources and 1 targets"):
        translator.score(["a", "b"], ["a"])
    for mixed in (("ab", ["ab"]), (["ab"], "ab")):
        with pytest.raises(TypeError, match="a list of"):
            translator.score(*mixed)


def test_texts_must_be_single_lines_of_text(translator):
    with pytest.raises(ZooError, match=r"text 2 \('a\\nb'\) has a line break in it") as caught:
        translator.translate(["a", "a\nb"])
    assert "one line" in caught.value.hint
    assert translator.translate("ab\n") == translator.translate("ab")
    with pytest.raises(TypeError, match="text 1 is a bytes"):
        translator.translate([b"ab"])
    with pytest.raises(TypeError, match="text 2 is a NoneType"):
        translator.translate(["ab", None])
    with pytest.raises(ZooError, match="half of a surrogate pair"):
        translator.translate("ab\udcff")


def test_options_are_checked_without_any_text(translator):
    for choice in ({"n_best": 4}, {"max_batch_tokens": 0}, {"top_k": 3}):
        with pytest.raises(ZooError, match=f"`{next(iter(choice))}` (is|has no effect)"):
            translator.translate("", **choice)
    with pytest.raises(ZooError, match=r"`max_batch_tokens` is `1\.5`"):
        translator.score("a", "a", max_batch_tokens=1.5)
    with pytest.raises(TypeError, match="`beams` is not a generation option"):
        translator.translate("ab", beams=4)


def test_a_source_of_unknown_tokens_is_translated(tokens, small):
    """Every hypothesis has a finite score."""
    spec = small()
    translator = Translator(build(spec), tokens, spec)
    assert specs.UNK in tokens.encode("你好")
    (found,) = translator.hypotheses(["你好"], n_best=2)
    assert len(found) == 2
    assert all(math.isfinite(each.score) for each in found)


def test_prefixes_are_normalised_and_checked(tokens, small):
    """Prefixes are normalised as all text is. Prefixes that cannot be written are refused by their number."""
    spec = small()
    translator = Translator(build(spec), tokens, spec)
    for prefix in ("der  alte\x07Hund", " der\talte Hund ", "\ufeffder alte\u2028Hund"):
        assert translator.translate("the old dog", prefixes=prefix).startswith("der alte Hund")
    message = r"prefix 2 \('der Ωmega 猫'\) has characters that the model cannot write: 'Ω', '猫'\n"
    with pytest.raises(ZooError, match=message) as error:
        translator.translate(["the old dog", "the cat"], prefixes=["der", "der Ωmega 猫"])
    assert error.value.exit_code == 2
    assert translator.translate("the old dog", prefixes="\u200b") == translator.translate("the old dog")


def test_prefixes_may_have_any_character_with_byte_fallback(small):
    section = specs.load("base", {"vocabulary.size": 285}).vocabulary
    vocabulary = Vocabulary.learn(lambda: [("the old dog", "der alte Hund")] * 9, section)
    sizes = {"architecture": small().architecture.model_dump(), "vocabulary": section.model_dump()}
    spec = specs.load("tiny", {**sizes, "compilation.backend": "eager"})
    translator = Translator(build(spec), vocabulary, spec)
    for text in translator.translate("the old dog Ω", n_best=3, prefixes="Ωmega 猫 🙂"):
        assert text.startswith("Ωmega 猫 🙂")
    assert translator.score("the dog", "der 猫") != translator.score("the dog", "der 犬")


def test_control_characters_count_as_spaces(tokens, small):
    spec = small()
    translator = Translator(build(spec), tokens, spec)
    assert translator.hypotheses(["the\x07old\x00dog"]) == translator.hypotheses(["the old dog"])
    scores = [translator.score_tokens([text], ["wir\x1flesen"]) for text in ("we\x08read", "we read")]
    assert scores[0] == scores[1] == translator.score_tokens(["we read"], ["wir lesen"])


def test_the_n_best_differ_in_their_tokens(translator_of):
    """Two of them may still be the same text."""
    found = translator_of(["decoding.beam=40"]).hypotheses(["ab"], n_best=40)[0]
    assert len({each.tokens for each in found}) == len(found) == 40


def test_a_source_longer_than_any_in_training_gives_a_warning(translator_of):
    report = Listening()
    translator = translator_of(longest_source=6, report=report)
    translator.translate(["abcdef", "ab"])
    assert report.warnings == []
    long = "abcdefgh" * 8
    translator.translate(["ab", long, "abcdefg"])
    assert max(length for _, length in translator.program.encoded) == 65
    (warning,) = report.warnings
    assert warning.startswith(
        "2 of 3 texts are longer than any source in training (6 tokens), the longest is text 2 ('abc"
    )
    translator.score(long, "ab")
    assert len(report.warnings) == 1


def test_learned_positions_limit_sources_and_translations(translator_of):
    learned = ["architecture.positional_encoding=learned", "architecture.max_positions=6"]
    translator = translator_of([*learned, "corpus.max_length=5"])
    assert len(translator.translate("abcde", alpha=10.0)) <= 5  # BOS takes the first position
    with pytest.raises(ZooError, match="needs 7 positions, but the model has learned 6") as caught:
        translator.translate(["ab", "abcdef"])
    assert "'abcdef'" in str(caught.value)
    assert translator.score("abcde", "abcde") < 0
    with pytest.raises(ZooError, match="the target 'abcdef' needs 7 positions"):
        translator.score("ab", "abcdef")


@pytest.mark.parametrize("longest", [0, 2, 5])
def test_the_maximum_length_follows_factor_and_extra_length(translator_of, longest):
    ending = {"shrinking": 1, "admissible": 0}  # what is cut off has a token in the place of EOS
    for factor, extra, limit in ((1.0, 2, longest + 2), (0.0, 4, 4), (2.5, 1, int(2.5 * longest) + 1)):
        for name, more in ending.items():
            fields = {"length_factor": factor, "extra_length": extra, "stopping_rule": name}
            translator = translator_of([f"decoding.{field}={value}" for field, value in fields.items()])
            endless = [0.0 if token == 5 else -9.0 for token in range(13)]
            translator.program.overriding = {(5,) * length: endless for length in range(30)}
            (found,) = translator.hypotheses(["a" * longest], beam=1)[0]
            assert len(found.text) == (limit + more if longest else 0)


@pytest.mark.parametrize("empty", ["", " ", "!"])
def test_an_empty_source_cannot_be_scored_without_eos(translator_of, monkeypatch, empty):
    """Attention over zero positions is undefined. An empty text is still translated, without the model."""
    translator = translator_of()
    whole = translator.score(["ab", empty], ["c", "d"])
    monkeypatch.setattr(type(translator.vocabulary), "source_end", PAD)
    assert len(whole) == len(translator.score(["ab", "b"], ["c", ""]))
    with pytest.raises(
        ZooError, match=r"pair 12 has a source without tokens, .* and this model reads no EOS"
    ) as caught:
        translator.score_tokens(["ab", empty], ["c", "d"], first=11)
    assert caught.value.hint
    assert translator.translate([empty]) == [""]


@pytest.mark.parametrize("choice", [{}, {"beam": 1}, {"search": "sample", "seed": 3}])
def test_suppressed_tokens_are_never_produced_and_scores_stay(translator_of, choice):
    texts = ["ab", "gfe", "h", "dcba"]
    free = translator_of(["vocabulary.size=13"])
    barring = translator_of(["vocabulary.size=13", "decoding.suppressed_tokens=[5, 1, 12]"])
    for translator in (barring, Translator.ensemble([barring, barring])):
        found = translator.translate(texts, **choice)
        assert not any("b" in text or "?" in text for text in found)
        assert any("b" in text or "?" in text for text in free.translate(texts, **choice))
        scores = [each.log_probability for each, *_ in translator.hypotheses(texts, **choice)]
        assert translator.score(texts, found) == pytest.approx(scores)
        assert translator.score(texts, ["b"] * 4) == pytest.approx(free.score(texts, ["b"] * 4))


@pytest.mark.parametrize("choice", [{}, {"beam": 1}, {"search": "sample", "seed": 3}])
def test_a_constraint_applies_to_all_outputs(translator_of, choice):
    """`a` opens a constituent, `b` closes it, and `c` is a word."""
    translator = translator_of(["decoding.extra_length=9"])
    translator.constraint = BracketConstraint((4,), (5,), (6,), 13)
    texts = ["h", " fe  dg h\u00a0", "", "cc"]
    for text, (found, *_) in zip(texts, translator.hypotheses(texts, **choice), strict=True):
        nested = found.text
        while (less := re.sub("a(c+)b", lambda inner: "c" * len(inner[1]), nested)) != nested:
            nested = less
        assert nested == "c" * len(text.split())
    assert translator.translate("h e", prefixes="aac", **choice).startswith("aac")
    with pytest.raises(ZooError, match="the prefix of sentence 1, 'h e', has a token that is not allowed"):
        translator.translate("h e", prefixes="ab", **choice)
