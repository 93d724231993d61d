"""Vocabularies of text."""

import random
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import specs
from specs import BOS, EOS, PAD, UNK, ZooError
from tests.examples import examples
from tests.mutations import mutated
from tests.refusals import refused
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary, learning_examples

WORDS = {
    "source": ["the", "old", "dog", "sees", "a", "small", "house", "and", "many", "cats", "sleep", "in", "gardens"],
    "target": ["der", "alte", "Hund", "sieht", "ein", "Haus", "und", "Katzen", "schlafen", "in", "großen", "Gärten"],
}


def lines(side, count=300):
    choice = random.Random(side)
    return [" ".join(choice.choices(WORDS[side], k=choice.randint(1, 9))) for _ in range(count)]


PAIRS = list(zip(lines("source"), lines("target"), strict=True))


def learn(size=80, pairs=PAIRS, **section):
    fields = {"vocabulary": {"size": size, **section}, "architecture.tied_embeddings": "none"}
    settings = specs.load("tiny", fields).vocabulary
    return Vocabulary.learn(lambda: (each for pair in pairs for each in examples([pair])), settings)


@pytest.fixture(scope="module")
def shared():
    return learn()


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def separate(request):
    return learn(32, shared=False, kind=request.param)


def test_vocabularies_restore_text_and_are_restored(shared, separate, tmp_path):
    for vocabulary, size, name in ((shared, 80, "shared"), (separate, 32, "separate")):
        vocabulary.save(tmp_path / name)
        loaded = Vocabulary.load(tmp_path / name)
        assert vocabulary.sizes == loaded.sizes == (size, size)
        assert (vocabulary.shared, loaded.shared) == (name == "shared",) * 2
        assert len(list((tmp_path / name).iterdir())) == (1 if vocabulary.shared else 2)
        for side in ("source", "target"):
            assert vocabulary.token_strings([PAD, BOS, EOS], side) == ["<pad>", "<s>", "</s>"]
            texts = [*lines(side, 50), "", " \t"]
            for text, ids in zip(texts, vocabulary.stream(side).encode_all(texts), strict=True):
                assert ids == vocabulary.encode(text, side) == loaded.encode(text, side)
                assert vocabulary.decode(ids, side) == text.strip()
                assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert shared.encode("Gärten", "source") == shared.encode("Gärten", "target")
    assert UNK in separate.encode("Gärten", "source")


def test_decoding_skips_special_tokens(shared):
    ids = shared.encode("the old dog")
    assert shared.decode([BOS, *ids[:2], PAD, *ids[2:], EOS, PAD, PAD]) == "the old dog"
    assert shared.decode([]) == shared.decode([BOS, EOS]) == ""
    assert "⁇" in shared.decode([*ids, UNK])


def test_unknown_characters_and_normalisation(shared):
    assert UNK in shared.encode("猫")
    for text in ("the\u00a0old\tdog ", "\x00the old\x07dog\x7f", "\ufeffthe\u2028old\x85dog\r"):
        assert shared.source.encode_all([text, "a"]) == [shared.encode("the old dog"), shared.encode("a")]
        assert shared.encode(text) == shared.encode("the old dog")
    assert shared.encode("Ga\u0308rten") == shared.encode("Gärten")


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize(("size", "beyond", "problem", "options"), [
    (5000, 1, r"`vocabulary\.size` is 5,000, but this text yields at most \d+ tokens", {}),
    (10, -1, "different characters", {}),
    (261, -1, r"has 2\d different characters, .* and byte fallback needs 256", {"byte_fallback": True}),
])  # fmt: skip
def test_impossible_sizes_are_rejected_with_the_limit(kind, size, beyond, problem, options):
    limit = int(refused(problem, learn, size, kind=kind, **options).hint.split()[-1].strip("`"))
    assert learn(limit, kind=kind, **options).sizes == (limit, limit)
    refused(problem.replace("5,000", r"\d+"), learn, limit + beyond, kind=kind, **options)


def test_errors_name_the_size_of_the_target():
    for size in (5000, 10):
        error = refused(rf"`vocabulary\.target_size` is {size:,}", learn, 80, shared=False, target_size=size)
        assert error.hint.startswith("set `vocabulary.target_size` to at ")


@pytest.mark.parametrize("long", ["Żółw " * 2_000, "猫" * 90_000], ids=["of words", "without a space"])
def test_long_lines_are_learned_from(long):
    for kind in ("bpe", "unigram"):
        assert UNK not in learn(52, [*PAIRS, (long, long)], kind=kind).encode(long[:5])
    assert UNK not in learn(10, [(long, long)]).encode(long[:5])


def test_learning_is_reproducible_and_needs_text():
    assert learn(50).source.content == learn(50).source.content
    refused("no text to learn a vocabulary from", learn, pairs=[])


