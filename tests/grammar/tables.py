"""Words of the built-in corpus in tables, as text. `tests.grammar.lexicon` parses the tables.

Each English word has exactly one translation.
"""

# By semantic sort. Columns: English singular and plural | gender, nominative, genitive and plural.
# Nouns whose plural equals their singular (sheep) are left out, because German would need to know the number.
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
"""Groups of semantic sorts: the name of each group, and its sorts."""

# By sorts of nouns, in the order in which several adjectives precede a noun. Columns: English positive and comparative
# (`more` if it is formed with that word, nothing if there is none) | German positive, its stem after a slash if it
# differs, and comparative.
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

# Columns: weight in sampling, English singular and plural (- does not exist, _ is empty), tag | German stem and
# paradigm | group (d: definite, i: indefinite, q: quantity, n: negative, w: interrogative), by which clauses choose,
# and definiteness.
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

# Infinitive, present (third person singular), past and participle. `a/b/c` are the forms with I, it and they. All other
# verbs are regular.
IRREGULAR_ENGLISH = """
    be am/is/are was/was/were been, bring brings brought brought, buy buys bought bought, can can/can/can could -,
    come comes came come, draw draws drew drawn, drive drives drove driven, eat eats ate eaten,
    find finds found found, forget forgets forgot forgotten, give gives gave given, go goes went gone,
    have has had had, hear hears heard heard, know knows knew known, may may/may/may might -, must must/must/must - -,
    run runs ran run, say says said said, see sees saw seen, should should/should/should - -, show shows showed shown,
    sit sits sat sat, sleep sleeps slept slept, stand stands stood stood, think thinks thought thought,
    throw throws threw thrown, will will/will/will would -, write writes wrote written
"""
IRREGULAR_GERMAN = """
    bringen bringt brachte gebracht, denken denkt dachte gedacht, dürfen darf/darf/dürfen durfte gedurft,
    essen isst aß gegessen, fahren fährt fuhr gefahren, finden findet fand gefunden, geben gibt gab gegeben,
    gehen geht ging gegangen, haben habe/hat/haben hatte gehabt, heben hebt hob gehoben, helfen hilft half geholfen,
    kennen kennt kannte gekannt, kommen kommt kam gekommen, können kann/kann/können konnte gekonnt,
    laden lädt lud geladen, laufen läuft lief gelaufen, müssen muss/muss/müssen musste gemusst,
    rufen ruft rief gerufen, schlafen schläft schlief geschlafen, schließen schließt schloss geschlossen,
    schreiben schreibt schrieb geschrieben, sehen sieht sah gesehen, sein bin/ist/sind war gewesen,
    sitzen sitzt saß gesessen, sollen sollte/sollte/sollten - gesollt, sprechen spricht sprach gesprochen,
    stehen steht stand gestanden, tragen trägt trug getragen, vergessen vergisst vergaß vergessen,
    werden werde/wird/werden wurde geworden, werfen wirft warf geworfen, wissen weiß/weiß/wissen wusste gewusst,
    wollen will/will/wollen wollte gewollt
"""

# Columns: weight in sampling, English and German auxiliary, the form they govern | tense of the finite verb | polarity
# (affirmative, negated) | time to which adverbs may refer | permitted subjects
TENSES = """
    46 -       -      -          | present | +- | present | all
    18 -       -      -          | past    | +- | past    | all
    14 have    -      participle | present | +- | perfect | all
     4 have    -      participle | past    | +- | past    | all
     8 will    werden infinitive | present | +- | future  | all
     6 can     können infinitive | present | +- | present | animate
     3 can     können infinitive | past    | +- | past    | animate
     4 must    müssen infinitive | present | +  | present | animate
     1 must    dürfen infinitive | present | -  | present | animate
     3 may     dürfen infinitive | present | +  | present | animate
     4 should  sollen infinitive | present | +- | present | animate
     6 want_to wollen infinitive | present | +- | present | animate
     3 want_to wollen infinitive | past    | +- | past    | animate
"""

