"""German and English inflection, against the paradigms of a grammar book."""

from tests.grammar.lexicon import LEXICON, german_verb
from tests.grammar.morphology import (
    Agreement,
    Case,
    EnglishVerb,
    GenderNumber,
    GermanDeterminer,
    GermanVerb,
    decline,
    personal_pronoun,
    reflexive_pronoun,
    relative_pronoun,
)

NOUNS = {noun.german.nominative: noun.german for nouns in LEXICON.nouns.values() for noun in nouns}
GENDERS = {"Hund": GenderNumber.MASCULINE, "Haus": GenderNumber.NEUTER, "Frau": GenderNumber.FEMININE}

# Nominative, accusative, dative, genitive.
PHRASES = """
    d article       Hund        | der alte Hund      | den alten Hund     | dem alten Hund      | des alten Hundes
    d article       Haus        | das alte Haus      | das alte Haus      | dem alten Haus      | des alten Hauses
    d article       Frau        | die alte Frau      | die alte Frau      | der alten Frau      | der alten Frau
    d article       Hund plural | die alten Hunde    | die alten Hunde    | den alten Hunden    | der alten Hunde
    ein possessive  Hund        | ein alter Hund     | einen alten Hund   | einem alten Hund    | eines alten Hundes
    ein possessive  Haus        | ein altes Haus     | ein altes Haus     | einem alten Haus    | eines alten Hauses
    ein possessive  Frau        | eine alte Frau     | eine alte Frau     | einer alten Frau    | einer alten Frau
    kein possessive Haus plural | keine alten Häuser | keine alten Häuser | keinen alten Häusern | keiner alten Häuser
    dies demonstrative Hund     | dieser alte Hund   | diesen alten Hund  | diesem alten Hund   | dieses alten Hundes
    dies demonstrative Haus     | dieses alte Haus   | dieses alte Haus   | diesem alten Haus   | dieses alten Hauses
    dies demonstrative Frau     | diese alte Frau    | diese alte Frau    | dieser alten Frau   | dieser alten Frau
    dies demonstrative Frau plural | diese alten Frauen | diese alten Frauen | diesen alten Frauen | dieser alten Frauen
    viel adjective  Frau plural | viele alte Frauen  | viele alte Frauen  | vielen alten Frauen | vieler alter Frauen
    - uninflected   Hund        | alter Hund         | alten Hund         | altem Hund          | alten Hundes
    - uninflected   Haus        | altes Haus         | altes Haus         | altem Haus          | alten Hauses
    - uninflected   Frau        | alte Frau          | alte Frau          | alter Frau          | alter Frau
    - uninflected   Hund plural | alte Hunde         | alte Hunde         | alten Hunden        | alter Hunde
"""


def test_articles_adjectives_and_nouns_agree():
    for line in PHRASES.strip().splitlines():
        (stem, paradigm, noun, *plural), *expected = (cell.split() for cell in line.split("|"))
        gender_number = GenderNumber.PLURAL if plural else GENDERS[noun]
        determiner = GermanDeterminer(stem.strip("-"), paradigm)
        forms = [list(decline(determiner, (), [("alt",)], NOUNS[noun], case, gender_number)) for case in Case]
        assert forms == expected, line


def test_nouns():
    table = """
        Junge   | Junge Jungen Jungen Jungen             | Jungen Jungen Jungen Jungen
        Student | Student Studenten Studenten Studenten  | Studenten Studenten Studenten Studenten
        Bär     | Bär Bären Bären Bären                  | Bären Bären Bären Bären
        Kind    | Kind Kind Kind Kindes                  | Kinder Kinder Kindern Kinder
        Garten  | Garten Garten Garten Gartens           | Gärten Gärten Gärten Gärten
        Auto    | Auto Auto Auto Autos                   | Autos Autos Autos Autos
        Tür     | Tür Tür Tür Tür                        | Türen Türen Türen Türen
        Apfel   | Apfel Apfel Apfel Apfels               | Äpfel Äpfel Äpfeln Äpfel
    """
    for line in table.strip().splitlines():
        name, singular, plural = (cell.strip() for cell in line.split("|"))
        noun = NOUNS[name]
        assert " ".join(noun.form(case, noun.gender) for case in Case) == singular
        assert " ".join(noun.form(case, GenderNumber.PLURAL) for case in Case) == plural


