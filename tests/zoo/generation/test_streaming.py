"""Streaming of lines: results come in order and early, and batches stay full between chunks."""

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
    assert list(translate_lines(translator, iter(TEXTS), n_best=2, max_chunk_lines=window)) == expected
    texts = random_texts(300)
    assert list(
        translate_lines(translator, texts, max_chunk_lines=window, max_batch_tokens=100)
    ) == translator.hypotheses(texts)


def test_nothing_is_read_before_the_first_result_is_requested(translator):
    read = []
    found = translate_lines(translator, (read.append(text) or text for text in TEXTS))
    assert read == []
    next(found)
    assert read == TEXTS


@pytest.mark.parametrize("texts", [[], [""], ["", "", ""], ["", "ab", "", ""], ["ab", *[""] * 200, "b"]])
def test_empty_lines_keep_their_position(translator, texts):
    assert list(translate_lines(translator, texts, max_chunk_lines=4)) == translator.hypotheses(texts)


def test_a_typed_line_is_answered_before_the_next_is_read(translator):
    events = []

    def typed():
        for text in TEXTS:
            events.append("read")
            yield text

    for _ in translate_lines(translator, typed(), paused=lambda: True):
        events.append("answered")
    assert events == ["read", "answered"] * len(TEXTS)


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
    read, texts = [], random_texts(2000)
    steps, answered = translator.program.read, []
    for _ in translate_lines(translator, (read.append(text) or text for text in texts), max_batch_tokens=160):
        answered.append((len(steps), len(read)))
    assert answered[0][1] < 200, "the first line is answered before a tenth of them is read"
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


def test_chunks_grow_from_a_small_first_one(translator):
    read = []
    found = translate_lines(
        translator, (read.append(text) or text for text in random_texts(900)), max_batch_tokens=10_000
    )
    next(found)
    assert FIRST_CHUNK_LINES <= len(read) <= 15 * FIRST_CHUNK_LINES
    assert len([*found]) == 899


def test_an_error_in_a_line_comes_after_all_earlier_lines(translator):
    """This holds line by line, although many lines are read at a time."""
    texts = [*random_texts(FIRST_CHUNK_LINES), "a", "b\nc", "d"]
    found = translate_lines(translator, texts)
    assert [next(found) for _ in range(FIRST_CHUNK_LINES + 1)] == translator.hypotheses(texts[: FIRST_CHUNK_LINES + 1])
    with pytest.raises(ZooError, match=rf"text {FIRST_CHUNK_LINES + 2} \('b\\nc'\) has a line break"):
        next(found)


def test_an_error_of_the_input_is_raised_unchanged(translator):
    def lines():
        yield from random_texts(FIRST_CHUNK_LINES + 3)
        raise OSError("the disk is gone")

    found = translate_lines(translator, lines())
    assert len([next(found) for _ in range(FIRST_CHUNK_LINES + 3)]) == FIRST_CHUNK_LINES + 3
    with pytest.raises(OSError, match="the disk is gone"):
        next(found)


@pytest.mark.parametrize("window", [1, 100])
def test_samples_do_not_depend_on_chunks(translator, window):
    choice = {"search": "sample", "seed": 5}
    expected = translator.hypotheses(TEXTS * 3, **choice)
    assert list(translate_lines(translator, TEXTS * 3, max_chunk_lines=window, **choice)) == expected
    assert len({each[0].text for each in expected[0::8]}) > 1, "equal lines have streams of their own"


def test_prefixes_are_read_line_by_line(translator):
    prefixes = ["a", "", "bb", "", "", "c", "", ""]
    expected = translator.hypotheses(TEXTS, prefixes=prefixes)
    for window in (1, 3, 100):
        assert list(translate_lines(translator, TEXTS, prefixes=iter(prefixes), max_chunk_lines=window)) == expected
    with pytest.raises(ZooError, match="there are 5 prefixes, but more texts"):
        list(translate_lines(translator, TEXTS, prefixes=prefixes[:5]))


