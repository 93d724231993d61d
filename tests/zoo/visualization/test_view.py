"""What is looked at first: what is asked for, what the paper's figures show, and nothing that is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from specs import ZooError
from zoo.generation.attention import Attention
from zoo.visualization.figures import FIGURES, first, told
from zoo.visualization.view import View

Made = Callable[..., Attention]


def test_by_itself_it_is_all_heads_of_the_last_layer_but_one(attended: Made) -> None:
    assert View.of(attended(layers=6)) == View("encoder", 5, (1, 2, 3))
    assert View.of(attended(layers=1)) == View("encoder", 1, (1, 2, 3))
    assert View.of(attended(layers=0)).kind == "decoder"


def test_it_is_what_is_asked_for(attended: Made) -> None:
    assert View.of(attended(), "encoder", 2, [3, 1, 3], "dog") == View("encoder", 2, (3, 1), 2)
    assert View.of(attended(), "encoder-decoder", word="hund").word == 0
    assert View.of(attended(), word="</s>").word == 3


@pytest.mark.parametrize("found", [("It's", "its"), ("Its", "(its)"), ("its", "its,")])
def test_a_word_is_found_but_for_marks_and_capitals(attended: Made, found: tuple[str, str]) -> None:
    tokens = [f"▁{word}" for word in found]
    assert View.of(attended(source=tokens), word="its").word == (1 if found[0] == "It's" else 0)


@pytest.mark.parametrize(
    ("asked", "told", "hint"),
    [
        ({"kind": "both"}, "`both` is no attention of this model", "encoder, decoder, encoder-decoder"),
        ({"layer": 3}, "there is no layer 3", "layers 1 to 2"),
        ({"kind": "decoder", "layer": 2}, "there is no layer 2", "one layer"),
        ({"heads": [1, 4]}, "there is no head 4", "heads 1 to 3"),
        ({"word": "dogs"}, "`dogs` is no word of the sentence", "did you mean `dog`?"),
        ({"word": "horse"}, "`horse` is no word of the sentence", "the big dog </s>"),
    ],
)
def test_what_is_not_there_is_told(attended: Made, asked: dict[str, object], told: str, hint: str) -> None:
    with pytest.raises(ZooError, match=told) as caught:
        View.of(attended(), **asked)  # type: ignore[arg-type]
    assert hint in (caught.value.hint or "")


@pytest.mark.parametrize("number", FIGURES)
def test_a_figure_is_the_papers_where_the_model_has_it(attended: Made, number: int) -> None:
    figure = FIGURES[number]
    tokens = [f"▁{word}" for word in figure.sentence.split()]
    found = attended(figure.sentence, tokens, layers=6, heads=8)
    view = first(figure, found)
    assert (view.kind, view.layer) == ("encoder", 5)
    assert view.heads == {3: tuple(range(1, 9)), 4: (5, 6), 5: tuple(range(1, 9))}[number]
    word = None if view.word is None else figure.sentence.split()[view.word]
    assert word == {3: "making", 4: "its", 5: None}[number]
    assert "here it is" not in told(figure, found, view)


def test_a_smaller_model_shows_what_it_has_and_says_so(attended: Made) -> None:
    found = attended(layers=2, heads=3)
    view = first(FIGURES[4], found)
    assert view == View("encoder", 1, (1, 2, 3))
    assert "This model's encoder has 2 layers: here it is layer 1." in told(FIGURES[4], found, view)
    assert "here it is layer 2." in told(FIGURES[4], found, replace(view, layer=2)), "the one that was asked for"
    assert "here it is" not in told(FIGURES[4], found, replace(view, kind="decoder"))
    assert first(FIGURES[4], attended(layers=5)).layer == 4, "the last but one"
    shallow = attended(layers=1)
    assert "has 1 layer: here it is layer 1." in told(FIGURES[3], shallow, first(FIGURES[3], shallow))
