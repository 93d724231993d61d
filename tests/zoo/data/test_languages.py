"""Languages of text, and the warning about a corpus in other languages."""

from pathlib import Path

import specs
from zoo.data.cleaning import other_language
from zoo.data.prepare import prepare

ENGLISH = [f"The children in house number {n} were playing in the garden when it began to rain." for n in range(40)]
FRENCH = [f"Les enfants de la maison {n} jouaient dans le jardin quand il a commencé à pleuvoir." for n in range(40)]


def test_text_in_another_language_is_recognised():
    assert [other_language(ENGLISH, code) for code in ("en", "en-GB", "de", "fr")] == [None, None, "en", "en"]
    assert [other_language(FRENCH, code) for code in ("fr", "en")] == [None, "fr"]
    assert other_language(ENGLISH, "tlh") is None, "an unknown language"
    assert other_language(ENGLISH[:10], "fr") is None, "too short"
    assert other_language(["3.14159 26535"] * 99, "fr") is None, "too few letters"
    assert other_language([*ENGLISH, *FRENCH], "fr") is None, "mixed"


def test_preparation_warns_about_other_languages(home, report):
    Path("a.en").write_text("\n".join(ENGLISH), encoding="utf-8")
    Path("a.fr").write_text("\n".join(FRENCH), encoding="utf-8")
    corpus = {"source": "en", "target": "de", "dev": [], "test": [], "max_length": 512}
    corpus["train"] = [{"source": "a.en", "target": "a.fr"}]
    prepare(specs.load("tiny", {"corpus": corpus, "vocabulary.size": 60}), report)
    (warning,) = report.warnings
    assert warning.startswith(
        "the target text seems to be in `fr`, but `corpus.target` is `de`: set `corpus.target=fr`"
    )
