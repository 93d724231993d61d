"""Translators over a toy program and a vocabulary of letters."""

import threading
from unittest.mock import MagicMock

import pytest
import torch

import specs
from compiler import build
from compiler.padded_batch import PaddedBatch
from specs import ZooError
from tests.examples import examples, small
from tests.refusals import refused
from zoo.generation.sampling import Sampling
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.text.vocabulary import Vocabulary

TEXTS = ["ab", "", "hgfedc", " \t", "a b", "ab", "h", "abcabcabc"]


def test_a_text_gives_a_text_and_a_list_gives_a_list(translator):
    texts = translator.translate(TEXTS)
    assert texts == [translator.translate(text) for text in TEXTS] == translator.translate(iter(TEXTS))
    assert translator.translate([]) == []
    assert translator.translate("ab\n") == texts[0] != ""
    several = translator.translate(TEXTS, n_best=3)
    assert [best for best, *_ in several] == texts
    assert translator.translate("hgfedc", n_best=2) == several[2][:2]
    assert len(set(several[2])) == 3
    assert translator.translate("ab", n_best=1) == [translator.translate("ab")]


def test_translation_equals_the_search_with_the_specs_options(translator, letters, search):
    source, program, alpha = letters.encode("fed"), translator.program, translator.spec.decoding.alpha
    (hypotheses,) = search(program, [source], [3 + 2], beam=3, alpha=alpha, n_best=3)
    expected = [each.with_text(letters.decode(each.tokens)) for each in hypotheses]
    assert translator.hypotheses(["fed"], n_best=3) == [expected]
    (greedy,) = search(program, [source], [3 + 2], beam=1, alpha=0.0)[0]
    assert translator.hypotheses(["fed"], beam=1, alpha=0.0)[0][0].tokens == greedy.tokens
    (drawn,) = search(program, [source], [3 + 2], Sampling(2, alpha, 0.9, 5, 0.8, 7))
    options = {"search": "sample", "temperature": 0.9, "top_k": 5, "top_p": 0.8, "seed": 7}
    (samples,) = translator.hypotheses(["fed"], n_best=2, **options)
    assert [sample.tokens for sample in samples] == [hypothesis.tokens for hypothesis in drawn]


def test_translations_start_with_their_prefixes(translator):
    """Their scores include the prefix."""
    prefixes = ["", "", "ba", "", "h", "ab", "", "hhh"]
    results = translator.hypotheses(TEXTS, n_best=2, prefixes=prefixes)
    free = translator.hypotheses(TEXTS, n_best=2)
    for text, prefix, translations, others in zip(TEXTS, prefixes, results, free, strict=True):
        assert translations == others or prefix
        for translation in translations:
            assert translation.text.startswith(prefix)
            if translation.tokens:
                source = PaddedBatch.pad([[*translator.vocabulary.encode(text), specs.EOS]])
                target = torch.tensor([[specs.BOS, *translation.tokens, specs.EOS]])
                assert translator.program.score(source, target).sum() == translation.log_probability
    assert translator.translate(iter(TEXTS), prefixes=iter(prefixes)) == [best.text for best, *_ in results]
    assert translator.translate("h", prefixes="abc") == "abc", "a prefix may be as long as a translation"
    assert translator.translate("h", prefixes="ab") == translator.translate(["h"], prefixes=["ab"])[0]
    assert translator.translate("hgfedc", prefixes="ba", search="sample").startswith("ba")


WRONG_PREFIXES = [
    (["a", "b"], ["a"], "more texts than prefixes"),
    (["a"], ["a", "b"], "more prefixes than texts"),
    ("ab", ["ab"], "one text and one prefix"),
    (["ab"], "ab", "one text and one prefix"),
    (["a", " "], ["", "a"], "an empty text has the prefix 'a'"),
    ("h", "abcd", "the prefix 'abcd' has 4 tokens, but a translation of 'h' has at most 3"),
    ("ab", "a\nb", r"prefix 1 \('a.nb'\) contains a line break"),
    (["ab", "a"], ["a", None], "prefix 2 is a NoneType"),
]


@pytest.mark.parametrize(("texts", "prefixes", "message"), WRONG_PREFIXES)
def test_each_text_needs_one_prefix(translator, texts, prefixes, message):
    with pytest.raises((ZooError, TypeError), match=message):
        translator.translate(texts, prefixes=prefixes)


def test_empty_texts_do_not_reach_the_model(translator):
    for empty in ("", "   ", "\t", "\u00a0", "\n", "\x01"):  # the last has no token
        assert (translator.translate(empty), translator.translate(empty, n_best=2)) == ("", [""])
    assert translator.program.read == []


def test_submitted_texts_get_the_translations_of_a_single_call(translator):
    """Also empty texts, texts in several parts, and calls with other options at the same time."""
    texts = ["abcd", "", "abc. cde? ", "h", "ab."]
    options = [{}, {"n_best": 2, "alpha": 0.0}, {"beam": 7, "prefixes": ["a", "", "", "b", ""]}]
    options += [{"max_batch_tokens": 40, "split": False}, {"search": "sample", "seed": 3, "n_best": 2}]
    futures = [translator.submit(texts, **each) for each in options for _ in range(3)]
    expected = [translator.hypotheses(texts, **each) for each in options for _ in range(3)]
    assert [future.result() for future in futures] == expected
    assert translator.submit([]).result() == []