def test_workers_keep_the_order_of_lines(translator):
    translator.program.concurrent = True
    texts = random_texts(300)
    assert list(translate_lines(translator, texts, workers=3, max_batch_tokens=100)) == translator.hypotheses(
        texts, workers=1
    )


def test_long_lines_are_counted_once(translator_of, report):
    translator = translator_of(longest_source=6, report=report)
    texts = ["ab", "abcdefg"] * 100 + ["abcdefgh"]
    for paused in (lambda: False, lambda: True):
        assert len(list(translate_lines(translator, texts, max_chunk_lines=16, paused=paused))) == 201
        (warning,) = report.warnings
        assert warning.startswith(
            "101 of 201 texts are longer than any source in training (6 tokens), the longest is text 201"
        )
        report.warnings.clear()


SENTENCES = ["ab.", "cde!", "fgh ab?", "ab ab ab.", "h..."]


@pytest.mark.parametrize("search", ["beam", "sample"])
def test_a_long_line_is_translated_in_parts(translator_of, report, search):
    """Each part is as long as possible and ends where a sentence does."""
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
    assert warning.startswith(
        "2 of 5 texts are longer than `decoding.max_source_length` (10 tokens), the longest is text 2"
    )


def test_learned_positions_limit_whole_translation(translator_of):
    learned = ["architecture.positional_encoding=learned", "architecture.max_positions=11", "corpus.max_length=9"]
    text = " ".join(SENTENCES)
    limited = translator_of(["decoding.max_source_length=10"])
    assert translator_of(learned).translate(text) == limited.translate(text)
    with pytest.raises(ZooError, match="needs 12 positions, but the model has learned 11"):
        translator_of(learned).translate("ab. " + "h" * 11)


def test_a_long_sentence_is_refused_with_its_number(translator_of):
    translator = translator_of(["decoding.max_source_length=10"])
    found = translate_lines(translator, ["ab", "ab. " + "h" * 11 + ". ab.", "h"])
    assert next(found)[0].text
    message = r"text 2 \('ab. hhh.*'\) has a sentence of 11 tokens, but the model takes at most 10 \(`decoding"
    with pytest.raises(ZooError, match=message):
        next(found)
    assert translator.translate("h" * 10)


def test_a_prefix_with_suppressed_tokens_is_refused_after_earlier_lines(translator_of):
    translator = translator_of(["vocabulary.size=13", "decoding.suppressed_tokens=[5]"])
    found = translate_lines(translator, ["ab"] * 4, prefixes=["", "ac", "", "acb"])
    assert len([next(found) for _ in range(3)]) == 3
    with pytest.raises(ZooError, match=r"prefix 4 \('acb'\) has tokens that `decoding.suppressed_tokens` forbids: 'b'"):
        next(found)


def test_a_prefix_that_is_too_long_is_refused_after_earlier_lines(translator_of):
    """The search for earlier lines continues."""
    translator = translator_of(["decoding.max_source_length=10"])
    found = translate_lines(translator, [*["ab"] * 5, " ".join(SENTENCES)], prefixes=[*[""] * 5, "h" * 50])
    assert len([next(found) for _ in range(5)]) == 5
    with pytest.raises(
        ZooError, match=r"the prefix 'h+\.\.\.' has 50 tokens, but a translation of 'ab\. cde!' has at most 8"
    ):
        next(found)


def test_parts_of_a_line_have_their_own_random_numbers(translator_of):
    translator = translator_of(["decoding.max_source_length=10"])
    texts = ["abcdefgh. gfedcba.", "gfedcba."]
    options = {"search": "sample", "n_best": 1, "temperature": 3.0}
    seeds = [[each[0].text for each in translator.hypotheses(texts, seed=seed, **options)] for seed in range(5)]
    assert not all(first.endswith(second) for first, second in seeds)
    alone = [translator.translate("abcdefgh.", seed=seed, **options)[0] for seed in range(5)]
    for (first, _), whole in zip(seeds, alone, strict=True):
        assert first.startswith(whole), "the first part draws as a text does"