# By weight in sampling and name of the group. Columns: English | German, with its auxiliary of the perfect if it is not
# haben | sorts of the subject | adjuncts (m: manner, c: companion, p: place) | frames, separated by semicolons.
# The slots of a frame are in English order: [? if optional] preposition = preposition + case : sorts, or @kind.
# Each frame of a verb has one translation. Verbs whose past equals their present (put, read) are left out, because
# German would need to know the tense.
VERBS = {
    "12 copula": """
        be | sein +sein | all |  | @predicate
    """,
    "2 presence": """
        be | sein +sein | animate goods |  | @place
    """,
    "10 intransitive": """
        sleep      | schlafen            | animate        | mcp |
        laugh      | lachen              | person         | mcp | ; at=über+acc:person
        dance      | tanzen              | person         | mcp |
        arrive     | an+kommen +sein     | person vehicle | p   |
        come +back | zurück+kommen +sein | animate        | mc  |
        hurry      | sich beeilen        | person         |     |
    """,
    "28 transitive": """
        see        | sehen         | animate | p   | =acc:all
        hear       | hören         | animate | p   | =acc:animate,machine,vehicle
        find       | finden        | animate | p   | =acc:all
        love       | lieben        | person  |     | =acc:all
        know       | kennen        | person  |     | =acc:person,place
        visit      | besuchen      | person  | c   | =acc:person,place,site
        buy        | kaufen        | person  | cp  | =acc:goods ?for=für+acc:person
        eat        | essen         | person  | mcp | =acc:food
        carry      | tragen        | person  |     | =acc:portable @direction
        draw       | zeichnen      | person  | mp  | =acc:all
        open       | öffnen        | person  | m   | =acc:opening
        close      | schließen     | person  | m   | =acc:opening
        forget     | vergessen     | person  | p   | =acc:all
        look       | suchen        | animate | p   | for=acc:all
        remember   | sich erinnern | person  |     | =an+acc:all
    """,
    "11 separable": """
        pick +up    | auf+heben    | person  | mp | =acc:portable
        throw +away | weg+werfen   | person  |    | =acc:portable
        turn +on    | an+schalten  | person  | m  | =acc:machine
        turn +off   | aus+schalten | person  | m  | =acc:machine
        call        | an+rufen     | person  |    | =acc:person
        invite      | ein+laden    | person  |    | =acc:person
        look        | an+sehen     | animate |    | at=acc:all
    """,
    "10 dative": """
        help   | helfen       | person      | p | =dat:animate
        thank  | danken       | person      |   | =dat:person
        follow | folgen +sein | animate     | m | =dat:animate,vehicle
        answer | antworten    | person      | m | =dat:person
        listen | zu+hören     | animate     | p | to=dat:person
        belong | gehören      | goods place |   | to=dat:person
    """,
    "10 ditransitive": """
        give  | geben     | person | p | =dat:animate =acc:portable ; =acc:portable to=dat:animate
        show  | zeigen    | person |   | =dat:person =acc:all ; =acc:all to=dat:person
        bring | bringen   | person |   | =dat:person =acc:goods ; =acc:goods to=dat:person
        write | schreiben | person | p | =acc:text ; =acc:text to=dat:person
    """,
    "9 oblique": """
        wait  | warten        | animate | p  | for=auf+acc:person,vehicle
        think | denken        | person  |    | of=an+acc:all
        dream | träumen       | animate |    | of=von+dat:all
        ask   | fragen        | person  |    | about=nach+dat:person,place
        talk  | sprechen      | person  | mp | about=über+acc:all ; with=mit+dat:person
        play  | spielen       | animate | p  | with=mit+dat:animate
    """,
    "8 motion": """
        go    | gehen +sein    | person         | c  | @direction
        run   | laufen +sein   | animate        | mc | @direction
        drive | fahren +sein   | person vehicle | m  | @direction
        come  | kommen +sein   | animate        | c  | @direction
    """,
    "5 rest": """
        live  | wohnen        | person                    | c | @place
        stand | stehen        | animate furniture vehicle |   | @place
        sit   | sitzen        | animate                   | c | @place
    """,
    "5 placement": """
        place | stellen | person | m | =acc:thing,food,machine @goal
    """,
    "7 content": """
        say     | sagen   | person |  | @that
        know    | wissen  | person |  | @that ; @question
        hope    | hoffen  | person |  | @that ; @infinitive
        ask     | fragen  | person |  | @question
    """,
    "4 infinitive": """
        try     | versuchen   | animate |  | @infinitive
    """,
    "1 weather": """
        rain | regnen   | weather | p |
        snow | schneien | weather | p |
    """,
}

# Columns: English tree | German | times of the clauses that may contain it
TIMES = """
    (NP (NN today))                                  | heute               | past perfect present future
    (NP (NN yesterday))                              | gestern             | past
    (NP (NN tomorrow))                               | morgen              | future
    (ADVP (RB now))                                  | jetzt               | present
    (NP (DT every) (NN day))                         | jeden Tag           | past present
    (NP (DT this) (NN week))                         | diese Woche         | perfect present future
    (NP (JJ last) (NN year))                         | letztes Jahr        | past
    (NP (JJ next) (NN month))                        | nächsten Monat      | future
    (PP (IN in) (NP (DT the) (NN morning)))          | am Morgen           | past present future
    (PP (IN in) (NP (DT the) (NN evening)))          | am Abend            | past present future
    (PP (IN at) (NP (NN night)))                     | in der Nacht        | past present
    (PP (IN on) (NP (NNP Monday)))                   | am Montag           | past present future
    (PP (IN on) (NP (NNP Friday)))                   | am Freitag          | past present future
    (PP (IN on) (NP (NNP Sunday)))                   | am Sonntag          | past present future
"""
OCLOCK = "(PP (IN at) (NP (CD {english}) (RB o'clock))) | um {german} Uhr | past present future"
YEAR = "(PP (IN in) (NP (CD {year}))) | im Jahr {year} | past"
YEARS = range(1990, 2030)

FREQUENCIES = "often oft, always immer, sometimes manchmal, rarely selten"
NEVER = "never nie"
# `where` is `wo` for a verb of location, and `wohin` for a verb of motion.
QUESTIONS = "where wo, where wohin, when wann, why warum"
MANNERS = "slowly langsam, quickly schnell, quietly leise, loudly laut, carefully vorsichtig"

COMPANIONS = "with=mit+dat, without=ohne+acc"

# Prepositions of place and their sorts of nouns. German uses the dative for a location and the accusative for a goal.
# English has the same preposition for both, so that the verb decides.
LOCATIONS = """
    in=in+{case} place
    on=auf+{case} furniture site
    under=unter+{case} furniture landmark
    behind=hinter+{case} furniture landmark place
    beside=neben+{case} furniture landmark vehicle
"""
DIRECTIONS = """
    into=in+acc place
    to=zu+dat place landmark
    from=aus+dat place
    through=durch+acc place
    around=um+acc landmark place
    onto=auf+acc site
"""

# Weight in sampling, English, German, German in the past (- if it is not used)
SUBORDINATING = """
    10 because weil weil
     5 although obwohl obwohl
     6 if wenn -
     8 when wenn als
     4 while während während
     3 before bevor bevor
"""
COORDINATING = "and und, but aber"
