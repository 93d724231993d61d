"""German paradigms as a grammar book prints them, against the rules that make them."""

import pytest

from zoo.data.builtin.declension import GermanDeterminer, declined, pronoun, reflexive, relative_pronoun
from zoo.data.builtin.features import Agreement, Case, Column
from zoo.data.builtin.inflection import english_verb, german_verb
from zoo.data.builtin.lexicon import LEXICON
from zoo.data.builtin.reading import german

NOUNS = {noun.german.nominative: noun.german for nouns in LEXICON.nouns.values() for noun in nouns}
COLUMNS = {"Hund": Column.MASCULINE, "Haus": Column.NEUTER, "Frau": Column.FEMININE}

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


@pytest.mark.parametrize("line", PHRASES.strip().splitlines())
def test_articles_adjectives_and_nouns_agree(line):
    (stem, paradigm, noun, *plural), *expected = (cell.split() for cell in line.split("|"))
    column = Column.PLURAL if plural else COLUMNS[noun]
    determiner = GermanDeterminer(stem.strip("-"), paradigm)
    forms = [list(declined(determiner, (), [("alt",)], NOUNS[noun], case, column)) for case in Case]
    assert forms == expected


@pytest.mark.parametrize(
    ("noun", "singular", "plural"),
    [
        ("Junge", "Junge Jungen Jungen Jungen", "Jungen Jungen Jungen Jungen"),
        ("Student", "Student Studenten Studenten Studenten", "Studenten Studenten Studenten Studenten"),
        ("Bär", "Bär Bären Bären Bären", "Bären Bären Bären Bären"),
        ("Kind", "Kind Kind Kind Kindes", "Kinder Kinder Kindern Kinder"),
        ("Garten", "Garten Garten Garten Gartens", "Gärten Gärten Gärten Gärten"),
        ("Auto", "Auto Auto Auto Autos", "Autos Autos Autos Autos"),
        ("Tür", "Tür Tür Tür Tür", "Türen Türen Türen Türen"),
        ("Apfel", "Apfel Apfel Apfel Apfels", "Äpfel Äpfel Äpfeln Äpfel"),
    ],
)
def test_nouns(noun, singular, plural):
    known = NOUNS[noun]
    assert " ".join(known.form(case, known.gender) for case in Case) == singular
    assert " ".join(known.form(case, Column.PLURAL) for case in Case) == plural


def test_pronouns():
    cases = (Case.NOMINATIVE, Case.ACCUSATIVE, Case.DATIVE)
    table = {
        (1, Column.MASCULINE): "ich mich mir",
        (1, Column.PLURAL): "wir uns uns",
        (3, Column.MASCULINE): "er ihn ihm",
        (3, Column.NEUTER): "es es ihm",
        (3, Column.FEMININE): "sie sie ihr",
        (3, Column.PLURAL): "sie sie ihnen",
    }
    for agreement, forms in table.items():
        assert " ".join(pronoun(Agreement(*agreement), case) for case in cases) == forms
    assert [reflexive(Agreement(*agreement)) for agreement in table] == ["mich", "uns", "sich", "sich", "sich", "sich"]
    relatives = [[relative_pronoun(case, column) for column in Column] for case in cases]
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
SUBJECTS = (Agreement(1, Column.MASCULINE), Agreement(3, Column.FEMININE), Agreement(3, Column.PLURAL))


@pytest.mark.parametrize("line", VERBS.strip().splitlines())
def test_german_verbs(line):
    infinitive, present, past, participle = (cell.strip() for cell in line.split("|"))
    verb = german(infinitive)
    assert " ".join(verb.finite(agreement, past=False) for agreement in SUBJECTS) == present
    assert " ".join(verb.finite(agreement, past=True) for agreement in SUBJECTS) == past
    assert verb.dependent("participle") == participle
    assert verb.dependent("infinitive") == infinitive


def test_separable_verbs():
    verb = german_verb("auf+heben hebt hob gehoben")
    assert verb.finite(Agreement(3, Column.FEMININE), past=False) == "hebt"
    assert verb.dependent("participle") == "aufgehoben"
    assert verb.dependent("infinitive") == "aufheben"
    assert verb.with_zu() == ("aufzuheben",)
    assert german_verb("besuchen").with_zu() == ("zu", "besuchen")


@pytest.mark.parametrize(
    ("written", "present", "past"),
    [
        ("visit", "visit visits visit", "visited visited visited"),
        ("carry", "carry carries carry", "carried carried carried"),
        ("play", "play plays play", "played played played"),
        ("wash", "wash washes wash", "washed washed washed"),
        ("love", "love loves love", "loved loved loved"),
        ("be am/is/are was/was/were been", "am is are", "was was were"),
    ],
)
def test_english_verbs(written, present, past):
    verb = english_verb(written)
    assert " ".join(verb.finite(agreement, False).word for agreement in SUBJECTS) == present
    assert " ".join(verb.finite(agreement, True).word for agreement in SUBJECTS) == past
