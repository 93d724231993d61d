"""Sentences translated by hand, several for each phenomenon, put together from the grammar's own parts."""

import pytest

from zoo.data.builtin.clause import Adjunct, Argument, Clause, Constituent, Predicate, Subordinate
from zoo.data.builtin.clause_sampler import GENITIVE, THAT, WHETHER
from zoo.data.builtin.features import Agreement, Column, Kind
from zoo.data.builtin.lexicon import LEXICON
from zoo.data.builtin.nominal_sampler import PRONOUNS, WEATHER
from zoo.data.builtin.nominals import Both, Name, NounPhrase, Pronoun
from zoo.data.builtin.order import Field
from zoo.data.builtin.quality import Quality
from zoo.data.builtin.sentence import Sentence
from zoo.data.builtin.setting import SUBJECT
from zoo.data.builtin.wh import WHAT, WHO, Relative
from zoo.text.trees.tree import detokenise

SINGULARS = {noun.singular: noun for nouns in LEXICON.nouns.values() for noun in nouns}
PLURALS = {noun.plural: noun for noun in SINGULARS.values()}
ADJECTIVES = {adjective.english: adjective for known in LEXICON.adjectives.values() for adjective in known}
COMPARATIVES = {
    adjective.comparative: adjective for adjective in ADJECTIVES.values() if adjective.comparative != "more"
}
NUMERALS = dict(LEXICON.numerals)
NAMED = {name: Name(name) for name in LEXICON.names} | {pronoun.nominative: pronoun for _, pronoun in PRONOUNS}
VERBS = [verb for _, group in LEXICON.verbs for verb in group]
TENSES = dict(zip(("present", "past", "perfect", "had", "will", "can", "could"), LEXICON.tenses, strict=False)) | dict(
    zip(("must", "must not", "may", "should", "want", "wanted"), LEXICON.tenses[7:], strict=True)
)
CONJUNCTIONS = {known.english: known for _, known in LEXICON.subordinating} | {"that": THAT, "whether": WHETHER}
TIMES = [adverb for groups in LEXICON.times.values() for _, group in groups for adverb in group]
ADVERBS = {
    " ".join(adverb.english.leaves()): Adjunct(adverb, field)
    for field, adverbs in (
        (Field.TIME, TIMES),
        (Field.FREQUENCY, (*LEXICON.frequencies, LEXICON.never)),
        (Field.MANNER, LEXICON.manners),
    )
    for adverb in adverbs
}
WHERE, WHITHER, WHEN, WHY = (Adjunct(LEXICON.questions[word], Field.TIME) for word in ("wo", "wohin", "wann", "warum"))
ASK, EMBED, INFINITIVE = Kind.QUESTION, Kind.EMBEDDED, Kind.INFINITIVE


def it(column):
    """`it`, for what is masculine, neuter or feminine in German."""
    return Pronoun(Agreement(3, column), "it", "it", "thing")


def np(written, modifier=None):
    """A nominal as it is written: `he`, `Anna`, `the three very old dogs`, `a more beautiful house`."""
    if written in NAMED:
        return NAMED[written]
    words = written.replace("how many", "how_many").split()
    plural = words[-1] in PLURALS
    forms = {(known.plural if plural else known.singular): known for _, known in LEXICON.determiners}
    first = words[0].replace("an", "a") if words[0] == "an" else words[0].replace("_", " ")
    determiner = forms.get(first) or forms.get("")
    qualities = [
        Quality(ADJECTIVES.get(word) or COMPARATIVES[word], before == "more" or word in COMPARATIVES, before == "very")
        for before, word in zip(["", *words], words, strict=False)
        if word in ADJECTIVES or word in COMPARATIVES
    ]
    numeral = next(((word, NUMERALS[word]) for word in words if word in NUMERALS), None)
    noun = (PLURALS if plural else SINGULARS)[words[-1]]
    return NounPhrase(determiner, noun, plural, tuple(qualities), numeral, modifier)


