"""Lines in, translations out: in order, early, and without the batch running dry between windows."""

import random

import pytest

from specs import ZooError
from zoo.generation.streaming import FIRST_CHUNK_LINES, translate_lines

TEXTS = ["ab", "", "hgfedc", " \t", "a b", "ab", "h", "abcabcabc"]


def random_texts(count, longest=20):
    draw = random.Random(1)
    return ["".join(draw.choices("abcdefgh", k=draw.randrange(1, longest))) for _ in range(count)]


@pytest.fixture
def translator(translator_of):
    return translator_of()


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_lines_come_in_order(translator, window):
    expected = translator.hypotheses(TEXTS, n_best=2)
    assert list(translate_lines(translator, iter(TEXTS), n_best=2, window=window)) == expected
    texts = random_texts(300)
    assert list(translate_lines(translator, texts, window=window, tokens=100)) == translator.hypotheses(texts)


def test_nothing_is_read_before_something_is_asked_for(translator):
    read = []
    found = translate_lines(translator, (read.append(text) or text for text in TEXTS))
    assert read == []
    next(found)
    assert read == TEXTS


@pytest.mark.parametrize("texts", [[], [""], ["", "", ""], ["", "ab", "", ""], ["ab", *[""] * 200, "b"]])
def test_empty_lines_stay_where_they_are(translator, texts):
    assert list(translate_lines(translator, texts, window=4)) == translator.hypotheses(texts)


def test_who_types_is_answered_before_the_next_line_is_read(translator):
    events = []

    def typed():
        for text in TEXTS:
            events.append("read")
            yield text

    for _ in translate_lines(translator, typed(), paused=lambda: True):
        events.append("told")
    assert events == ["read", "told"] * len(TEXTS)


@pytest.mark.parametrize(
    "pauses",
    [
        {1},
        {3, 4},
        set(range(0, 200, 7)),
        {FIRST_CHUNK_LINES},
        {FIRST_CHUNK_LINES, 3 * FIRST_CHUNK_LINES, 3 * FIRST_CHUNK_LINES + 5},
    ],
)
def test_where_the_input_pauses_all_that_came_is_answered(translator, pauses):
    """And the translations are those of all lines together."""
    texts, read, told = random_texts(200), [], []

    def lines():
        for text in texts:
            if len(read) in pauses:
                assert len(told) == len(read), "whoever waits for the answers sends nothing more"
            read.append(text)
            yield text

    for each in translate_lines(translator, lines(), paused=lambda: len(read) in pauses):
        told.append(each)
    assert told == translator.hypotheses(texts)


def test_a_line_is_told_while_later_ones_are_still_waited_for(translator):
    """A line comes as soon as it and all before it are done: not when its window is, and not when all are."""
    read, texts = [], random_texts(2000)
    steps, told = translator.program.read, []
    for _ in translate_lines(translator, (read.append(text) or text for text in texts), tokens=160):
        told.append((len(steps), len(read)))
    assert told[0][1] < 200, "the first line is told before a tenth of them is read"
    assert all(seen - number <= 2100 for number, (_, seen) in enumerate(told))
    # Every line is told in the step that finishes the last of it and those before it.
    late = [number for number, (step, _) in enumerate(told) if step == told[-1][0]]
    assert len(late) < 300
    assert told == sorted(told)


