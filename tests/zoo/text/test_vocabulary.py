"""Word tokens."""

import random
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import specs
from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary, learned_from

WORDS = {
    "source": ["the", "old", "dog", "sees", "a", "small", "house", "and", "many", "cats", "sleep", "in", "gardens"],
    "target": [
        "der",
        "alte",
        "Hund",
        "sieht",
        "ein",
        "Haus",
        "und",
        "viele",
        "Katzen",
        "schlafen",
        "in",
        "großen",
        "Gärten",
    ],
}


def lines(side, count=300):
    choice = random.Random(side)
    return [" ".join(choice.choices(WORDS[side], k=choice.randint(1, 9))) for _ in range(count)]


PAIRS = list(zip(lines("source"), lines("target"), strict=True))


def learn(size=80, pairs=PAIRS, **section):
    return Vocabulary.learn(
        lambda: iter(pairs), specs.load("tiny", {"vocabulary": {"size": size, **section}}).vocabulary
    )


@pytest.fixture(scope="module")
def shared():
    return learn()


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def separate(request):
    spec = specs.load("tiny", {"architecture.tied_embeddings": "none", "vocabulary.shared": False})
    section = spec.vocabulary.model_copy(update={"size": 32, "kind": request.param})
    return Vocabulary.learn(lambda: iter(PAIRS), section)


def test_it_has_the_size_asked_for_and_the_special_pieces_first(shared, separate):
    assert shared.sizes == (80, 80)
    assert separate.sizes == (32, 32)
    for side in (shared.source, separate.source, separate.target):
        assert side.model.id_to_piece([PAD, UNK, BOS, EOS]) == ["<pad>", "<unk>", "<s>", "</s>"]


def test_text_goes_there_and_back(shared, separate):
    for vocabulary in (shared, separate):
        for side in ("source", "target"):
            for line in lines(side, 50):
                ids = vocabulary.encode(line, side)
                assert vocabulary.decode(ids, side) == line
                assert not {PAD, UNK, BOS, EOS} & set(ids)


def test_common_words_are_one_piece(shared):
    assert len(shared.encode("gardens")) < len("gardens") / 2


def test_a_shared_vocabulary_has_one_side(shared, separate):
    assert shared.shared
    assert not separate.shared
    assert shared.encode("Gärten", "source") == shared.encode("Gärten", "target")
    assert UNK in separate.encode("Gärten", "source")
    assert UNK not in separate.encode("Gärten", "target")


def test_many_lines_are_encoded_as_each_alone(shared):
    texts = [*lines("source", 20), "", " "]
    assert shared.encode_all(texts) == [shared.encode(text) for text in texts]
    assert shared.encode_all([]) == []


def test_decoding_passes_over_what_is_no_text(shared):
    ids = shared.encode("the old dog")
    assert shared.decode([BOS, *ids[:2], PAD, *ids[2:], EOS, PAD, PAD]) == "the old dog"
    assert shared.decode([]) == shared.decode([BOS, EOS]) == ""
    assert "⁇" in shared.decode([*ids, UNK])


@pytest.mark.parametrize("text", ["", " ", "\t", "\u200b"])
def test_no_text_is_no_piece(shared, text):
    assert shared.encode(text) == []


def test_unseen_letters_and_stray_signs_do_no_harm(shared):
    assert UNK in shared.encode("猫")
    assert shared.encode("the\u00a0old\tdog ") == shared.encode("the old dog")
    assert shared.encode("Ga\u0308rten") == shared.encode("Gärten")


def test_special_pieces_cannot_be_written(shared):
    assert not {PAD, BOS, EOS} & set(shared.encode("</s> <s> <pad> dog </s>"))


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_can_be_encoded(shared, text):
    ids = shared.encode(text)
    assert not {PAD, BOS, EOS} & set(ids)
    shared.decode(ids)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_the_same_lines_give_the_same_bytes(kind, tmp_path):
    models = []
    for name in ("a", "b"):
        learn(50, kind=kind).save(tmp_path / name)
        models.append((tmp_path / name / "vocabulary.model").read_bytes())
    assert models[0] == models[1]