def nominal(given):
    return np(given) if isinstance(given, str) else given


def clause(written, *given, tense="present", kind=Kind.STATEMENT, frame=0, also=(), front=None, negated=False):
    """A verb (`pick up`, or `know:wissen`), its subject, what fills the slots of a frame, and adjuncts.

    The subject of an infinitive is not said, but felt.
    """
    english, _, german = written.partition(":")
    base, _, particle = english.partition(" ")
    verb = next(
        known
        for known in VERBS
        if (known.english.base, known.particle) == (base, particle) and german in ("", known.german.infinitive)
    )
    subject = nominal(given[0])
    arguments = [
        filler if isinstance(filler, Constituent) else Argument(nominal(filler), slot.marking)
        for slot, filler in zip(verb.frames[frame], given[1:], strict=False)  # the last slot may be optional
    ]
    parts = [] if kind is INFINITIVE else [Argument(subject, SUBJECT)]
    parts += [*arguments, *(ADVERBS[adjunct] if isinstance(adjunct, str) else adjunct for adjunct in also)]
    known = TENSES[tense][1]
    return Clause(kind, verb, known, subject.agreement, tuple(parts), front, negated)


def at(written, spots=LEXICON.locations, role=Field.PLACE):
    """A place: `in the garden`."""
    preposition, phrase = written.split(maxsplit=1)
    marking = next(spot.marking for spot in spots if spot.marking.english == preposition)
    return Argument(np(phrase), marking, role)


def to(written):
    """A direction: `into the garden`."""
    return at(written, LEXICON.directions, Field.DIRECTION)


def onto(written):
    """Where something is put: `on the table`."""
    return at(written, LEXICON.goals, Field.DIRECTION)


def with_(written):
    """Company, or none: `with the child`."""
    preposition, phrase = written.split(maxsplit=1)
    return Argument(
        np(phrase), next(known for known in LEXICON.companions if known.english == preposition), Field.COMPANION
    )


def sub(conjunction, *given, **options):
    """A clause after a conjunction."""
    return Subordinate(clause(*given, kind=EMBED, **options), CONJUNCTIONS[conjunction])


def who(antecedent, word, verb, *given, gap=0, **options):
    """A noun phrase with a relative clause, whose pronoun takes the place `gap` among what is given."""
    filled = [*given[:gap], Relative(np(antecedent), word), *given[gap:]]
    return np(antecedent, Subordinate(clause(verb, *filled, kind=EMBED, front=gap, **options)))


def is_(*written, than=None):
    """A predicate: `old`, `very old`, `older`, `more expensive`."""
    qualities = (np(f"{adjective} dog").qualities[0] for adjective in written)
    return Predicate(tuple(qualities), np(than) if than else None)


def of(head, owner):
    return np(head, Argument(np(owner), GENITIVE))


M, N, F = Column.MASCULINE, Column.NEUTER, Column.FEMININE