def test_pronouns():
    cases = (Case.NOMINATIVE, Case.ACCUSATIVE, Case.DATIVE)
    table = {
        (1, GenderNumber.MASCULINE): "ich mich mir",
        (1, GenderNumber.PLURAL): "wir uns uns",
        (3, GenderNumber.MASCULINE): "er ihn ihm",
        (3, GenderNumber.NEUTER): "es es ihm",
        (3, GenderNumber.FEMININE): "sie sie ihr",
        (3, GenderNumber.PLURAL): "sie sie ihnen",
    }
    for agreement, forms in table.items():
        assert " ".join(personal_pronoun(Agreement(*agreement), case) for case in cases) == forms
    reflexives = " ".join(reflexive_pronoun(Agreement(*agreement)) for agreement in table)
    assert reflexives == "mich uns sich sich sich sich"
    relatives = [[relative_pronoun(case, column) for column in GenderNumber] for case in cases]
    assert relatives == [["der", "das", "die", "die"], ["den", "das", "die", "die"], ["dem", "dem", "der", "denen"]]


# Infinitive | ich, er, sie in the present | ich, er, sie in the past | participle.
VERBS = """
    sehen     | sehe sieht sehen          | sah sah sahen                   | gesehen
    helfen    | helfe hilft helfen        | half half halfen                | geholfen
    besuchen  | besuche besucht besuchen  | besuchte besuchte besuchten     | besucht
    arbeiten  | arbeite arbeitet arbeiten | arbeitete arbeitete arbeiteten  | gearbeitet
    öffnen    | öffne öffnet öffnen       | öffnete öffnete öffneten        | geöffnet
    wohnen    | wohne wohnt wohnen        | wohnte wohnte wohnten           | gewohnt
    zeichnen  | zeichne zeichnet zeichnen | zeichnete zeichnete zeichneten  | gezeichnet
    erinnern  | erinnere erinnert erinnern | erinnerte erinnerte erinnerten | erinnert
    reparieren | repariere repariert reparieren | reparierte reparierte reparierten | repariert
    gehören   | gehöre gehört gehören     | gehörte gehörte gehörten        | gehört
    sein      | bin ist sind              | war war waren                   | gewesen
    haben     | habe hat haben            | hatte hatte hatten              | gehabt
    wissen    | weiß weiß wissen          | wusste wusste wussten           | gewusst
    können    | kann kann können          | konnte konnte konnten           | gekonnt
    vergessen | vergesse vergisst vergessen | vergaß vergaß vergaßen        | vergessen
"""
SUBJECTS = (
    Agreement(1, GenderNumber.MASCULINE),
    Agreement(3, GenderNumber.FEMININE),
    Agreement(3, GenderNumber.PLURAL),
)


def test_german_verbs():
    for line in VERBS.strip().splitlines():
        infinitive, present, past, participle = (cell.strip() for cell in line.split("|"))
        verb = german_verb(infinitive)
        assert " ".join(verb.finite(agreement, past=False) for agreement in SUBJECTS) == present
        assert " ".join(verb.finite(agreement, past=True) for agreement in SUBJECTS) == past
        assert (verb.non_finite("participle"), verb.non_finite("infinitive")) == (participle, infinitive)


def test_separable_verbs():
    verb = GermanVerb.from_parts("auf+heben hebt hob gehoben")
    assert verb.finite(Agreement(3, GenderNumber.FEMININE), past=False) == "hebt"
    assert verb.non_finite("participle") == "aufgehoben"
    assert verb.non_finite("infinitive") == "aufheben"
    assert verb.with_zu() == ("aufzuheben",)
    assert GermanVerb.from_parts("besuchen").with_zu() == ("zu", "besuchen")


def test_english_verbs():
    for parts, present, past in (
        ("visit", "visit visits visit", "visited visited visited"),
        ("carry", "carry carries carry", "carried carried carried"),
        ("play", "play plays play", "played played played"),
        ("wash", "wash washes wash", "washed washed washed"),
        ("love", "love loves love", "loved loved loved"),
        ("be am/is/are was/was/were been", "am is are", "was was were"),
    ):
        verb = EnglishVerb.from_parts(parts)
        assert " ".join(verb.finite(agreement, False).word for agreement in SUBJECTS) == present
        assert " ".join(verb.finite(agreement, True).word for agreement in SUBJECTS) == past
