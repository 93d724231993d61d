"""Sentences translated by hand, several for each phenomenon, built from the grammar's own parts."""

from tests.grammar.clause_plan import SUBJECT_MARKING
from tests.grammar.clause_sampler import GENITIVE, THAT, WHETHER
from tests.grammar.clauses import (
    Adjunct,
    Argument,
    Clause,
    Constituent,
    Position,
    Predicate,
    Sentence,
    SubordinateClause,
)
from tests.grammar.lexicon import LEXICON
from tests.grammar.morphology import Agreement, ClauseType, GenderNumber
from tests.grammar.nominal_sampler import PRONOUNS, WEATHER_IT
from tests.grammar.nominals import (
    WHAT,
    WHO,
    AdjectivePhrase,
    Coordination,
    Name,
    NounPhrase,
    Pronoun,
    RelativePronoun,
)
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
        (Position.TIME, TIMES),
        (Position.FREQUENCY, (*LEXICON.frequencies, LEXICON.never)),
        (Position.MANNER, LEXICON.manners),
    )
    for adverb in adverbs
}
WHERE, WHERE_TO, WHY = (Adjunct(LEXICON.questions[word], Position.TIME) for word in ("wo", "wohin", "warum"))
QUESTION, EMBEDDED, INFINITIVE = ClauseType.QUESTION, ClauseType.EMBEDDED, ClauseType.INFINITIVE


def it(gender):
    """Return the pronoun `it` for a noun that has this gender in German."""
    return Pronoun(Agreement(3, gender), "it", "it", "thing")


def noun_phrase(text, modifier=None):
    """Build a nominal: `he`, `Anna`, `the three very old dogs`, `a more beautiful house`."""
    if text in NAMED:
        return NAMED[text]
    words = text.replace("how many", "how_many").split()
    plural = words[-1] in PLURALS
    determiners = {(known.plural if plural else known.singular): known for _, known in LEXICON.determiners}
    first = "a" if words[0] == "an" else words[0].replace("_", " ")
    determiner = determiners.get(first) or determiners.get("")
    adjectives = [
        AdjectivePhrase(
            ADJECTIVES.get(word) or COMPARATIVES[word], before == "more" or word in COMPARATIVES, before == "very"
        )
        for before, word in zip(["", *words], words, strict=False)
        if word in ADJECTIVES or word in COMPARATIVES
    ]
    numeral = next(((word, NUMERALS[word]) for word in words if word in NUMERALS), None)
    noun = (PLURALS if plural else SINGULARS)[words[-1]]
    return NounPhrase(determiner, noun, plural, tuple(adjectives), numeral, modifier)


def as_nominal(value):
    return noun_phrase(value) if isinstance(value, str) else value


def clause(
    verb,
    *nominals,
    tense="present",
    clause_type=ClauseType.STATEMENT,
    frame=0,
    also=(),
    front=None,
    negated=False,
):
    """Build a clause from a verb (`pick up`, or `know:wissen`), its subject, the slots of a frame, and adjuncts.

    The subject of an infinitive decides its agreement only.
    """
    english, _, german = verb.partition(":")
    base, _, particle = english.partition(" ")
    found = next(
        known
        for known in VERBS
        if (known.english.base, known.particle) == (base, particle) and german in ("", known.german.infinitive)
    )
    subject = as_nominal(nominals[0])
    parts = [] if clause_type is INFINITIVE else [Argument(subject, SUBJECT_MARKING)]
    parts += [
        filler if isinstance(filler, Constituent) else Argument(as_nominal(filler), slot.marking)
        for slot, filler in zip(found.frames[frame], nominals[1:], strict=False)  # the last slot may be optional
    ]
    parts += [ADVERBS[adjunct] if isinstance(adjunct, str) else adjunct for adjunct in also]
    return Clause(clause_type, found, TENSES[tense][1], subject.agreement, tuple(parts), front, negated)


def place(text, prepositions=LEXICON.locations, position=Position.PLACE):
    """Build a place: `in the garden`."""
    preposition, phrase = text.split(maxsplit=1)
    marking = next(known.marking for known in prepositions if known.marking.english == preposition)
    return Argument(noun_phrase(phrase), marking, position)


def direction(text):
    """Build a direction: `into the garden`."""
    return place(text, LEXICON.directions, Position.DIRECTION)


def goal(text):
    """Build the goal of a placement: `on the table`."""
    return place(text, LEXICON.goals, Position.DIRECTION)


def companion(text):
    """Build a companion: `with the child`."""
    preposition, phrase = text.split(maxsplit=1)
    marking = next(known for known in LEXICON.companions if known.english == preposition)
    return Argument(noun_phrase(phrase), marking, Position.COMPANION)


