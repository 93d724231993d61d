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
        queen queens          | f Königin Königin Königinnen
        guest guests          | m Gast Gastes Gäste
        aunt aunts            | f Tante Tante Tanten
    """,
    "animal": """
        dog dogs              | m Hund Hundes Hunde
        cat cats              | f Katze Katze Katzen
        horse horses          | n Pferd Pferdes Pferde
        bird birds            | m Vogel Vogels Vögel
        bear bears            | m Bär Bären Bären
        lion lions            | m Löwe Löwen Löwen
        mouse mice            | f Maus Maus Mäuse
        cow cows              | f Kuh Kuh Kühe
        pig pigs              | n Schwein Schweins Schweine
        goat goats            | f Ziege Ziege Ziegen
    """,
    "thing": """
        key keys              | m Schlüssel Schlüssels Schlüssel
        cup cups              | f Tasse Tasse Tassen
        bottle bottles        | f Flasche Flasche Flaschen
        bag bags              | f Tasche Tasche Taschen
        hat hats              | m Hut Hutes Hüte
        coat coats            | m Mantel Mantels Mäntel
        knife knives          | n Messer Messers Messer
        spoon spoons          | m Löffel Löffels Löffel
        ball balls            | m Ball Balles Bälle
        flower flowers        | f Blume Blume Blumen
        gift gifts            | n Geschenk Geschenks Geschenke
        umbrella umbrellas    | m Schirm Schirms Schirme
    """,
    "text": """
        book books            | n Buch Buches Bücher
        letter letters        | m Brief Briefes Briefe
        newspaper newspapers  | f Zeitung Zeitung Zeitungen
        poem poems            | n Gedicht Gedichts Gedichte
    """,
    "food": """
        apple apples          | m Apfel Apfels Äpfel
        egg eggs              | n Ei Eies Eier
        pear pears            | f Birne Birne Birnen
        cake cakes            | m Kuchen Kuchens Kuchen
        potato potatoes       | f Kartoffel Kartoffel Kartoffeln
    """,
    "machine": """
        lamp lamps            | f Lampe Lampe Lampen
        radio radios          | n Radio Radios Radios
        computer computers    | m Computer Computers Computer
        clock clocks          | f Uhr Uhr Uhren
    """,
    "vehicle": """
        car cars              | n Auto Autos Autos
        train trains          | m Zug Zuges Züge
        bus buses             | m Bus Busses Busse
        bicycle bicycles      | n Fahrrad Fahrrads Fahrräder
    """,
    "furniture": """
        table tables          | m Tisch Tisches Tische
        chair chairs          | m Stuhl Stuhls Stühle
        bed beds              | n Bett Bettes Betten
        bench benches         | f Bank Bank Bänke
        shelf shelves         | n Regal Regals Regale
    """,
    "opening": """
        door doors            | f Tür Tür Türen
        window windows        | n Fenster Fensters Fenster
    """,
    "landmark": """
        tree trees            | m Baum Baumes Bäume
        tower towers          | m Turm Turmes Türme
        wall walls            | f Mauer Mauer Mauern
        monument monuments    | n Denkmal Denkmals Denkmäler
    """,
    "site": """
        mountain mountains    | m Berg Berges Berge
        island islands        | f Insel Insel Inseln
        bridge bridges        | f Brücke Brücke Brücken
    """,
    "place": """
        house houses          | n Haus Hauses Häuser
        garden gardens        | m Garten Gartens Gärten
        kitchen kitchens      | f Küche Küche Küchen
        city cities           | f Stadt Stadt Städte
        village villages      | n Dorf Dorfes Dörfer
        school schools        | f Schule Schule Schulen
        church churches       | f Kirche Kirche Kirchen
        forest forests        | m Wald Waldes Wälder
        room rooms            | n Zimmer Zimmers Zimmer
        shop shops            | m Laden Ladens Läden
        park parks            | m Park Parks Parks
        hotel hotels          | n Hotel Hotels Hotels
        museum museums        | n Museum Museums Museen
    """,
}

SORTS = {
    "animate": "person animal",
    "portable": "thing text food",
    "goods": "thing text food machine vehicle furniture",
    "all": "person animal thing text food machine vehicle furniture opening landmark site place",
}
"""Names for several sorts together."""

ADJECTIVES = {
    "all": """
        strange stranger      | seltsam seltsamer
        beautiful more        | schön schöner
        ugly uglier           | hässlich hässlicher
        small smaller         | klein kleiner
        big bigger            | groß größer
        old older             | alt älter
    """,
    "animate": """
        young younger         | jung jünger
        happy happier         | glücklich glücklicher
        sad sadder            | traurig trauriger
        tired                 | müde/müd
        clever cleverer       | klug klüger
        strong stronger       | stark stärker
        hungry                | hungrig
        dangerous more        | gefährlich gefährlicher
    """,
    "person": """
        rich richer           | reich reicher
        poor poorer           | arm ärmer
        friendly friendlier   | freundlich freundlicher
        famous more           | berühmt berühmter
    """,
    "animal": """
        brown                 | braun
    """,
    "goods": """
        new newer             | neu neuer
        expensive more        | teuer/teur teurer
        cheap cheaper         | billig billiger
        heavy heavier         | schwer schwerer
        red                   | rot
        blue                  | blau
    """,
    "opening": """
        green                 | grün
        white                 | weiß
    """,
    "food": """
        fresh                 | frisch
        sweet sweeter         | süß süßer
    """,
    "landmark site": """
        high higher           | hoch/hoh höher
    """,
    "place": """
        dark darker           | dunkel/dunkl dunkler
        empty                 | leer
        quiet quieter         | ruhig ruhiger
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
