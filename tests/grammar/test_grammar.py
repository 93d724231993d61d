"""Properties of the generated sentences, on samples."""

import re
from collections import Counter, defaultdict
from dataclasses import replace
from random import Random

import pytest

from tests.grammar.corpus import MAX_WORDS, SentenceSampler, generate
from tests.grammar.lexicon import LEXICON
from tests.grammar.nominal_sampler import RandomChoices
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tree import detokenise

LABELS = re.compile(
    r"S|SBAR|SQ|SBARQ|NP|VP|PP|ADJP|ADVP|PRT|WHNP|WHPP|WHADVP|WHADJP|DT|JJ|JJR|NN|NNS|NNP|PRP|PRP\$|CD|CC|IN|TO|MD|"
    r"VB|VBZ|VBP|VBD|VBN|RB|RBR|RP|WDT|WP|WRB|\.|,"
)


@pytest.fixture(scope="module")
def sample():
    return generate({"train": 2000, "dev": 150, "test": 150})


@pytest.fixture(scope="module")
def train(sample):
    return sample["train"]


def test_sources_of_all_sets_are_distinct_regardless_of_punctuation_and_case(sample):
    sources = [re.sub(r"[.,?']", "", pair.source.lower()) for pairs in sample.values() for pair in pairs]
    assert len(set(sources)) == len(sources) == 2300


def tiny_lexicon(random):
    """Return a lexicon so small that the same sentences are sampled repeatedly, with different structures."""

    def some(choices, number):
        return tuple(random.sample(choices, min(number, len(choices))))

    determiners = {"the", "a", "her", "which", "how many", "", "no"}
    return replace(
        LEXICON,
        nouns={sort: some(nouns, 1) for sort, nouns in LEXICON.nouns.items()},
        adjectives={sort: some(adjectives, 1) for sort, adjectives in LEXICON.adjectives.items()},
        determiners=tuple(
            (weight, known) for weight, known in LEXICON.determiners if determiners & {known.singular, known.plural}
        ),
        numerals=LEXICON.numerals[:1],
        names=LEXICON.names[:1],
        verbs=tuple((weight, some(verbs, 2)) for weight, verbs in LEXICON.verbs),
        tenses=(*LEXICON.tenses[:2], *some(LEXICON.tenses[2:], 1)),
        manners=LEXICON.manners[:1],
        frequencies=LEXICON.frequencies[:1],
        times={time: ((1, groups[0][1][:2]),) for time, groups in LEXICON.times.items()},
    )