# fmt: off
SENTENCES = [
    # case, gender, number: articles and adjectives, strong, weak and mixed
    ("The old dog sees a small house.", "Der alte Hund sieht ein kleines Haus.",
     clause("see", "the old dog", "a small house")),
    ("An old cat sees the small dog.", "Eine alte Katze sieht den kleinen Hund.",
     clause("see", "an old cat", "the small dog")),
    ("The woman buys a new table.", "Die Frau kauft einen neuen Tisch.",
     clause("buy", "the woman", "a new table")),
    ("Old men buy new cars.", "Alte Männer kaufen neue Autos.",
     clause("buy", "old men", "new cars")),
    ("The old men buy the new cars.", "Die alten Männer kaufen die neuen Autos.",
     clause("buy", "the old men", "the new cars")),
    ("Every child loves my beautiful garden.", "Jedes Kind liebt meinen schönen Garten.",
     clause("love", "every child", "my beautiful garden")),
    ("Our neighbour buys this expensive lamp.", "Unser Nachbar kauft diese teure Lampe.",
     clause("buy", "our neighbour", "this expensive lamp")),
    ("Many young birds see some big horses.", "Viele junge Vögel sehen einige große Pferde.",
     clause("see", "many young birds", "some big horses")),
    ("All happy children love her sister.", "Alle glücklichen Kinder lieben ihre Schwester.",
     clause("love", "all happy children", "her sister")),
    ("No lion sees his bears.", "Kein Löwe sieht seine Bären.",
     clause("see", "no lion", "his bears")),
    # numbers
    ("Two old dogs see the three small houses.", "Zwei alte Hunde sehen die drei kleinen Häuser.",
     clause("see", "two old dogs", "the three small houses")),
    ("The child sleeps at seven o'clock.", "Das Kind schläft um sieben Uhr.",
     clause("sleep", "the child", also=("at seven o'clock",))),
    ("In 1998 the train arrived.", "Im Jahr 1998 kam der Zug an.",
     clause("arrive", "the train", also=("in 1998",), tense="past", front=1)),
    # n-declension
    ("The boy sees the boy.", "Der Junge sieht den Jungen.",
     clause("see", "the boy", "the boy")),
    ("The student helps a young farmer.", "Der Student hilft einem jungen Bauern.",
     clause("help", "the student", "a young farmer")),
    # dative: verbs, recipients
    ("The woman helps the old men.", "Die Frau hilft den alten Männern.",
     clause("help", "the woman", "the old men")),
    ("He thanks his father.", "Er dankt seinem Vater.",
     clause("thank", "he", "his father")),
    ("The dog has followed the cats.", "Der Hund ist den Katzen gefolgt.",
     clause("follow", "the dog", "the cats", tense="perfect")),
    ("The woman gives the child a red ball.", "Die Frau gibt dem Kind einen roten Ball.",
     clause("give", "the woman", "the child", "a red ball")),
    ("The woman gives the red ball to a child.", "Die Frau gibt den roten Ball einem Kind.",
     clause("give", "the woman", "the red ball", "a child", frame=1)),
    ("I give it to her.", "Ich gebe ihn ihr.",
     clause("give", "I", it(M), "she", frame=1)),
    ("We show them the city.", "Wir zeigen ihnen die Stadt.",
     clause("show", "we", "they", "the city")),
    ("The bicycle belongs to my brother.", "Das Fahrrad gehört meinem Bruder.",
     clause("belong", "the bicycle", "my brother")),
    # genitive
    ("The dog of the old man sees a house of his sister.", "Der Hund des alten Mannes sieht ein Haus seiner Schwester.",
     clause("see", of("the dog", "the old man"), of("a house", "his sister"))),
    # prepositions that verbs ask for
    ("They wait for the train.", "Sie warten auf den Zug.",
     clause("wait", "they", "the train")),
    ("Anna dreams of the island.", "Anna träumt von der Insel.",
     clause("dream", "Anna", "the island")),
    ("The girl looks for her key.", "Das Mädchen sucht ihren Schlüssel.",
     clause("look:suchen", "the girl", "her key")),
    ("I remember the king.", "Ich erinnere mich an den König.",
     clause("remember", "I", "the king")),
    ("He buys a flower for his sister.", "Er kauft eine Blume für seine Schwester.",
     clause("buy", "he", "a flower", "his sister")),
    # place and direction
    ("The cat sits on the table.", "Die Katze sitzt auf dem Tisch.",
     clause("sit", "the cat", at("on the table"))),
    ("The man places the bottle on the table.", "Der Mann stellt die Flasche auf den Tisch.",
     clause("place", "the man", "the bottle", onto("on the table"))),
    ("The children sleep in the house.", "Die Kinder schlafen im Haus.",
     clause("sleep", "the children", also=(at("in the house"),))),
    ("The children run into the house.", "Die Kinder laufen ins Haus.",
     clause("run", "the children", to("into the house"))),
    ("She goes to the church with her daughter.", "Sie geht mit ihrer Tochter zur Kirche.",
     clause("go", "she", to("to the church"), also=(with_("with her daughter"),))),
    # verb second
    ("Today the dog sees the cat.", "Heute sieht der Hund die Katze.",
     clause("see", "the dog", "the cat", also=("today",), front=2)),
    ("In the garden the king dances.", "Im Garten tanzt der König.",
     clause("dance", "the king", also=(at("in the garden"),), front=1)),
    ("The girl dances quietly in the kitchen every day.", "Das Mädchen tanzt jeden Tag leise in der Küche.",
     clause("dance", "the girl", also=("quietly", at("in the kitchen"), "every day"))),
    ("She often visits us.", "Sie besucht uns oft.",
     clause("visit", "she", "we", also=("often",))),
    ("Now the boy hurries.", "Jetzt beeilt sich der Junge.",
     clause("hurry", "the boy", also=("now",), front=1)),
    # separable verbs
    ("He picks up the book.", "Er hebt das Buch auf.",
     clause("pick up", "he", "the book")),
    ("He picks it up.", "Er hebt es auf.",
     clause("pick up", "he", it(N))),
    ("He has picked up the book.", "Er hat das Buch aufgehoben.",
     clause("pick up", "he", "the book", tense="perfect")),
    ("He wants to pick up the book.", "Er will das Buch aufheben.",
     clause("pick up", "he", "the book", tense="want")),
    ("She says that he picks up the book.", "Sie sagt, dass er das Buch aufhebt.",
     clause("say", "she", sub("that", "pick up", "he", "the book"))),
    ("He tries to pick up the book.", "Er versucht, das Buch aufzuheben.",
     clause("try", "he", Subordinate(clause("pick up", "he", "the book", kind=INFINITIVE)))),
    # tenses and moods
    ("The teacher has written a letter.", "Die Lehrerin hat einen Brief geschrieben.",
     clause("write", "the teacher", "a letter", tense="perfect")),
    ("The farmers have gone into the park.", "Die Bauern sind in den Park gegangen.",
     clause("go", "the farmers", to("into the park"), tense="perfect")),
    ("We had forgotten the key.", "Wir hatten den Schlüssel vergessen.",
     clause("forget", "we", "the key", tense="had")),
    ("My father will turn off the clock tomorrow.", "Mein Vater wird morgen die Uhr ausschalten.",
     clause("turn off", "my father", "the clock", tense="will", also=("tomorrow",))),
    ("The teacher cannot open the door.", "Die Lehrerin kann die Tür nicht öffnen.",
     clause("open", "the teacher", "the door", tense="can", negated=True)),
    ("I must visit the school.", "Ich muss die Schule besuchen.",
     clause("visit", "I", "the school", tense="must")),
    ("I must not visit the school.", "Ich darf die Schule nicht besuchen.",
     clause("visit", "I", "the school", tense="must not", negated=True)),
    ("They did not want to eat the potatoes.", "Sie wollten die Kartoffeln nicht essen.",
     clause("eat", "they", "the potatoes", tense="wanted", negated=True)),
    ("He was tired.", "Er war müde.",
     clause("be", "he", is_("tired"), tense="past")),
    # negation
    ("The dog does not see the cat.", "Der Hund sieht die Katze nicht.",
     clause("see", "the dog", "the cat", negated=True)),
    ("The dog does not see a cat.", "Der Hund sieht keine Katze.",
     clause("see", "the dog", "a cat", negated=True)),
    ("Paul did not help old women.", "Paul half keinen alten Frauen.",
     clause("help", "Paul", "old women", negated=True, tense="past")),
    ("She does not wait for a train.", "Sie wartet nicht auf einen Zug.",
     clause("wait", "she", "a train", negated=True)),
    ("The cake is not fresh.", "Der Kuchen ist nicht frisch.",
     clause("be", "the cake", is_("fresh"), negated=True)),
    ("I never eat eggs.", "Ich esse nie Eier.",
     clause("eat", "I", "eggs", also=("never",))),
    # questions
    ("Does the dog see the cat?", "Sieht der Hund die Katze?",
     clause("see", "the dog", "the cat", kind=ASK)),
    ("Is the dog old?", "Ist der Hund alt?",
     clause("be", "the dog", is_("old"), kind=ASK)),
    ("Has he invited Maria?", "Hat er Maria eingeladen?",
     clause("invite", "he", "Maria", kind=ASK, tense="perfect")),
    ("Who sees the dog?", "Wer sieht den Hund?",
     clause("see", WHO, "the dog", kind=ASK, front=0)),
    ("Whom does the dog see?", "Wen sieht der Hund?",
     clause("see", "the dog", WHO, kind=ASK, front=1)),
    ("Whom does the dog help?", "Wem hilft der Hund?",
     clause("help", "the dog", WHO, kind=ASK, front=1)),
    ("What does she draw?", "Was zeichnet sie?",
     clause("draw", "she", WHAT, kind=ASK, front=1)),
    ("For which train does Peter wait?", "Auf welchen Zug wartet Peter?",
     clause("wait", "Peter", "which train", kind=ASK, front=1)),
    ("How many children sleep?", "Wie viele Kinder schlafen?",
     clause("sleep", "how many children", kind=ASK, front=0)),
    ("Where does the cat sit?", "Wo sitzt die Katze?",
     clause("sit", "the cat", WHERE, kind=ASK, front=1)),
    ("Where does the man go?", "Wohin geht der Mann?",
     clause("go", "the man", WHITHER, kind=ASK, front=1)),
    ("Why does the child laugh?", "Warum lacht das Kind?",
     clause("laugh", "the child", also=(WHY,), kind=ASK, front=1)),
    # subordinate clauses
    ("She laughs because the old dog sleeps on the bed.", "Sie lacht, weil der alte Hund auf dem Bett schläft.",
     clause("laugh", "she", also=(sub("because", "sleep", "the old dog", also=(at("on the bed"),)),))),
    ("If it rains, the dog sleeps.", "Wenn es regnet, schläft der Hund.",
     clause("sleep", "the dog", also=(sub("if", "rain", WEATHER),), front=1)),
    ("The dog slept when it snowed.", "Der Hund schlief, als es schneite.",
     clause("sleep", "the dog", also=(sub("when", "snow", WEATHER, tense="past"),), tense="past")),
    ("I know whether he will come back.", "Ich weiß, ob er zurückkommen wird.",
     clause("know:wissen", "I", sub("whether", "come back", "he", tense="will"))),
    ("I know where he lives.", "Ich weiß, wo er wohnt.",
     clause("know:wissen", "I", Subordinate(clause("live", "he", WHERE, kind=EMBED, front=1)))),
    ("I know the doctor.", "Ich kenne den Arzt.",
     clause("know:kennen", "I", "the doctor")),
    ("We hope to help the child.", "Wir hoffen, dem Kind zu helfen.",
     clause("hope", "we", Subordinate(clause("help", "we", "the child", kind=INFINITIVE)), frame=1)),
    # relative clauses
    ("The dog that sleeps is old.", "Der Hund, der schläft, ist alt.",
     clause("be", who("the dog", "that", "sleep"), is_("old"))),
    ("I have seen the woman whom the man helps.", "Ich habe die Frau gesehen, der der Mann hilft.",
     clause("see", "I", who("the woman", "whom", "help", "the man", gap=1), tense="perfect")),
    ("He lives in the house.", "Er wohnt im Haus.",
     clause("live", "he", at("in the house"))),
    ("She knows the children with whom the man talks.", "Sie kennt die Kinder, mit denen der Mann spricht.",
     clause("know:kennen", "she", who("the children", "whom", "talk", "the man", gap=1, frame=1))),
    # pronouns whose gender follows what they stand for
    ("The table is old, but it is beautiful.", "Der Tisch ist alt, aber er ist schön.",
     (clause("be", "the table", is_("old")), "but", clause("be", it(M), is_("beautiful")))),
    ("The lamp is new, and we love it.", "Die Lampe ist neu, und wir lieben sie.",
     (clause("be", "the lamp", is_("new")), "and", clause("love", "we", it(F)))),
    # comparison, coordination
    ("A horse is bigger than the dog.", "Ein Pferd ist größer als der Hund.",
     clause("be", "a horse", is_("bigger", than="the dog"))),
    ("This house is more beautiful than a city.", "Dieses Haus ist schöner als eine Stadt.",
     clause("be", "this house", is_("more beautiful", than="a city"))),
    ("He buys a more expensive car.", "Er kauft ein teureres Auto.",
     clause("buy", "he", "a more expensive car")),
    ("The dark forest is very big.", "Der dunkle Wald ist sehr groß.",
     clause("be", "the dark forest", is_("very big"))),
    ("The dog and the cat see him and Anna.", "Der Hund und die Katze sehen ihn und Anna.",
     clause("see", Both(np("the dog"), np("the cat")), Both(np("he"), np("Anna")))),
    ("The king is old and rich.", "Der König ist alt und reich.",
     clause("be", "the king", is_("old", "rich"))),
]
# fmt: on


