"""Nouns, and the words that stand before them, as tables.

Each English word has one translation. A noun whose plural looks like its singular (sheep) is left out: English
would not say what German has to.
"""

# By sort. English singular and plural | gender and principal parts: nominative, genitive, plural.
NOUNS = {
    "person": """
        man men               | m Mann Mannes Männer
        woman women           | f Frau Frau Frauen
        child children        | n Kind Kindes Kinder
        girl girls            | n Mädchen Mädchens Mädchen
        boy boys              | m Junge Jungen Jungen
        friend friends        | m Freund Freundes Freunde
        neighbour neighbours  | m Nachbar Nachbarn Nachbarn
        student students      | m Student Studenten Studenten
        farmer farmers        | m Bauer Bauern Bauern
        doctor doctors        | m Arzt Arztes Ärzte
        teacher teachers      | f Lehrerin Lehrerin Lehrerinnen
        mother mothers        | f Mutter Mutter Mütter
        father fathers        | m Vater Vaters Väter
        sister sisters        | f Schwester Schwester Schwestern
        brother brothers      | m Bruder Bruders Brüder
        daughter daughters    | f Tochter Tochter Töchter
        son sons              | m Sohn Sohnes Söhne
        king kings            | m König Königs Könige
    """,
    "animal": """
        dog dogs              | m Hund Hundes Hunde
        cat cats              | f Katze Katze Katzen
        horse horses          | n Pferd Pferdes Pferde
        bird birds            | m Vogel Vogels Vögel
        bear bears            | m Bär Bären Bären
        lion lions            | m Löwe Löwen Löwen
    """,
    "thing": """
        key keys              | m Schlüssel Schlüssels Schlüssel
        bottle bottles        | f Flasche Flasche Flaschen
        hat hats              | m Hut Hutes Hüte
        ball balls            | m Ball Balles Bälle
        flower flowers        | f Blume Blume Blumen
    """,
    "text": """
        book books            | n Buch Buches Bücher
        letter letters        | m Brief Briefes Briefe
        newspaper newspapers  | f Zeitung Zeitung Zeitungen
    """,
    "food": """
        apple apples          | m Apfel Apfels Äpfel
        egg eggs              | n Ei Eies Eier
        cake cakes            | m Kuchen Kuchens Kuchen
        potato potatoes       | f Kartoffel Kartoffel Kartoffeln
    """,
    "machine": """
        lamp lamps            | f Lampe Lampe Lampen
        radio radios          | n Radio Radios Radios
        clock clocks          | f Uhr Uhr Uhren
    """,
    "vehicle": """
        car cars              | n Auto Autos Autos
        train trains          | m Zug Zuges Züge
        bicycle bicycles      | n Fahrrad Fahrrads Fahrräder
    """,
    "furniture": """
        table tables          | m Tisch Tisches Tische
        chair chairs          | m Stuhl Stuhls Stühle
        bed beds              | n Bett Bettes Betten
        shelf shelves         | n Regal Regals Regale
    """,
    "opening": """
        door doors            | f Tür Tür Türen
        window windows        | n Fenster Fensters Fenster
    """,
    "landmark": """
        tree trees            | m Baum Baumes Bäume
        tower towers          | m Turm Turmes Türme
    """,
    "site": """
        mountain mountains    | m Berg Berges Berge
        island islands        | f Insel Insel Inseln
    """,
    "place": """
        house houses          | n Haus Hauses Häuser
        garden gardens        | m Garten Gartens Gärten
        kitchen kitchens      | f Küche Küche Küchen
        city cities           | f Stadt Stadt Städte
        school schools        | f Schule Schule Schulen
        church churches       | f Kirche Kirche Kirchen
        forest forests        | m Wald Waldes Wälder
        room rooms            | n Zimmer Zimmers Zimmer
        park parks            | m Park Parks Parks
    """,
}

SORTS = {
    "animate": "person animal",
    "portable": "thing text food",
    "goods": "thing text food machine vehicle furniture",
    "all": "person animal thing text food machine vehicle furniture opening landmark site place",
}
"""Names for several sorts together."""

# By sorts, in the order in which several stand before a noun. English, comparative (`more` where it is not a word,
# none where it is not used) | German, with the stem where it differs, comparative.
ADJECTIVES = {
    "all": """
        strange               | seltsam
        beautiful more        | schön schöner
        ugly                  | hässlich
        small smaller         | klein kleiner
        big bigger            | groß größer
        old older             | alt älter
    """,
    "animate": """
        young younger         | jung jünger
        happy                 | glücklich
        sad                   | traurig
        tired                 | müde/müd
        hungry                | hungrig
        clever                | klug
        strong stronger       | stark stärker
    """,
    "person": """
        rich richer           | reich reicher
        poor                  | arm
        friendly              | freundlich
        famous                | berühmt
    """,
    "animal": """
        dangerous more        | gefährlich gefährlicher
    """,
    "goods": """
        new                   | neu
        expensive more        | teuer/teur teurer
        cheap cheaper         | billig billiger
        red                   | rot
        blue                  | blau
    """,
    "food": """
        fresh                 | frisch
        sweet                 | süß
    """,
    "opening": """
        green                 | grün
        white                 | weiß
    """,
    "landmark site": """
        high                  | hoch/hoh
    """,
    "place": """
        dark                  | dunkel/dunkl
        empty                 | leer
    """,
}

# How often, English singular and plural (- there is none, _ nothing is said), tag | German stem and paradigm |
# group: d(efinite), i(ndefinite), q(uantity), n(egative), w(h-), by which clauses choose, and their weight.
DETERMINERS = """
    30 the the       DT   | d article           | d definite
    18 a -           DT   | ein possessive      | i indefinite
     9 - _           DT   | _ uninflected       | i indefinite
     4 my my         PRP$ | mein possessive     | d definite
     4 his his       PRP$ | sein possessive     | d definite
     4 her her       PRP$ | ihr possessive      | d definite
     3 our our       PRP$ | unser possessive    | d definite
     3 their their   PRP$ | ihr possessive      | d definite
     6 this these    DT   | dies demonstrative  | d definite
     4 every -       DT   | jed demonstrative   | q definite
     3 - all         DT   | all demonstrative   | q definite
     3 - some        DT   | einig adjective     | q indefinite
     3 - many        JJ   | viel adjective      | q indefinite
     4 no no         DT   | kein possessive     | n indefinite
     8 which which   WDT  | welch demonstrative | w definite
     6 - how_many    JJ   | wie_viel adjective  | w definite
"""

NUMERALS = """
    two zwei, three drei, four vier, five fünf, six sechs, seven sieben, eight acht, nine neun, ten zehn,
    eleven elf, twelve zwölf
"""

NAMES = "Anna Peter Maria Paul Julia Martin"
