"""Adverbs, prepositions and conjunctions, as tables."""

# English tree | German | times of the clauses it goes with
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
# Asked for a place where a verb says where something is, for a direction where it says where it gets to.
QUESTIONS = "where wo, where wohin, when wann, why warum"
MANNERS = "slowly langsam, quickly schnell, quietly leise, loudly laut, carefully vorsichtig"

COMPANIONS = "with=mit+dat, without=ohne+acc"

# Prepositions of place: English, German, the sorts they go with. Where something is takes the dative, where it gets
# to the accusative, and the verb says which: English has the same word for both (goals).
LOCATIONS = """
    in in place
    on auf furniture site
    under unter furniture landmark
    behind hinter furniture landmark place
    beside neben furniture landmark vehicle
"""
DIRECTIONS = """
    into=in+acc place
    to=zu+dat place landmark
    from=aus+dat place
    through=durch+acc place
    around=um+acc landmark place
    onto=auf+acc site
"""

# How often, English, German, German in the past (- where it is not said)
SUBORDINATING = """
    10 because weil weil
     5 although obwohl obwohl
     6 if wenn -
     8 when wenn als
     4 while während während
     3 before bevor bevor
"""
COORDINATING = "and und, but aber"
