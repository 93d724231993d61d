"""Public models by name on the command line: lists, questions, recommendations, and errors with the next command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from specs import ZooError
from tests.conftest import Zoo
from tests.public_models import add_card, checkpoint, pack
from zoo.files import storage
from zoo.models import catalogue, local_store


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Mirror an archive in a folder, and add the card `wmt99` for it."""
    file = tmp_path / "mirror/models/a.tar.bz2"
    pack(file, {"model.pt": checkpoint(1)})
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    add_card("wmt99", "https://example.org/models/a.tar.bz2", licence="MIT", bytes=5_000_000)
    return file


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Make stdin a terminal on which a user types an answer."""
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: text))


def test_pull_asks_about_size_and_licence(
    archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from cli.app import run

    answer(monkeypatch, "n\n")
    assert run(["pull", "wmt99"]) == 2
    asked = capsys.readouterr().err
    assert "download it from https://example.org/models/a.tar.bz2 (5.0 MB, licence: MIT)? [y/N]" in asked
    assert "`zoo pull wmt99 --yes` downloads" in asked
    assert local_store.names() == []
    answer(monkeypatch, "y\n")
    assert run(["pull", "wmt99"]) == 0
    assert capsys.readouterr().out == f"{local_store.model_path('wmt99')}\n"


def test_without_a_terminal_the_error_has_the_command(zoo: Zoo, archive: Path) -> None:
    error = zoo("decode", "--model", "wmt99", "--backend", "eager", stdin="a b\n").refusal
    assert "`wmt99` was not downloaded, because stdin is not a terminal" in error
    assert "`zoo pull wmt99 --yes` downloads it" in error
    assert zoo("pull", "wmt99", "--yes").status == 0
    decoded = zoo("decode", "--model", "wmt99", "--backend", "eager", stdin="a b\n")
    assert (decoded.status, decoded.out.count("\n")) == (0, 1)
    (listed,) = json.loads(zoo("list", "--json").out)["models"]
    assert (listed["name"], listed["origin"]) == ("wmt99", "catalogue")
    assert "catalogue" in zoo("list", "--available", "wmt99").out


def test_decode_uses_all_members_of_an_ensemble(zoo: Zoo, archive: Path) -> None:
    pack(archive, {f"model{number}.pt": checkpoint(number) for number in (1, 2)})
    add_card("winner", "https://example.org/models/a.tar.bz2", files=["model1.pt", "model2.pt"])
    assert zoo("pull", "winner", "--yes").out.count("\n") == 2
    lines = "a b cc\ndd e f g\n"
    together = zoo("decode", "winner", "--backend", "eager", stdin=lines)
    assert together.status == 0, together.err
    assert (
        together.out
        == zoo("decode", "--model", "winner.1", "--model", "winner.2", "--backend", "eager", stdin=lines).out
    )
    assert "`winner` is an ensemble of 2 models" in zoo("export", "winner", "--to", "onnx", "-o", "exported").refusal
    assert zoo("remove", "winner", "--yes").status == 0
    assert local_store.names() == []


def test_the_catalogue_is_listed_by_language_pair(zoo: Zoo) -> None:
    many = " ".join(("en", "de", "fr", "it"))
    add_card("everything", "https://example.org/e.zip", languages={"codes": many}, bytes=1_000)
    add_card("own-{source}-{target}", "hf:own/{source}-{target}", languages={"pairs": "de-fr fr-de"}, bytes=2_000)
    add_card("larger-de-fr", "https://example.org/l.zip", languages={"pairs": "de-fr"}, bytes=3_000)
    listed = [row["name"] for row in json.loads(zoo("list", "--available", "de-fr", "--json").out)]
    own = [name for name in listed if name in ("everything", "own-de-fr", "larger-de-fr")]
    assert own == ["own-de-fr", "larger-de-fr", "everything"]
    assert re.search(r"de-fr +own-de-fr", zoo("list", "--available", "own*").out)
    everything, pair = zoo("list", "--available"), zoo("list", "--available", "de-fr")
    assert "own-{source}-{target}" in everything.out
    assert ("{source}" in everything.err, "{source}" in pair.err) == (True, False)
    nothing = zoo("list", "--available", "own-de-rf").err
    assert "nothing in the catalogue matches `own-de-rf`: did you mean `own-de-fr`? write a language pair" in nothing


def test_an_unsupported_pair_names_the_model_and_the_command(zoo: Zoo) -> None:
    add_card("own-de-xx", "https://example.org/l.zip", languages={"pairs": "de-xx"}, licence="MIT")
    Path("a letter.txt").write_text("Guten Tag.\n")
    error = zoo("translate", "a letter.txt", "--from", "de", "--to", "xx").refusal
    assert "only translates between English, German, French and Spanish" in error
    assert "`zoo translate 'a letter.txt' --from de --to xx --model own-de-xx`" in error
    assert "licence: MIT" in error
    result = zoo("translate", "a letter.txt", "--from", "german", "--to", "french")
    assert "no public model translates from `german` to `french`: write language codes" in result.err


def test_texts_with_long_sentences_get_a_recommendation(capsys: pytest.CaptureFixture[str]) -> None:
    from cli.console import report
    from cli.translate import _recommend

    add_card("own-xx-de", "https://example.org/l.zip", languages={"pairs": "xx-de"})
    short, long = "It is late.", "word " * 30
    for sentences, recommended in (([short, short, long], False), ([short, long, long], True), ([], False)):
        _recommend([Path("a.txt")], None, ("xx", "de"), sentences, report())
        assert ("`zoo translate a.txt --from xx --to de --model own-xx-de`" in capsys.readouterr().err) == recommended
    _recommend([Path("a.txt")], None, ("de", "xx"), [long], report())
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("sourc", "https://example.org/a.zip", "`sourc` is not a field of this file"),
        ("languages", {"pairs": "english"}, "`languages.pairs` cannot be `english`"),
        ("languages", {}, "either `pairs` or `codes`"),
        ("languages", {"pairs": "en-deen-de"}, "`languages.pairs` cannot be `en-deen-de`"),
        ("languages", {"codes": "aa " * 1_001}, "lists more than 1,000 languages"),
        ("name", "a-{source}-{target}-{source}", "does not contain both languages once"),
        ("name", "../evil", "`../evil` is not a valid name for a model"),
        ("files", ["../../evil.pt", "b.pt"], "`files[0]` cannot be `../../evil.pt`"),
        ("source", "ftp://example.org/a", "`source` cannot be `ftp://example.org/a`"),
        ("facts", None, "`facts` must be a mapping"),
    ],
)
def test_an_invalid_card_is_an_error_with_file_and_line(zoo: Zoo, field: str, value: object, problem: str) -> None:
    add_card("mine", **{"source": "https://example.org/a.zip", field: value})
    result = zoo("pull", "mine")
    assert result.status == 2
    assert problem in result.err
    assert re.search(rf"\({re.escape(str(storage.home()))}/catalogue/mine\.yaml:\d+\)", result.err)


def test_a_card_is_a_mapping_in_utf_8() -> None:
    add_card("mine", "https://example.org/a.zip")
    file = storage.home() / "catalogue/mine.yaml"
    file.write_bytes(file.read_bytes() + "# schön".encode("latin-1"))
    with pytest.raises(ZooError, match="the card is not UTF-8"):
        catalogue.find("mine")
    file.write_text("")
    with pytest.raises(ZooError, match="the file is empty"):
        catalogue.find("mine")


def test_a_card_of_the_user_replaces_that_of_the_package() -> None:
    first = next(card for card in catalogue.cards() if not card.is_pattern)
    add_card(first.name, "https://example.org/own.zip")
    assert catalogue.find(first.name).source == "https://example.org/own.zip"
    own = storage.home() / f"catalogue/{first.name}.yaml"
    own.with_name("copy.yaml").write_bytes(own.read_bytes())
    with pytest.raises(ZooError, match="two cards have the name"):
        catalogue.cards()


def test_languages_match_whatever_their_code() -> None:
    add_card("many", "https://example.org/m.zip", languages={"codes": "eng_Latn deu_Latn fra_Latn"})
    card = catalogue.find("many")
    assert card.languages.direction("de", "fr") == ("deu_Latn", "fra_Latn")
    assert not card.languages.direction("de", "deu_Latn")
    assert not card.languages.direction("de", "nl")