def test_files_hold_all_of_it(shared, separate, tmp_path):
    shared.save(tmp_path / "shared")
    assert [path.name for path in (tmp_path / "shared").iterdir()] == ["vocabulary.model"]
    separate.save(tmp_path / "separate")
    assert len(list((tmp_path / "separate").iterdir())) == 2
    for vocabulary, name in ((shared, "shared"), (separate, "separate")):
        loaded = Vocabulary.load(tmp_path / name)
        assert (loaded.sizes, loaded.shared) == (vocabulary.sizes, vocabulary.shared)
        for side in ("source", "target"):
            assert loaded.encode("the Gärten", side) == vocabulary.encode("the Gärten", side)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_large_a_size_is_told_with_the_largest_possible(kind):
    with pytest.raises(
        ZooError, match=r"`vocabulary\.size` is 5,000, and this text gives (\d+) tokens at most"
    ) as told:
        learn(5000, kind=kind)
    most = int(told.value.hint.split("=")[1].split("`")[0])
    assert learn(most, kind=kind).sizes == (most, most)
    with pytest.raises(ZooError, match=rf"gives {most} tokens at most"):
        learn(most + 1, kind=kind)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_too_small_a_size_is_told_with_the_smallest_possible(kind):
    with pytest.raises(ZooError, match="different letters and signs") as told:
        learn(10, kind=kind)
    least = int(told.value.hint.split("=")[1].split("`")[0])
    assert learn(least, kind=kind).sizes == (least, least)
    with pytest.raises(ZooError, match="different letters and signs"):
        learn(least - 1, kind=kind)


def test_a_targets_own_size_is_called_so():
    for size in (5000, 10):
        own = {"size": 80, "shared": False, "target_size": size}
        spec = specs.load("tiny", {"vocabulary": own, "architecture.tied_embeddings": "target"})
        with pytest.raises(ZooError, match=rf"`vocabulary\.target_size` is {size:,}") as told:
            Vocabulary.learn(lambda: iter(PAIRS), spec.vocabulary)
        assert told.value.hint.startswith("write `vocabulary.target_size=")


LONG = {"of words": "Żółw " * 2_000, "without a space": "猫" * 90_000}


@pytest.mark.parametrize("long", LONG.values(), ids=LONG)
def test_letters_of_long_lines_have_pieces(long):
    for kind in ("bpe", "unigram"):
        assert UNK not in learn(52, [*PAIRS, (long, long)], kind=kind).encode(long[:5])
    assert UNK not in learn(10, [(long, long)]).encode(long[:5]), "nor is it no text"


def test_words_of_a_long_line_count_as_those_of_short_ones():
    apart = lines("source")
    together = " ".join(apart)
    found, expected = (learn(40, each) for each in ([(together, together)], [(line, line) for line in apart]))
    assert found.named(range(40)) == expected.named(range(40))


def test_no_text_to_learn_from_is_told():
    with pytest.raises(ZooError, match="no text to learn a vocabulary from"):
        learn(pairs=[])


@pytest.mark.parametrize("error", [ZooError("broken line"), KeyboardInterrupt(), OSError("gone")])
def test_what_is_raised_between_the_lines_comes_through(error):
    def breaking():
        yield PAIRS[0]
        raise error

    with pytest.raises(type(error)) as told:
        learn(pairs=breaking())
    assert told.value is error


def test_a_very_large_corpus_is_learned_from_in_part(monkeypatch):
    monkeypatch.setattr("zoo.text.vocabulary.MAX_PAIRS", 100)
    taken = []

    def learned(texts, section, size, field):
        taken.extend(texts)
        return b""

    monkeypatch.setattr("zoo.text.tokenizer._learned", learned)
    with pytest.raises(ZooError, match="damaged"):
        Vocabulary.learn(lambda: iter(PAIRS), specs.load("tiny").vocabulary, 300)
    assert taken == [line for pair in PAIRS[::3] for line in pair]
    assert learned_from(300) == 100
    assert learned_from(301) == 76  # every fourth
    assert learned_from(7) == 7