def joined(said):
    """A sentence of one clause, or of two and a conjunction."""
    if isinstance(said, Clause):
        return Sentence(said)
    first, conjunction, second = said
    return Sentence(first, next(known for known in LEXICON.coordinating if known[0] == conjunction), second)


@pytest.mark.parametrize(("english", "german", "said"), SENTENCES, ids=[english for english, _, _ in SENTENCES])
def test_a_sentence_translated_by_hand(english, german, said):
    sentence = joined(said)
    assert detokenise(sentence.english().leaves()) == english
    assert sentence.german() == german


def test_a_plain_sentence_keeps_the_capitals_of_names_and_of_german_nouns():
    sentence = joined(clause("invite", "Anna", "the old neighbour"))
    assert detokenise(sentence.english(plain=True).leaves()) == "Anna invites the old neighbour"
    assert sentence.german(plain=True) == "Anna lädt den alten Nachbarn ein"
    sentence = joined(clause("see", "the dog", "I"))
    assert detokenise(sentence.english(plain=True).leaves()) == "the dog sees me"
    assert sentence.german(plain=True) == "der Hund sieht mich"


def test_a_tree():
    sentence = joined(clause("pick up", "the old dog", it(M), negated=True, also=("today",), front=2))
    assert str(sentence.english()) == (
        "(S (NP (NN Today)) (NP (DT the) (JJ old) (NN dog)) (VP (VBZ does) (RB not) "
        "(VP (VB pick) (NP (PRP it)) (PRT (RP up)))) (. .))"
    )
    assert sentence.german() == "Heute hebt der alte Hund ihn nicht auf."


@pytest.mark.parametrize("conjunction", ["because", "when"])
def test_trees_of_questions_and_clauses(conjunction):
    embedded = sub(conjunction, "sleep", who("a child", "who", "laugh"))
    tree = joined(clause("help", "he", WHO, kind=ASK, front=1, also=(embedded,))).english()
    assert str(tree) == (
        "(SBARQ (WHNP (WP Whom)) (SQ (VBZ does) (NP (PRP he)) (VP (VB help) "
        f"(SBAR (IN {conjunction}) (S (NP (NP (DT a) (NN child)) (SBAR (WHNP (WP who)) (S (VP (VBZ laughs))))) "
        "(VP (VBZ sleeps)))))) (. ?))"
    )
