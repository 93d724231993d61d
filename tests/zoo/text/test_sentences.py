"""Splitting a line into sentences, and checks of texts."""

from hypothesis import given
from hypothesis import strategies as st

from tests.refusals import refused
from zoo.text.sentences import MAX_TEXT_LENGTH, MAX_WORD_LENGTH, checked_texts, split_sentences


def test_sentences_end_at_punctuation_marks():
    for language, sentences in (
        ("en", ["no end"]),
        ("en", ["One. ", "Two! ", "Three? ", "five"]),
        ("und", ["A dog. ", "A cat."]),
        ("en", ["the old dog sleeps. ", "he sees a house."]),
        ("hi", ["यह एक घर है। ", "वह सोता है।"]),
        ("en", ["Please call Ms. Garcia on Monday. ", "We meet at 9 AM. ", "Bring it."]),
        ("en", ["The total is $12.50. ", "Please pay by Friday."]),
        ("zh", ["你好。", "「再见！」", "走吗？", "好"]),
        ("en", ["Dr. Smith met Mr. J. Brown at 5 p.m. today, e.g. by car. ", "He left.  \t ", "It costs 3.50"]),
        ("en", ["Call foo().Bar, Math.Round or System.Out on example.Com. ", "Then stop!", "Go."]),
        ("de", ["Am 3. Mai kam Dr. Müller, z. B. mit dem Zug. ", "Das war's! ", "„Geh!“, sagte sie. ", "Er ging."]),
        ("de", ["Die Funktion RAND.NV() liefert ASP.NET. ", "Das ist neu."]),
        ("de", ["Die Kinder sind 12. ", "Unter ihnen ist Anna. ", "Ich bin 30. ", "Klasse, oder?"]),
        ("de", ["Im 2. Stock, bis 14. ", "Danach am 1. Tag. ", "Es gilt bis 31.12. ", "Sagen Sie es Hrn. Meier."]),
        ("fr", ["Je connais M. Dupont et Mme. Petit. ", "Il arrive."]),
        ("es", ["Su pedido n.º 580731 ha sido enviado. ", "Gracias."]),
        ("ar", ["هل أنت هنا؟ ", "نعم."]),
        ("ja", ["そうです.", "はい."]),
        ("ru", ["Он спит. ", "Это дом!"]),
    ):
        assert split_sentences("".join(sentences), language) == sentences


@given(st.text(max_size=60) | st.text(alphabet='ab .!?"()…。', max_size=60), st.sampled_from(["en", "de", "zh", "xx"]))
def test_sentences_are_the_whole_line_and_each_has_a_word(text, language):
    sentences = split_sentences(text, language)
    assert "".join(sentences) == text
    assert len(sentences) == 1 or all(any(map(str.isalnum, sentence)) for sentence in sentences)


def test_long_runs_of_marks_take_linear_time():
    for text in ("." * 200_000 + " a", '"' * 200_000 + " a", "a. " * 100_000):
        assert "".join(split_sentences(text, "en")) == text


def test_too_long_words_and_texts_are_rejected_with_their_number():
    word = "x" * MAX_WORD_LENGTH
    assert checked_texts([f"{word} {word}"]) == [f"{word} {word}"]
    refused("text 2 .*has a word of 100,001 characters; the maximum is 100,000", checked_texts, ["a", f"a {word}x b"])
    text = "ab " * (MAX_TEXT_LENGTH // 3)
    assert checked_texts([text]) == [text]
    problem = "prefix 8 .*has 1,000,002 characters; the maximum is 1,000,000"
    refused(problem, checked_texts, [text, text + "ab "], first=7, label="prefix")