def subordinate(conjunction, *parts, **options):
    """Build a clause after a conjunction."""
    return SubordinateClause(clause(*parts, clause_type=EMBEDDED, **options), CONJUNCTIONS[conjunction])


def with_relative_clause(antecedent, word, verb, *nominals, gap=0, **options):
    """Build a noun phrase with a relative clause, in which the pronoun replaces the nominal at index `gap`."""
    parts = [*nominals[:gap], RelativePronoun(noun_phrase(antecedent), word), *nominals[gap:]]
    return noun_phrase(antecedent, SubordinateClause(clause(verb, *parts, clause_type=EMBEDDED, front=gap, **options)))


def predicate(*adjectives, than=None):
    """Build a predicate: `old`, `very old`, `older`, `more expensive`."""
    phrases = (noun_phrase(f"{adjective} dog").adjectives[0] for adjective in adjectives)
    return Predicate(tuple(phrases), noun_phrase(than) if than else None)


def both(first, second):
    return Coordination(noun_phrase(first), noun_phrase(second))


def genitive(head, owner):
    return noun_phrase(head, Argument(noun_phrase(owner), GENITIVE))


M, N = GenderNumber.MASCULINE, GenderNumber.NEUTER

# fmt: off
SENTENCES = [
    # case, gender, number: articles and adjectives, strong, weak and mixed
    ("The old dog sees a small house.", "Der alte Hund sieht ein kleines Haus.",
     clause("see", "the old dog", "a small house")),
    ("The woman buys a new table.", "Die Frau kauft einen neuen Tisch.",
     clause("buy", "the woman", "a new table")),
    ("Old men buy new cars.", "Alte Männer kaufen neue Autos.",
     clause("buy", "old men", "new cars")),
    ("Many young birds see some big horses.", "Viele junge Vögel sehen einige große Pferde.",
     clause("see", "many young birds", "some big horses")),
    # numbers
    ("Two old dogs see the three small houses.", "Zwei alte Hunde sehen die drei kleinen Häuser.",
     clause("see", "two old dogs", "the three small houses")),
    ("The child sleeps at seven o'clock.", "Das Kind schläft um sieben Uhr.",
     clause("sleep", "the child", also=("at seven o'clock",))),
    ("In 1998 the train arrived.", "Im Jahr 1998 kam der Zug an.",
     clause("arrive", "the train", also=("in 1998",), tense="past", front=1)),
    # n-declension
    ("The student helps a young farmer.", "Der Student hilft einem jungen Bauern.",
     clause("help", "the student", "a young farmer")),
    # dative: verbs, recipients
    ("The woman helps the old men.", "Die Frau hilft den alten Männern.",
     clause("help", "the woman", "the old men")),
    ("The dog has followed the cats.", "Der Hund ist den Katzen gefolgt.",
     clause("follow", "the dog", "the cats", tense="perfect")),
    ("The woman gives the child a red ball.", "Die Frau gibt dem Kind einen roten Ball.",
     clause("give", "the woman", "the child", "a red ball")),
    ("The woman gives the red ball to a child.", "Die Frau gibt den roten Ball einem Kind.",
     clause("give", "the woman", "the red ball", "a child", frame=1)),
    ("I give it to her.", "Ich gebe ihn ihr.",
     clause("give", "I", it(M), "she", frame=1)),
    # genitive
    ("The dog of the old man sees a house of his sister.", "Der Hund des alten Mannes sieht ein Haus seiner Schwester.",
     clause("see", genitive("the dog", "the old man"), genitive("a house", "his sister"))),
    # prepositions that verbs ask for
    ("They wait for the train.", "Sie warten auf den Zug.",
     clause("wait", "they", "the train")),
    ("The girl looks for her key.", "Das Mädchen sucht ihren Schlüssel.",
     clause("look:suchen", "the girl", "her key")),
    ("I remember the king.", "Ich erinnere mich an den König.",
     clause("remember", "I", "the king")),
    # place and direction
    ("The cat sits on the table.", "Die Katze sitzt auf dem Tisch.",
     clause("sit", "the cat", place("on the table"))),
    ("The man places the bottle on the table.", "Der Mann stellt die Flasche auf den Tisch.",
     clause("place", "the man", "the bottle", goal("on the table"))),
    ("The children sleep in the house.", "Die Kinder schlafen im Haus.",
     clause("sleep", "the children", also=(place("in the house"),))),
    ("The children run into the house.", "Die Kinder laufen ins Haus.",
     clause("run", "the children", direction("into the house"))),
    ("She goes to the church with her daughter.", "Sie geht mit ihrer Tochter zur Kirche.",
     clause("go", "she", direction("to the church"), also=(companion("with her daughter"),))),
    # verb second
    ("Today the dog sees the cat.", "Heute sieht der Hund die Katze.",
     clause("see", "the dog", "the cat", also=("today",), front=2)),
    ("In the garden the king dances.", "Im Garten tanzt der König.",
     clause("dance", "the king", also=(place("in the garden"),), front=1)),
    ("The girl dances quietly in the kitchen every day.", "Das Mädchen tanzt jeden Tag leise in der Küche.",
     clause("dance", "the girl", also=("quietly", place("in the kitchen"), "every day"))),
    ("She often visits us.", "Sie besucht uns oft.",
     clause("visit", "she", "we", also=("often",))),
    ("Now the boy hurries.", "Jetzt beeilt sich der Junge.",
     clause("hurry", "the boy", also=("now",), front=1)),
    # separable verbs
    ("He picks it up.", "Er hebt es auf.",
     clause("pick up", "he", it(N))),
    ("He has picked up the book.", "Er hat das Buch aufgehoben.",
     clause("pick up", "he", "the book", tense="perfect")),
    ("He wants to pick up the book.", "Er will das Buch aufheben.",
     clause("pick up", "he", "the book", tense="want")),
    ("She says that he picks up the book.", "Sie sagt, dass er das Buch aufhebt.",
     clause("say", "she", subordinate("that", "pick up", "he", "the book"))),
    ("He tries to pick up the book.", "Er versucht, das Buch aufzuheben.",
     clause("try", "he", SubordinateClause(clause("pick up", "he", "the book", clause_type=INFINITIVE)))),
    # tenses and moods
    ("The teacher has written a letter.", "Die Lehrerin hat einen Brief geschrieben.",
     clause("write", "the teacher", "a letter", tense="perfect")),
    ("We had forgotten the key.", "Wir hatten den Schlüssel vergessen.",
     clause("forget", "we", "the key", tense="had")),
    ("My father will turn off the clock tomorrow.", "Mein Vater wird morgen die Uhr ausschalten.",
     clause("turn off", "my father", "the clock", tense="will", also=("tomorrow",))),
    ("The teacher cannot open the door.", "Die Lehrerin kann die Tür nicht öffnen.",
     clause("open", "the teacher", "the door", tense="can", negated=True)),
    ("I must not visit the school.", "Ich darf die Schule nicht besuchen.",
     clause("visit", "I", "the school", tense="must not", negated=True)),
    ("They did not want to eat the potatoes.", "Sie wollten die Kartoffeln nicht essen.",
     clause("eat", "they", "the potatoes", tense="wanted", negated=True)),
    # negation
    ("The dog does not see the cat.", "Der Hund sieht die Katze nicht.",
     clause("see", "the dog", "the cat", negated=True)),
    ("The dog does not see a cat.", "Der Hund sieht keine Katze.",
     clause("see", "the dog", "a cat", negated=True)),
    ("She does not wait for a train.", "Sie wartet nicht auf einen Zug.",
     clause("wait", "she", "a train", negated=True)),
    ("The cake is not fresh.", "Der Kuchen ist nicht frisch.",
     clause("be", "the cake", predicate("fresh"), negated=True)),
    ("I never eat eggs.", "Ich esse nie Eier.",
     clause("eat", "I", "eggs", also=("never",))),
    # questions
    ("Does the dog see the cat?", "Sieht der Hund die Katze?",
     clause("see", "the dog", "the cat", clause_type=QUESTION)),
    ("Who sees the dog?", "Wer sieht den Hund?",
     clause("see", WHO, "the dog", clause_type=QUESTION, front=0)),
    ("Whom does the dog see?", "Wen sieht der Hund?",
     clause("see", "the dog", WHO, clause_type=QUESTION, front=1)),
    ("Whom does the dog help?", "Wem hilft der Hund?",
     clause("help", "the dog", WHO, clause_type=QUESTION, front=1)),
    ("What does she draw?", "Was zeichnet sie?",
     clause("draw", "she", WHAT, clause_type=QUESTION, front=1)),
    ("For which train does Peter wait?", "Auf welchen Zug wartet Peter?",
     clause("wait", "Peter", "which train", clause_type=QUESTION, front=1)),
    ("How many children sleep?", "Wie viele Kinder schlafen?",
     clause("sleep", "how many children", clause_type=QUESTION, front=0)),
    ("Where does the cat sit?", "Wo sitzt die Katze?",
     clause("sit", "the cat", WHERE, clause_type=QUESTION, front=1)),
    ("Where does the man go?", "Wohin geht der Mann?",
     clause("go", "the man", WHERE_TO, clause_type=QUESTION, front=1)),
    ("Why does the child laugh?", "Warum lacht das Kind?",
     clause("laugh", "the child", also=(WHY,), clause_type=QUESTION, front=1)),
    # subordinate clauses
    ("She laughs because the old dog sleeps on the bed.", "Sie lacht, weil der alte Hund auf dem Bett schläft.",
     clause("laugh", "she", also=(subordinate("because", "sleep", "the old dog", also=(place("on the bed"),)),))),
    ("If it rains, the dog sleeps.", "Wenn es regnet, schläft der Hund.",
     clause("sleep", "the dog", also=(subordinate("if", "rain", WEATHER_IT),), front=1)),
    ("The dog slept when it snowed.", "Der Hund schlief, als es schneite.",
     clause("sleep", "the dog", also=(subordinate("when", "snow", WEATHER_IT, tense="past"),), tense="past")),
    ("I know where he lives.", "Ich weiß, wo er wohnt.",
     clause("know:wissen", "I", SubordinateClause(clause("live", "he", WHERE, clause_type=EMBEDDED, front=1)))),
    ("I know the doctor.", "Ich kenne den Arzt.",
     clause("know:kennen", "I", "the doctor")),
    ("We hope to help the child.", "Wir hoffen, dem Kind zu helfen.",
     clause("hope", "we", SubordinateClause(clause("help", "we", "the child", clause_type=INFINITIVE)), frame=1)),
    # relative clauses
    ("The dog that sleeps is old.", "Der Hund, der schläft, ist alt.",
     clause("be", with_relative_clause("the dog", "that", "sleep"), predicate("old"))),
    ("I have seen the woman whom the man helps.", "Ich habe die Frau gesehen, der der Mann hilft.",
     clause("see", "I", with_relative_clause("the woman", "whom", "help", "the man", gap=1), tense="perfect")),
    ("She knows the children with whom the man talks.", "Sie kennt die Kinder, mit denen der Mann spricht.",
     clause("know:kennen", "she", with_relative_clause("the children", "whom", "talk", "the man", gap=1, frame=1))),
    # pronouns whose gender follows what they stand for
    ("The table is old, but it is beautiful.", "Der Tisch ist alt, aber er ist schön.",
     (clause("be", "the table", predicate("old")), "but", clause("be", it(M), predicate("beautiful")))),
    # comparison, coordination
    ("This house is more beautiful than a city.", "Dieses Haus ist schöner als eine Stadt.",
     clause("be", "this house", predicate("more beautiful", than="a city"))),
    ("The dark forest is very big.", "Der dunkle Wald ist sehr groß.",
     clause("be", "the dark forest", predicate("very big"))),
    ("The dog and the cat see him and Anna.", "Der Hund und die Katze sehen ihn und Anna.",
     clause("see", both("the dog", "the cat"), both("he", "Anna"))),
    ("The king is old and rich.", "Der König ist alt und reich.",
     clause("be", "the king", predicate("old", "rich"))),
]
# fmt: on