def test_submitted_texts_are_checked_at_once(translator):
    for texts, options, message in (("a", {}, "pass a list"), (["a"], {"beam": 0}, "`beam`"), (["a\nb"], {}, "line b")):
        with pytest.raises((ZooError, TypeError), match=message):
            translator.submit(texts, **options)
    assert translator.program.read == []


def test_all_calls_without_limits_of_their_own_share_an_engine(toy, translator_of):
    """While the first step runs, the other calls wait, and then they are encoded together."""
    started, program = threading.Event(), toy(13, 1, 50)
    encode = program.encode
    program.encode = lambda source: started.wait(60) and encode(source)
    translator = translator_of(program=program)
    futures = [translator.submit(["abcdef"], beam=beam) for beam in (1, 2, 3)]
    started.set()
    assert all(future.result() for future in futures)
    assert sum(rows for rows, _ in program.encoded) == 3
    assert len(program.encoded) < 3


def test_batches_fit_the_budget_and_change_nothing(translator_of):
    texts = ["abcdefgh "[start:] * count for start in range(9) for count in range(5)]
    report = MagicMock(Report)
    expected = translator_of().hypotheses(texts, report=report)
    progress = report.progress.return_value.__enter__.return_value
    assert report.progress.call_args.args[1] == progress.advance.call_count == 45
    small = translator_of()
    assert small.hypotheses(texts, max_batch_tokens=90) == expected
    assert len(small.program.encoded) > 5
    assert all(rows * length <= 90 for rows, length in small.program.encoded)
    assert translator_of().hypotheses(texts, max_batch_tokens=1) == expected


def test_scoring_halves_batches_that_do_not_fit_into_memory(translator):
    """A pair that does not fit alone is named by its number."""
    texts = ["ab", "hgf", "c", "abc"]
    expected, score, max_rows = translator.score_tokens(texts, texts), translator.program.score, 2

    def limited(source, target):
        if len(target) > max_rows:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes.")
        return score(source, target)

    translator.program.score = limited
    assert translator.score_tokens(texts, texts) == expected
    max_rows = 0
    with pytest.raises(ZooError, match=r"not enough memory to score pair . alone: . source tokens and . target tokens"):
        translator.score_tokens(texts, texts)
    translator.program.score = lambda *_: torch.zeros(2).reshape(3)
    with pytest.raises(RuntimeError, match="invalid for input of size 2"):
        translator.score_tokens(texts, texts)


def test_scores_are_sums_over_tokens_with_eos(translator, letters):
    sources, targets = ["ab", "hgf", "", "c"], ["ba", "", "abc", "abcdefgh"]
    scores = translator.score_tokens(sources, targets, max_batch_tokens=20)
    assert [score.tokens for score in scores] == [3, 1, 4, 9]
    for source, target, score in zip(sources, targets, scores, strict=True):
        source_ids, tokens = (*letters.encode(source), specs.EOS), (*letters.encode(target), specs.EOS)
        expected = [translator.program.row(source_ids, tokens[:i])[token] for i, token in enumerate(tokens)]
        assert list(score.token_log_probabilities) == expected
    assert translator.score(sources, targets) == [score.log_probability for score in scores]
    assert translator.score("ab", "ba") == scores[0].log_probability
    assert translator.score([], []) == []