@pytest.mark.parametrize("error", [ZooError("broken line"), KeyboardInterrupt(), OSError("gone")])
def test_errors_of_the_text_iterator_are_raised(error):
    def breaking():
        yield PAIRS[0]
        raise error

    with pytest.raises(type(error)) as caught:
        learn(pairs=breaking())
    assert caught.value is error


def test_large_corpora_are_sampled(monkeypatch):
    monkeypatch.setattr("zoo.text.vocabulary.MAX_EXAMPLES", 100)
    taken = []
    monkeypatch.setattr("zoo.text.tokenizer._train_model", lambda texts, *_: taken.extend(texts) or b"")
    refused("damaged", Vocabulary.learn, lambda: examples(PAIRS), specs.load("tiny").vocabulary, 300)
    assert taken == [line for pair in PAIRS[::3] for line in pair]
    assert [learning_examples(count) for count in (7, 300, 301)] == [7, 100, 76]  # the last: every fourth


def test_learning_and_loading_are_quiet(capfd, tmp_path):
    learn().save(tmp_path)
    Vocabulary.load(tmp_path)
    (tmp_path / "vocabulary.model").write_bytes(b"nonsense")
    refused("vocabulary.model` is damaged", Vocabulary.load, tmp_path)
    assert capfd.readouterr() == ("", "")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def with_bytes(request):
    """Return a vocabulary with byte fallback, of text in which one character is rarer than one in 10,000."""
    return learn(300, [*PAIRS, ("a Ж", "ein Haus")], kind=request.param, byte_fallback=True)


def test_unknown_characters_are_reported_or_encoded_as_bytes(shared, with_bytes):
    assert shared.unknown("the Ω 猫Ω\x07 dog") == ["Ω", "猫"]
    assert shared.decode(shared.encode("the Ω")).split() == ["the", "⁇"]
    assert (shared.byte_fallback, with_bytes.byte_fallback) == (False, True)
    for text in ("the Ω 猫Ω dog", "Ж", "🙂🙂 a\u0301 Ⅳ"):
        assert with_bytes.unknown(text) == []
        assert with_bytes.decode(with_bytes.encode(text)) == unicodedata.normalize("NFKC", text)
    assert all(with_bytes.source.model.is_byte(id) for id in with_bytes.encode("Ж")[-2:])
    assert with_bytes.source.sample(with_bytes.encode("Ω dog"), 0.5) != []


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_byte_fallback_encodes_any_text(with_bytes, text):
    ids = with_bytes.encode(text)
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert with_bytes.encode(with_bytes.decode(ids)) == ids


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.integers(0, 255), max_size=12))
@example(values=[10])
@example(values=[0xE2, 0x80, 0xA8])  # a line separator
@example(values=[0xED, 0xA0, 0x80])  # half of a surrogate pair
@example(values=[0xC3])
def test_any_byte_tokens_are_decoded_to_one_line(with_bytes, values):
    text = with_bytes.decode([EOS + 1 + value for value in values])
    assert text.encode("utf-8").decode("utf-8") == text
    assert not any(unicodedata.category(character) == "Cc" for character in text)
    assert text.splitlines() in ([text], [])


def test_words_of_many_short_tokens_are_rare(shared):
    is_rare = shared.source.is_rare
    assert len(shared.encode("Dog")) >= 3
    assert [is_rare(word) for word in ("Wgxky", "Hund", "gardens")] == [True, False, False]
    assert not is_rare("Dog")  # in lower case, it is one token


def test_too_long_words_and_missing_models_are_rejected(tmp_path, separate):
    refused("the text .* has a word of 200,000 characters", separate.encode, "the " + "x" * 200_000)
    separate.save(tmp_path)
    (tmp_path / "vocabulary.target.model").unlink()
    refused(r"vocabulary\.target\.model` is missing", Vocabulary.load, tmp_path)


def test_damaged_models_are_rejected_or_usable(shared, tmp_path):
    whole, draw, rejected = shared.source.content, random.Random(7), 0
    token = shared.target.model.id_to_piece(shared.sizes[1] - 1).encode()
    start = b"\n" + bytes([len(token)])
    invalid_text = whole.replace(start + token, start + b"\xff" * len(token))
    assert invalid_text != whole
    for broken in [invalid_text, *(whole[:length] for length in [0, 1, 7, *range(20, len(whole) - 1, 997)])]:
        (tmp_path / "vocabulary.model").write_bytes(broken)
        assert refused(r"vocabulary\.model` is damaged", Vocabulary.load, tmp_path).exit_code == 1
    for _ in range(300):
        try:
            vocabulary = Vocabulary(Tokenizer(mutated(whole, draw)))
        except ZooError:
            rejected += 1
            continue
        vocabulary.decode(range(vocabulary.sizes[1]))
    assert 0 < rejected < 300