def sentence_of(content):
    """Build a sentence from one clause, or from two and a conjunction."""
    if isinstance(content, Clause):
        return Sentence(content)
    first, conjunction, second = content
    return Sentence(first, next(known for known in LEXICON.coordinating if known[0] == conjunction), second)


def test_sentences_are_translated_as_by_hand():
    for english, german, content in SENTENCES:
        sentence = sentence_of(content)
        assert (detokenise(sentence.english().leaves()), sentence.german()) == (english, german)


def test_plain_sentences_keep_the_capitals_of_names_and_german_nouns():
    sentence = sentence_of(clause("invite", "Anna", "the old neighbour"))
    assert detokenise(sentence.english(plain=True).leaves()) == "Anna invites the old neighbour"
    assert sentence.german(plain=True) == "Anna lädt den alten Nachbarn ein"
    sentence = sentence_of(clause("see", "the dog", "I"))
    assert detokenise(sentence.english(plain=True).leaves()) == "the dog sees me"
    assert sentence.german(plain=True) == "der Hund sieht mich"


def test_tree_of_a_statement():
    sentence = sentence_of(clause("pick up", "the old dog", it(M), negated=True, also=("today",), front=2))
    assert str(sentence.english()) == (
        "(S (NP (NN Today)) (NP (DT the) (JJ old) (NN dog)) (VP (VBZ does) (RB not) "
        "(VP (VB pick) (NP (PRP it)) (PRT (RP up)))) (. .))"
    )
    assert sentence.german() == "Heute hebt der alte Hund ihn nicht auf."


def test_tree_of_a_question_with_embedded_clauses():
    embedded = subordinate("because", "sleep", with_relative_clause("a child", "who", "laugh"))
    tree = sentence_of(clause("help", "he", WHO, clause_type=QUESTION, front=1, also=(embedded,))).english()
    assert str(tree) == (
        "(SBARQ (WHNP (WP Whom)) (SQ (VBZ does) (NP (PRP he)) (VP (VB help) "
        "(SBAR (IN because) (S (NP (NP (DT a) (NN child)) (SBAR (WHNP (WP who)) (S (VP (VBZ laughs))))) "
        "(VP (VBZ sleeps)))))) (. ?))"
    )
