"""Verbs, and the verbs that help them, as tables.

In each of its frames a verb has one translation. Verbs whose past looks like their present (put, read) are left out:
English would not say what German has to.
"""

# Infinitive, present with it, past, participle; a/b/c: with I, it and they. All other verbs are regular, by rule.
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

# How often, English and German helping verb, what they govern | time of the finite verb | affirmed or negated |
# times that adverbs may name | who may be the subject
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

# English | German | subject | adjuncts: m(anner), c(ompanion), p(lace) | frames, with ; between them.
# A frame's slots stand in English order: [?optional] preposition = preposition + case : sorts, or @kind.
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