def test_learning_and_loading_are_quiet(capfd, tmp_path):
    learn().save(tmp_path)
    Vocabulary.load(tmp_path)
    (tmp_path / "vocabulary.model").write_bytes(b"nonsense")
    with pytest.raises(ZooError):
        Vocabulary.load(tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_model_cut_short_anywhere_is_told(shared, tmp_path):
    shared.save(tmp_path)
    path = tmp_path / "vocabulary.model"
    whole = path.read_bytes()
    for length in [0, 1, 7, *range(20, len(whole) - 1, 997)]:
        path.write_bytes(whole[:length])
        with pytest.raises(ZooError, match=r"vocabulary\.model` is damaged") as told:
            Vocabulary.load(tmp_path)
        assert told.value.exit_code == 1


def test_a_model_that_is_not_there_is_told(tmp_path, separate):
    with pytest.raises(ZooError, match=r"vocabulary\.model` is missing"):
        Vocabulary.load(tmp_path)
    separate.save(tmp_path)
    (tmp_path / "vocabulary.target.model").unlink()
    with pytest.raises(ZooError, match=r"vocabulary\.target\.model` is missing"):
        Vocabulary.load(tmp_path)


@pytest.mark.parametrize(
    "text", ["the\x07old dog", "\x00the old\tdog\x7f", "the\u2028old\x85dog", "\ufeffthe old dog\r"]
)
def test_control_characters_are_spaces_as_in_training(shared, text):
    assert shared.encode(text) == shared.encode("the old dog")
    assert shared.encode_all([text, "a"]) == [shared.encode("the old dog"), shared.encode("a")]


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def spelling(request):
    """With bytes, of text in which a letter is rarer than one in 10,000."""
    return learn(300, [*PAIRS, ("a Ж", "ein Haus")], kind=request.param, byte_fallback=True)


def test_unknown_characters_are_named_or_spelled(shared, spelling):
    assert shared.unknown("the Ω 猫Ω\x07 dog") == ["Ω", "猫"]
    assert shared.decode(shared.encode("the Ω")).split() == ["the", "⁇"]
    assert (shared.byte_fallback, spelling.byte_fallback) == (False, True)
    for text in ("the Ω 猫Ω dog", "Ж", "🙂🙂 a\u0301 Ⅳ"):
        assert spelling.unknown(text) == []
        assert spelling.decode(spelling.encode(text)) == unicodedata.normalize("NFKC", text)
    assert all(spelling.source.model.is_byte(id) for id in spelling.encode("Ж")[-2:]), "it taught the model its bytes"
    assert spelling.sample(spelling.encode("Ω dog"), 0.5) != []


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_with_bytes_no_text_is_unknown(spelling, text):
    ids = spelling.encode(text)
    assert not {PAD, UNK, BOS, EOS} & set(ids)
    assert spelling.encode(spelling.decode(ids)) == ids


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.integers(0, 255), max_size=12))
@example(values=[10])
@example(values=[0xE2, 0x80, 0xA8])  # a line separator
@example(values=[0xED, 0xA0, 0x80])  # half of a surrogate pair
@example(values=[0xC3])
def test_any_bytes_are_a_line_of_text(spelling, values):
    """Whatever a model writes."""
    text = spelling.decode([EOS + 1 + value for value in values])
    assert text.encode("utf-8").decode("utf-8") == text
    assert not any(unicodedata.category(character) == "Cc" for character in text)
    assert text.splitlines() in ([text], [])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_with_bytes_too_small_a_size_is_told_too(kind):
    with pytest.raises(ZooError, match=r"has 2\d different letters and signs, .* and the bytes 256") as told:
        learn(261, kind=kind, byte_fallback=True)
    least = int(told.value.hint.split("=")[1].split("`")[0])
    assert learn(least, kind=kind, byte_fallback=True).sizes == (least, least)


def test_a_word_without_end_is_not_waited_for(shared):
    with pytest.raises(ZooError, match=r"the text .* has a word of 200,000 characters"):
        shared.encode("the " + "x" * 200_000)


def test_a_damaged_model_is_refused_or_usable(shared, tmp_path):
    """Bytes of a token that are no text would be found out by the sentence that needs it."""
    shared.save(tmp_path)
    whole = (tmp_path / "vocabulary.model").read_bytes()
    draw, refused = random.Random(7), 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(draw.choice([1, 1, 3])):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        try:
            vocabulary = Vocabulary(Tokenizer(bytes(damaged)))
        except ZooError:
            refused += 1
            continue
        vocabulary.decode(range(vocabulary.sizes[1]))
    assert 0 < refused < 300


def test_a_piece_that_is_no_text_is_damage(shared, tmp_path):
    shared.save(tmp_path)
    whole = (tmp_path / "vocabulary.model").read_bytes()
    token = shared.target.model.id_to_piece(shared.sizes[1] - 1).encode()
    assert whole.count(b"\n" + bytes([len(token)]) + token) == 1
    damaged = whole.replace(b"\n" + bytes([len(token)]) + token, b"\n" + bytes([len(token)]) + b"\xff" * len(token))
    with pytest.raises(ZooError, match="is damaged"):
        Vocabulary(Tokenizer(damaged))
