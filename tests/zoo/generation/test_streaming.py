"""Streaming of lines: results come in order and early, and batches stay full between chunks."""

import random

import pytest

from specs import ZooError
from tests.examples import changed
from tests.refusals import refused
from tests.zoo.generation.test_translator import TEXTS
from zoo.generation.text_search import FIRST_CHUNK_LINES as FIRST
from zoo.generation.text_search import translate_lines


def random_texts(count, longest=20):
    draw = random.Random(1)
    return ["".join(draw.choices("abcdefgh", k=draw.randrange(1, longest))) for _ in range(count)]


@pytest.mark.parametrize("window", [3, 100])
def test_lines_come_in_order(translator, window):
    def streamed(texts, **options):
        return list(translate_lines(translator, iter(texts), max_chunk_lines=window, **options))

    assert streamed(TEXTS, n_best=2) == translator.hypotheses(TEXTS, n_best=2)
    texts = random_texts(300)
    assert streamed(texts, max_batch_tokens=100) == translator.hypotheses(texts)
    for empty in ([], [""], ["", "ab", "", ""], ["ab", *[""] * 200, "b"]):
        assert streamed(empty) == translator.hypotheses(empty)
    sampling = {"search": "sample", "seed": 5}
    samples = streamed(TEXTS * 3, **sampling)
    assert samples == translator.hypotheses(TEXTS * 3, **sampling)
    assert len({each[0].text for each in samples[::8]}) > 1, "equal lines have streams of their own"
    prefixes = ["a", "", "bb", "", "", "c", "", ""]
    assert streamed(TEXTS, prefixes=iter(prefixes)) == translator.hypotheses(TEXTS, prefixes=prefixes)
    refused(r"there are more texts than prefixes \(number of prefixes: 5\)", streamed, TEXTS, prefixes=prefixes[:5])


PAUSES = range(201), {3, 4}, range(0, 200, 7), {FIRST, 3 * FIRST, 3 * FIRST + 5}


@pytest.mark.parametrize("pauses", PAUSES, ids=str)
def test_all_lines_before_a_pause_are_answered(translator, pauses):
    """The translations equal those of all lines together."""
    texts, read, answered = random_texts(200), [], []

    def lines():
        for text in texts:
            if len(read) in pauses:
                assert len(answered) == len(read), "a caller who waits for answers sends nothing more"
            read.append(text)
            yield text

    for each in translate_lines(translator, lines(), paused=lambda: len(read) in pauses):
        answered.append(each)
    assert answered == translator.hypotheses(texts)


def test_a_line_is_returned_while_later_lines_are_pending(translator):
    """A line is returned once it and all lines before it are done, before the rest of its chunk."""
    lines_read, texts, steps, answered = [], random_texts(2000), translator.program.read, []
    results = translate_lines(translator, (lines_read.append(text) or text for text in texts), max_batch_tokens=160)
    assert lines_read == [], "nothing is read before the first result is requested"
    for _ in results:
        answered.append((len(steps), len(lines_read)))
    assert FIRST <= answered[0][1] < 200, "the first line is answered before a tenth of them is read"
    assert all(seen - number <= 2100 for number, (_, seen) in enumerate(answered))
    # Every line is answered in the step that finishes the last of it and those before it.
    late = [number for number, (step, _) in enumerate(answered) if step == answered[-1][0]]
    assert len(late) < 300
    assert answered == sorted(answered)