@pytest.mark.integration
@pytest.mark.parametrize("count", [5_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_each_english_sentence_has_one_translation(count):
    random = Random(5)
    translations = {}
    repeated = 0
    while len(translations) < count:
        sampler = SentenceSampler(RandomChoices(str(random.random())), tiny_lexicon(random))
        for _ in range(5000):
            sentence = sampler.sentence()
            source = detokenise(sentence.english(plain=True).leaves())
            repeated += source in translations
            target = sentence.german()
            assert translations.setdefault(source, target) == target, source
    assert repeated > 0.03 * count


def test_english_words_distinguish_everything_that_german_distinguishes():
    nouns = [form for group in LEXICON.nouns.values() for noun in group for form in (noun.singular, noun.plural)]
    assert len(nouns) == len(set(nouns))
    frames = {}
    for _, verbs in LEXICON.verbs:
        for verb in verbs:
            assert not {*verb.english.present} & {*verb.english.past}, verb.english.base
            for frame in verb.frames:
                key = (verb.english.base, verb.particle, tuple((slot.kind, slot.marking.english) for slot in frame))
                assert frames.setdefault(key, verb.german) == verb.german
    translations = defaultdict(set)
    for adjectives in LEXICON.adjectives.values():
        for adjective in adjectives:
            translations[adjective.english].add(adjective.german)
    assert all(len(german) == 1 for german in translations.values())


def test_sentence_lengths(train):
    lengths = [len(pair.source.split()) for pair in train]
    assert max(lengths) <= MAX_WORDS
    assert 8.5 < sum(lengths) / len(lengths) < 11.5


def test_a_quarter_of_the_pairs_is_plain(train):
    plain = [pair for pair in train if pair.source[-1] not in ".?"]
    assert 0.2 < len(plain) / len(train) < 0.3
    for pair in train:
        assert (pair.source[-1] in ".?") == (pair.target[-1] in ".?")
        assert pair in plain or (pair.source[0].isupper() and pair.target[0].isupper())
    first_words = Counter(pair.source.split()[0] for pair in plain)
    assert not {"The", "A", "He", "Does", "Who"} & first_words.keys()
    assert first_words["the"] > 20


def test_text_and_trees_are_well_formed(train):
    for pair in train:
        for text in (pair.source, pair.target):
            assert re.fullmatch(r"[\w']+(,? [\w']+)*[.?]?", text), text
        tree = read_tree(pair.tree)
        assert detokenise(tree.leaves()) == pair.source
        assert str(tree) == pair.tree
        assert all(map(LABELS.fullmatch, re.findall(r"\((\S+)", pair.tree)))
        assert tree.label in {"S", "SQ", "SBARQ"}
        assert tree.children[-1].label == "." or pair.source[-1] not in ".?"


# Patterns in a lower-cased pair: in English, in German.
PHENOMENA = {
    "adverb first": (r"^(today|every day|on \w+|in \d+|at \w+ o'clock) ", r"^(heute|jeden tag|am |im |um )"),
    "place first": (r"^in (the|a|his) \w+ (?!today)", r"^(im|in) "),
    "verb last": (r" (because|although|before) ", r", (weil|obwohl|bevor) "),
    "when, past": (r"when ", r"als "),
    "when, present": (r"(when|if) ", r"wenn "),
    "that": (r" that ", r", dass "),
    "embedded question": (r" (whether|where|whom) ", r", (ob|wo|wohin|wen|wem) "),
    "zu": (r"(tr|beg|hop)\w+ to ", r" zu \w+en\b|\w+zu\w+en\b"),
    "relative clause": (r" (who|that|whom|which) ", r", (der|die|das|den|dem|denen) "),
    "relative clause after a preposition": (r" \w+ (whom|which) ", r", \w+ (der|die|das|den|dem|denen) "),
    "separable verb, apart": (r" (up|on|off|away) ", r" (auf|an|aus|weg)\b"),
    "separable verb, together": (r"(up|on|off|away|call|invite)", r" (auf|an|aus|weg|ein)(heb|schalt|werf|ruf|lad)\w+"),
    "separable verb, participle": (r"(has|have) ", r" (auf|an|aus|weg|ein|zurück|zu)ge\w+"),
    "perfect with haben": (r" (has|have) ", r"(hat|habe|haben) .*(ge|be|ver)\w+"),
    "perfect with sein": (r" (has|have) (gone|run|come|driven|followed|arrived)", r"(ist|bin|sind) "),
    "modal": (r" (can|must|may|should|wants? to) ", r"(kann|muss|darf|sollte|will|können|müssen|dürfen|wollen)"),
    "nicht": (r" not ", r" nicht\b"),
    "kein": (r" not ", r" kein"),
    "yes or no": (r"^(do|does|did|is|has|can|will) .*[^.]$", r"^\w+ "),
    "who": (r"^(who|whom) ", r"^(wer|wen|wem) "),
    "what": (r"^what ", r"^was "),
    "where to": (r"^where ", r"^wohin "),
    "which": (r"^(\w+ )?which ", r"^(\w+ )?welche"),
    "how many": (r"^(\w+ )?how many ", r"wie viele"),
    "number": (r" (two|three|four|eleven|twelve) ", r"(zwei|drei|vier|elf|zwölf) "),
    "year": (r"in (19|20)\d\d", r"im jahr (19|20)\d\d"),
    "dative": (r" (help|thank|follow|answer)\w* ", r"(half|hilf|helf|holfen|dank|folg|antwort)"),
    "dative plural": (r" (to|with|help) ", r" (den|ihren|seinen|diesen) (\w+en )?\w+(ern|en)\b"),
    "recipient first": (r" to (the|his|her|a) ", r" (dem|der|seinem|ihrem|einem) "),
    "genitive": (r" of (the|his|her|this|my) ", r" (des|seines|ihres|dieses|meines) "),
    "n-declension": (r" (boy|student|farmer|lion)\b", r"(den|dem|einen|des) (\w+ )*(jungen|studenten|bauern|löwen)\b"),
    "contraction": (r" in the ", r" im "),
    "direction": (r" into the ", r" (ins|in den|in die) "),
    "it that is masculine": (r"^(?!.*\b(he|him)\b).*\bit\b", r"\b(er|ihn)\b"),
    "reflexive": (r"(remember|hurr)", r"\b(sich|mich|uns)\b"),
    "comparison": (r" than ", r" als "),
    "coordination": (r" and ", r" und "),
    "never": (r" never ", r" nie\b"),
}


def test_every_phenomenon_is_frequent(train):
    pairs = [(pair.source.lower(), pair.target.lower()) for pair in train]
    for name, (english, german) in PHENOMENA.items():
        count = sum(bool(re.search(english, source) and re.search(german, target)) for source, target in pairs)
        assert count >= 4, name


def finite_forms():
    """Return the finite forms of all verbs without, and with and without, their separable prefixes."""
    verbs = [verb.german for _, group in LEXICON.verbs for verb in group]
    auxiliaries = [tense.german for _, tense in LEXICON.tenses if tense.german]
    auxiliaries += [verb.perfect_auxiliary for _, group in LEXICON.verbs for verb in group]
    forms = {form for verb in (*verbs, *auxiliaries) for form in (*verb.present, *verb.past)}
    return forms, forms | {verb.prefix + form for verb in verbs for form in (*verb.present, *verb.past)}


def test_the_finite_verb_is_second_first_or_last(train):
    simple, all_forms = finite_forms()
    second = first = last = 0
    for pair in train:
        text = pair.target.rstrip(".?").lower()
        if match := re.match(r"(?:heute|gestern|morgen|jetzt|jeden tag|am \w+|um \w+ uhr|im jahr \d+) (\w+)", text):
            second += 1
            assert match[1] in simple, pair.target
        if re.match(r"(does|do|did|is|are|was|were|has|have|can|will|must) ", pair.source.lower()):
            first += 1
            assert text.split()[0] in simple, pair.target
        if match := re.fullmatch(r"[^,]*, (dass|weil|obwohl|wenn|bevor|während|ob|als) ([^,]*?)[.?]?", pair.target):
            last += 1
            assert match[2].split()[-1] in all_forms, pair.target
    assert min(second, first, last) > 50