WRONG_CALLS = [
    (lambda one: one.translate(["a", "a\nb"]), r"text 2 \('a\\nb'\) contains a line break\n\nhint: split the text"),
    (lambda one: one.translate([b"ab"]), "text 1 is a bytes"),
    (lambda one: one.align("ab", "ab"), "`sources` is 'ab': pass a list"),
    (lambda one: one.translate("ab", target=5), "a language is a string such as `de`, not 5"),
    (lambda one: one.translate("ab\udcff"), "half of a surrogate pair"),
    (lambda one: one.score(["a", "b"], ["a"]), "numbers of sources and targets differ: 2 and 1\n"),
    (lambda one: one.score("ab", ["ab"]), "a list of"),
    (lambda one: one.score("a", "a", max_batch_tokens=True), "`max_batch_tokens` is `true`; it should be"),
    (lambda one: one.translate("", top_k=3), "`top_k` has no effect"),
    (lambda one: one.translate("ab", beams=4), "there is no option `beams`; did you mean `beam`?"),
    (lambda one: one.translate("ab", to="de"), "there is no option `to`; did you mean `target`?"),
    (lambda one: one.translate(5), "`texts` is 5: pass a list of strings"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS)
def test_texts_must_be_single_lines_and_options_valid_even_without_any_text(translator, call, message):
    with pytest.raises((ZooError, TypeError), match=message):
        call(translator)


def test_prefixes_are_normalised_and_checked(tokens):
    """Prefixes are normalised as all text is. Prefixes that cannot be written are refused by their number."""
    spec = small()
    translator = Translator(build(spec), tokens, spec)
    for prefix in ("der  alte\x07Hund", " der\talte Hund ", "\ufeffder alte\u2028Hund"):
        assert translator.translate("the old dog", prefixes=prefix).startswith("der alte Hund")
    message = r"prefix 'der Ωmega 猫' has characters that the model cannot generate: 'Ω', '猫' \(text 2\)\n"
    refused(message, translator.translate, ["the old dog", "the cat"], prefixes=["der", "der Ωmega 猫"])
    assert translator.translate("the old dog", prefixes="\u200b") == translator.translate("the old dog")


def test_prefixes_may_have_any_character_with_byte_fallback():
    section = specs.load("base", {"vocabulary.size": 285}).vocabulary
    vocabulary = Vocabulary.learn(lambda: examples([("the old dog", "der alte Hund")] * 9), section)
    spec = small().model_copy(update={"vocabulary": section})
    translator = Translator(build(spec, backend="eager"), vocabulary, spec)
    for text in translator.translate("the old dog Ω", n_best=3, prefixes="Ωmega 猫 🙂"):
        assert text.startswith("Ωmega 猫 🙂")
    assert translator.score("the dog", "der 猫") != translator.score("the dog", "der 犬")


def test_the_cost_of_many_hypotheses_is_announced(translator_of, report):
    translator = translator_of(["decoding.beam=4"], report=report)
    translator.hypotheses(["ab"], beam=8)
    assert not any("times as long" in text for text in report.said)
    for options, kind in (({"beam": 200}, "beam size"), ({"search": "sample", "n_best": 200}, "number of samples")):
        translator.hypotheses(["ab"], **options)
        assert f"with a {kind} of 200, this takes about 50 times as long as a beam of 4" in report.said


def test_learned_positions_limit_sources_and_translations(translator_of):
    translator = translator_of(["architecture.positions={kind: learned, rows: 6}", "corpus.max_length=5"])
    assert len(translator.translate("abcde", alpha=10.0)) <= 5  # BOS takes the first position
    refused(r"source 'abcdef' needs 7 .*, but the model has 6 .*\(text 2\)", translator.translate, ["ab", "abcdef"])
    assert translator.score("abcde", "abcde") < 0
    refused("the target 'abcdef' needs 7 positions", translator.score, "ab", "abcdef")


@pytest.mark.parametrize("longest", [0, 2, 5])
def test_the_maximum_length_follows_factor_and_extra_length(translator_of, longest):
    for factor, extra, limit in ((1.0, 2, longest + 2), (0.0, 4, 4), (2.5, 1, int(2.5 * longest) + 1)):
        # What is cut off has a token in the place of EOS.
        for stopping_rule, more in (("shrinking", 1), ("admissible", 0)):
            fields = {"length_factor": factor, "extra_length": extra, "stopping_rule": stopping_rule}
            translator = translator_of([f"decoding.{field}={value}" for field, value in fields.items()])
            endless = [0.0 if token == 5 else -9.0 for token in range(13)]
            translator.program.overriding = {(5,) * length: endless for length in range(30)}
            (best,) = translator.hypotheses(["a" * longest], beam=1)[0]
            assert len(best.text) == (limit + more if longest else 0)


@pytest.mark.parametrize("side", ["source", "target"])
def test_texts_that_are_too_long_to_score_are_rejected_without_using_memory(translator, monkeypatch, side):
    monkeypatch.setattr(translator, "program", None)
    pair = {"source": "ab", "target": "ab"} | {side: "ab " * 5_000}
    with pytest.raises(ZooError, match=rf"pair 12 has a {side} of \d+,\d+ tokens, but the maximum is 10,000"):
        translator.score_tokens(["ab", pair["source"]], ["c", pair["target"]], first=11)


@pytest.mark.parametrize("empty", ["", " ", "!"])
def test_an_empty_source_cannot_be_scored_without_eos(translator, monkeypatch, empty):
    """Attention over zero positions is undefined. An empty text is still translated, without the model."""
    assert len(translator.score(["ab", empty], ["c", "d"])) == 2
    monkeypatch.setattr(type(translator.vocabulary), "source_suffix", ())
    assert len(translator.score(["ab", "b"], ["c", ""])) == 2
    with pytest.raises(ZooError, match=r"pair 12 has a source without tokens \(.*\), and this model appends no EOS"):
        translator.score_tokens(["ab", empty], ["c", "d"], first=11)
    assert translator.translate([empty]) == [""]


def test_suppressed_tokens_are_never_produced_and_scores_stay(translator_of):
    texts, size, forbidden = ["ab", "gfe", "h", "dcba"], "vocabulary.size=13", {"b", "?"}
    free, suppressing = translator_of([size]), translator_of([size, "decoding.suppressed_tokens=[5, 1, 12]"])
    assert forbidden & {*"".join(free.translate(texts))}
    for translator in (suppressing, Translator.ensemble([suppressing, suppressing])):
        assert not forbidden & {*"".join(translator.translate(texts))}
        assert translator.score(texts, ["b"] * 4) == pytest.approx(free.score(texts, ["b"] * 4))