def test_the_batch_stays_full_across_chunks(translator):
    texts = random_texts(1000, longest=15)
    list(translate_lines(translator, texts, max_chunk_lines=100, max_batch_tokens=16 * 16))
    rows = [count for count in translator.program.read if count > 16]  # not the first steps, of a row a sentence
    rows = rows[: -len(rows) // 10]  # at the end there is nobody to wait for
    assert max(rows) == 16 * 3
    assert min(rows) > 16 * 3 / 3
    assert sum(rows) / len(rows) > 16 * 3 * 0.75


def lines_before_an_error():
    yield from random_texts(FIRST + 3)
    raise OSError("the disk is gone")


LIMITED = ["decoding.max_source_length=10"]
SUPPRESSED = ["vocabulary.size=13", "decoding.suppressed_tokens=[5]"]


FAILING = [
    ([], [*random_texts(FIRST), "a", "b\nc", "d"], None, FIRST + 1, "contains a line break"),
    ([], lines_before_an_error(), None, FIRST + 3, "the disk is gone"),
    (LIMITED, ["ab", "ab. " + "h" * 11, "h"], None, 1, r"the sentence 'h*' has 11 .* most 10 .*\(text 2\)"),
    (SUPPRESSED, ["ab"] * 4, ["", "ac", "", "acb"], 3, r"prefix 'acb' has tokens that .* forbids: 'b' \(text 4\)"),
    (LIMITED, ["ab", "ab. cde! fgh ab?"], ["", "h" * 50], 1, "50 tokens, but .* 'ab. cde!' has at most 8"),
]


@pytest.mark.parametrize(("fields", "texts", "prefixes", "answers", "message"), FAILING)
def test_an_error_comes_after_all_earlier_results(translator_of, fields, texts, prefixes, answers, message):
    results = translate_lines(translator_of(fields), texts, prefixes=prefixes)
    assert len([next(results) for _ in range(answers)]) == answers
    with pytest.raises((ZooError, OSError), match=message):
        next(results)


def test_long_lines_are_counted_once(translator_of, report):
    translator = translator_of(longest_source=6, report=report)
    texts = ["abcdef", "abcdefg"] * 100 + ["abcdefgh"]
    for paused in (lambda: False, lambda: True):
        assert len(list(translate_lines(translator, texts, max_chunk_lines=16, paused=paused))) == 201
        (warning,) = report.warnings
        start = "101 of 201 texts are longer than any source in the training data (6 tokens)"
        assert warning.startswith(f"{start}, and the longest is text 201")
        report.warnings.clear()


SENTENCES = ["ab.", "cde!", "fgh ab?", "ab ab ab.", "hh..."]


def test_parts_of_a_line_have_their_own_random_numbers(translator_of):
    translator = translator_of(["decoding.max_source_length=10"])
    texts = ["abcdefgh. gfedcba.", "gfedcba."]
    options = {"search": "sample", "n_best": 1, "temperature": 3.0, "split": False}
    seeds = [[each[0].text for each in translator.hypotheses(texts, seed=seed, **options)] for seed in range(5)]
    assert not all(first.endswith(second) for first, second in seeds)
    for seed, (first, _) in enumerate(seeds):
        (whole,) = translator.translate("abcdefgh.", seed=seed, **options)
        assert first.startswith(whole), "the first part draws as a text does"
    for text in ("abcdefgh.", "gfedcba."):
        once, twice = (translator.translate(each, seed=1, **options)[0] for each in (text, f"{text} {text}"))
        assert twice != f"{once} {once}", "equal parts draw differently"


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_a_long_line_is_translated_in_parts(translator_of, report, search):
    """Each part is as long as possible and ends where a sentence does."""
    whole, long = translator_of(), " ".join(SENTENCES)
    limited = translator_of(LIMITED, report=report)
    parts = ["ab. cde!", "fgh ab?", "ab ab ab. hh..."]  # of letters and spaces; the marks have no token
    texts, prefixes = ["ab", long, "h", "gfe", long], ["", "ba", "", "", ""]
    options = {"search": search, "n_best": 2, "split": False}
    results = list(translate_lines(limited, texts, prefixes=prefixes, **options))
    assert results == limited.hypotheses(texts, prefixes=prefixes, **options)
    unsplit = whole.hypotheses(texts, prefixes=prefixes, **options)
    assert [results[index] for index in (0, 2, 3)] == [unsplit[index] for index in (0, 2, 3)]
    for index in (1, 4) if search == "beam" else ():
        of_parts = whole.hypotheses(parts, prefixes=[prefixes[index], "", ""], **options)
        for rank, joined in enumerate(results[index]):
            expected = [translations[rank] for translations in of_parts]
            assert joined.text == " ".join(part.text for part in expected if part.text)
            assert joined.log_probability == pytest.approx(sum(part.log_probability for part in expected))
            assert joined.score == pytest.approx(sum(part.score for part in expected))
    assert all(joined.text.startswith("ba") for joined in results[1])
    expected = "2 of 5 texts are longer than `decoding.max_source_length` (10 tokens), and the longest is text 2"
    assert report.warnings[0].startswith(expected)
    learned = ["architecture.positions={kind: learned, rows: 11}", "corpus.max_length=9"]
    expected = limited.translate(long, split=False)
    assert translator_of(learned).translate(long, split=False) == expected, "positions limit it as well"


LINES = ["ab. cde!", "fgh ab?  cde.", "", "gfe", "ab. " * 20 + "b"]
SENTENCES_OF_LINES = [["ab.", "cde!"], ["fgh ab?", "cde."], [], ["gfe"], ["ab."] * 20 + ["b"]]


def test_each_sentence_of_a_line_is_translated_by_itself(translator_of, report):
    """The batches hold sentences of all lines, and each line keeps its spacing."""
    translator = translator_of(report=report)
    results = translator.hypotheses(LINES, n_best=2, max_batch_tokens=60)
    assert list(translate_lines(translator, LINES, n_best=2, max_chunk_lines=3)) == results
    for line, sentences, joined in zip(LINES, SENTENCES_OF_LINES, results, strict=True):
        alone = translator.hypotheses(sentences, n_best=2)
        gap = "  " if "  " in line else " "
        assert joined[0].text == gap.join(best.text for best, *_ in alone)
        assert joined[0].log_probability == pytest.approx(sum(best.log_probability for best, *_ in alone))
    assert not report.warnings
    whole = translator.hypotheses(LINES, n_best=2, split=False)
    prefixes = ["b", *[""] * (len(LINES) - 1)]
    with_prefix, *others = translator.hypotheses(LINES, n_best=2, prefixes=prefixes)
    assert others == results[1:]
    assert with_prefix == translator.hypotheses([LINES[0]], n_best=2, prefixes=["b"], split=False)[0]
    long = translator_of(longest_source=513).hypotheses(LINES, n_best=2)
    assert long == whole, "a model that was trained on longer texts gets whole lines"


def test_language_tokens_begin_each_sentence(translator_of):
    for token in (">>a<<", "<2a>"):
        sources = translator_of().preprocessor(split=True).encode(f"{token} ab. cde!", "", 0)
        assert [part.text for part in sources.parts] == [f"{token} ab.", f"{token} cde!"]


@pytest.mark.parametrize(("target", "gap"), [("de", " "), ("zh", ""), ("zh-Hans", "")])
def test_sentences_without_spaces_are_joined_as_the_target_language_does(translator_of, target, gap):
    translator = translator_of()
    translator.spec = changed(translator.spec, "corpus", source="zh", target=target)
    first, second = translator.translate(["ab", "cde"])
    assert translator.translate("ab好。好cde。") == f"{first}{gap}{second}"
    assert translator.translate("\tab. \t cde!\t") == f"{first} \t {second}", "tabs between sentences are kept"