def test_the_batch_stays_full_from_window_to_window(translator):
    texts = random_texts(1000, longest=15)
    list(translate_lines(translator, texts, window=100, tokens=16 * 16))
    rows = [count for count in translator.program.read if count > 16]  # not the first steps, of a row a sentence
    rows = rows[: -len(rows) // 10]  # at the end there is nobody to wait for
    assert max(rows) == 16 * 3
    assert min(rows) > 16 * 3 / 3
    assert sum(rows) / len(rows) > 16 * 3 * 0.75


def test_windows_grow_so_that_the_first_lines_come_soon(translator):
    read = []
    found = translate_lines(translator, (read.append(text) or text for text in random_texts(900)), tokens=10_000)
    next(found)
    assert FIRST_CHUNK_LINES <= len(read) <= 15 * FIRST_CHUNK_LINES
    assert len([*found]) == 899


def test_an_error_in_a_line_comes_after_what_was_read_before(translator):
    """Line by line, though many are read at a time."""
    texts = [*random_texts(FIRST_CHUNK_LINES), "a", "b\nc", "d"]
    found = translate_lines(translator, texts)
    assert [next(found) for _ in range(FIRST_CHUNK_LINES + 1)] == translator.hypotheses(texts[: FIRST_CHUNK_LINES + 1])
    with pytest.raises(ZooError, match=rf"text {FIRST_CHUNK_LINES + 2} \('b\\nc'\) has a line break"):
        next(found)


def test_an_error_of_the_lines_themselves_comes_as_it_is(translator):
    def lines():
        yield from random_texts(FIRST_CHUNK_LINES + 3)
        raise OSError("the disk is gone")

    found = translate_lines(translator, lines())
    assert len([next(found) for _ in range(FIRST_CHUNK_LINES + 3)]) == FIRST_CHUNK_LINES + 3
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


@pytest.mark.parametrize("window", [1, 100])
def test_samples_of_a_line_are_the_same_however_lines_come(translator, window):
    choice = {"search": "sample", "seed": 5}
    expected = translator.hypotheses(TEXTS * 3, **choice)
    assert list(translate_lines(translator, TEXTS * 3, window=window, **choice)) == expected
    assert len({each[0].text for each in expected[0::8]}) > 1, "equal lines have streams of their own"


def test_prefixes_come_line_by_line_too(translator):
    prefixes = ["a", "", "bb", "", "", "c", "", ""]
    expected = translator.hypotheses(TEXTS, prefixes=prefixes)
    for window in (1, 3, 100):
        assert list(translate_lines(translator, TEXTS, prefixes=iter(prefixes), window=window)) == expected
    with pytest.raises(ZooError, match="there are 5 prefixes, and more texts"):
        list(translate_lines(translator, TEXTS, prefixes=prefixes[:5]))


def test_workers_tell_lines_in_order_too(translator):
    translator.program.concurrent = True
    texts = random_texts(300)
    assert list(translate_lines(translator, texts, workers=3, tokens=100)) == translator.hypotheses(texts, workers=1)


def test_long_lines_are_counted_once_for_all(translator_of, report):
    translator = translator_of(longest_source=6, report=report)
    texts = ["ab", "abcdefg"] * 100 + ["abcdefgh"]
    for paused in (lambda: False, lambda: True):
        assert len(list(translate_lines(translator, texts, window=16, paused=paused))) == 201
        (warning,) = report.warnings
        assert warning.startswith(
            "longer than any source in training (6 tokens): 101 of 201, at most 8 tokens, text 201"
        )
        report.warnings.clear()


SENTENCES = ["ab.", "cde!", "fgh ab?", "ab ab ab.", "h..."]


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_a_line_that_is_too_long_is_translated_in_parts(translator_of, report, search):
    """Of which each is as long as can be, and ends where a sentence does."""
    whole, long = translator_of(), " ".join(SENTENCES)
    limited = translator_of(["decoding.max_source_length=10"], report=report)
    parts = ["ab. cde!", "fgh ab?", "ab ab ab. h..."]  # of letters and spaces; the marks have no token
    texts = ["ab", long, "h", "gfe", long]
    choice = {"search": search, "n_best": 2}
    prefixes = ["", "ba", "", "", ""]
    found = list(translate_lines(limited, texts, prefixes=prefixes, **choice))
    assert found == limited.hypotheses(texts, prefixes=prefixes, **choice)
    plain = whole.hypotheses(texts, prefixes=prefixes, **choice)
    assert [found[index] for index in (0, 2, 3)] == [plain[index] for index in (0, 2, 3)]
    for index in (1, 4) if search == "beam" else ():
        expected = whole.hypotheses(parts, prefixes=[prefixes[index], "", ""], **choice)
        for place, each in enumerate(found[index]):
            assert each.text == " ".join(of[place].text for of in expected if of[place].text)
            assert each.log_probability == pytest.approx(sum(of[place].log_probability for of in expected))
            assert each.score == pytest.approx(sum(of[place].score for of in expected))
    assert all(each.text.startswith("ba") for each in found[1])
    (warning, _) = report.warnings
    assert warning.startswith("longer than `decoding.max_source_length` (10 tokens): 2 of 5, at most 24 tokens, text 2")


def test_learned_positions_bound_what_is_translated_whole(translator_of):
    learned = ["architecture.positional_encoding=learned", "architecture.max_positions=11", "corpus.max_length=9"]
    text = " ".join(SENTENCES)
    limited = translator_of(["decoding.max_source_length=10"])
    assert translator_of(learned).translate(text) == limited.translate(text)
    with pytest.raises(ZooError, match="takes 12 positions, and the model has learned 11"):
        translator_of(learned).translate("ab. " + "h" * 11)


def test_a_sentence_that_is_too_long_is_refused_by_its_number(translator_of):
    translator = translator_of(["decoding.max_source_length=10"])
    found = translate_lines(translator, ["ab", "ab. " + "h" * 11 + ". ab.", "h"])
    assert next(found)[0].text
    message = r"text 2 \('ab. hhh.*'\) has a sentence of 11 tokens, and the model takes 10 \(`decoding.max_source_leng"
    with pytest.raises(ZooError, match=message):
        next(found)
    assert translator.translate("h" * 10)


def test_a_prefix_with_what_the_spec_bars_is_told_behind_the_lines_before_it(translator_of):
    translator = translator_of(["vocabulary.size=13", "decoding.suppressed_tokens=[5]"])
    found = translate_lines(translator, ["ab"] * 4, prefixes=["", "ac", "", "acb"])
    assert len([next(found) for _ in range(3)]) == 3
    with pytest.raises(
        ZooError, match=r"prefix 4 \('acb'\) has tokens that `decoding.suppressed_tokens` leaves out: 'b'"
    ):
        next(found)


def test_a_prefix_that_cannot_be_of_a_long_line_is_told_behind_the_lines_before_it(translator_of):
    """The search of those before it goes on."""
    translator = translator_of(["decoding.max_source_length=10"])
    found = translate_lines(translator, [*["ab"] * 5, " ".join(SENTENCES)], prefixes=[*[""] * 5, "h" * 50])
    assert len([next(found) for _ in range(5)]) == 5
    with pytest.raises(
        ZooError, match=r"the prefix 'h+\.\.\.' has 50 tokens, and a translation of 'ab\. cde!' has 8 at most"
    ):
        next(found)


def test_parts_of_a_line_draw_by_streams_of_their_own(translator_of):
    translator = translator_of(["decoding.max_source_length=10"])
    texts = ["abcdefgh. gfedcba.", "gfedcba."]
    told = {"search": "sample", "n_best": 1, "temperature": 3.0}
    seeds = [[each[0].text for each in translator.hypotheses(texts, seed=seed, **told)] for seed in range(5)]
    assert not all(first.endswith(second) for first, second in seeds)
    alone = [translator.translate("abcdefgh.", seed=seed, **told)[0] for seed in range(5)]
    for (first, _), whole in zip(seeds, alone, strict=True):
        assert first.startswith(whole), "the first part draws as a text does"
