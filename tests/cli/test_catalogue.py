"""Public models by name on the command line: lists, questions, recommendations, and errors with the next command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.conftest import Zoo, missing
from tests.public_models import add_card, checkpoint, pack
from tests.refusals import refused
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


def test_pull_asks_first(archive: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from cli.app import run

    terminal = Mock(isatty=lambda: True, readline=Mock(side_effect=["n\n", "y\n"]))
    monkeypatch.setattr("sys.stdin", terminal)
    assert run(["pull", "wmt99"]) == 2
    question = "download it from https://example.org/models/a.tar.bz2 (5.0 MB, licence: MIT)? [y/N]"
    assert not missing(capsys.readouterr().err, question, "run `zoo pull wmt99 --yes` to download")
    assert local_store.names() == []
    assert run(["pull", "wmt99"]) == 0
    assert capsys.readouterr().out == f"{local_store.StoredModel.current('wmt99').folder}\n"


def test_without_a_terminal_the_error_has_the_command(zoo: Zoo, archive: Path) -> None:
    decode = "decode", "--model", "wmt99", "--backend", "eager"
    problem, hint = "`wmt99` was not downloaded, because stdin is not a terminal", "run `zoo pull wmt99 --yes` to"
    assert not missing(zoo(*decode, stdin="a b\n").refusal, problem, hint)
    assert zoo("pull", "wmt99", "--yes").status == 0
    assert zoo(*decode, stdin="a b\n").printed.count("\n") == 1
    (listed,) = json.loads(zoo("list", "--json").out)["models"]
    assert (listed["name"], listed["origin"]) == ("wmt99", "catalogue")
    assert "catalogue" in zoo("list", "--available", "wmt99").out


def test_decode_uses_all_members_of_an_ensemble(zoo: Zoo, archive: Path) -> None:
    pack(archive, {f"model{number}.pt": checkpoint(number) for number in (1, 2)})
    add_card("winner", "https://example.org/models/a.tar.bz2", files=["model1.pt", "model2.pt"])
    assert zoo("pull", "winner", "--yes").out.count("\n") == 2
    decode, lines = ("decode", "--backend", "eager"), "a b cc\ndd e f g\n"
    members = zoo(*decode, "--model", "winner.1", "--model", "winner.2", stdin=lines).out
    assert zoo(*decode, "winner", stdin=lines).printed == members
    assert "`winner` is an ensemble of 2 models" in zoo("export", "winner", "--to", "onnx", "-o", "exported").refusal
    assert zoo("remove", "winner", "--yes").status == 0
    assert local_store.names() == []


def test_the_catalogue_is_listed_by_language_pair(zoo: Zoo) -> None:
    add_card("everything", "https://example.org/e.zip", languages={"codes": "en de fr it"}, bytes=1_000)
    add_card("own-{source}-{target}", "hf:own/{source}-{target}", languages={"pairs": "de-fr fr-de"}, bytes=2_000)
    add_card("larger-de-fr", "https://example.org/l.zip", languages={"pairs": "de-fr"}, bytes=3_000)
    listed = [row["name"] for row in json.loads(zoo("list", "--available", "de-fr", "--json").out)]
    own = [name for name in listed if name in ("everything", "own-de-fr", "larger-de-fr")]
    assert own == ["own-de-fr", "larger-de-fr", "everything"]
    assert re.search(r"de-fr +own-de-fr", zoo("list", "--available", "own*").out)
    everything, pair = zoo("list", "--available"), zoo("list", "--available", "de-fr")
    assert "own-{source}-{target}" in everything.out
    assert ("{source}" in everything.err, "{source}" in pair.err) == (True, False)
    nothing = "nothing in the catalogue matches `own-de-rf`: did you mean `own-de-fr`? write a language pair"
    assert nothing in zoo("list", "--available", "own-de-rf").err


def test_an_unsupported_pair_names_the_model_and_the_command(zoo: Zoo) -> None:
    add_card("own-de-xx", "https://example.org/l.zip", languages={"pairs": "de-xx"}, licence="MIT")
    Path("a letter.txt").write_text("Guten Tag.\n")
    error = zoo("translate", "a letter.txt", "--from", "de", "--to", "xx").refusal
    command = "`zoo translate 'a letter.txt' --from de --to xx --model own-de-xx`"
    assert not missing(error, "only translates between English, German, French and Spanish", command, "licence: MIT")
    error = zoo("translate", "a letter.txt", "--from", "german", "--to", "french").err
    assert "no public model translates from `german` to `french`: write language codes" in error


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


def test_an_invalid_card_is_an_error_with_file_and_line(zoo: Zoo) -> None:
    for field, value, problem in (
        ("sourc", "https://example.org/a.zip", "`sourc` is not a field of this file"),
        ("languages", {}, "either `pairs` or `codes`"),
        ("languages", {"pairs": "en-deen-de"}, "`languages.pairs` cannot be `en-deen-de`"),
        ("languages", {"codes": "aa " * 1_001}, "lists more than 1,000 languages"),
        ("name", "a-{source}-{target}-{source}", "does not contain `{source}` and `{target}` once each"),
        ("name", "../evil", "`../evil` is not a valid name for a model"),
        ("files", ["../../evil.pt", "b.pt"], "`files[0]` cannot be `../../evil.pt`"),
        ("source", "ftp://example.org/a", "`source` cannot be `ftp://example.org/a`"),
        ("facts", None, "`facts` must be a mapping"),
    ):
        add_card("mine", **{"source": "https://example.org/a.zip", field: value})
        error = zoo("pull", "mine").refusal
        assert problem in error
        assert re.search(rf"\({re.escape(str(storage.home()))}/catalogue/mine\.yaml:\d+\)", error)


@pytest.mark.parametrize(("content", "problem"), [(b"# sch\xf6n", "byte 6 is not UTF-8"), (b"", "the file is empty")])
def test_a_card_is_a_mapping_in_utf_8(content: bytes, problem: str) -> None:
    (storage.home() / "catalogue").mkdir(parents=True)
    (storage.home() / "catalogue/mine.yaml").write_bytes(content)
    refused(problem, catalogue.find, "mine")


def test_a_card_of_the_user_replaces_that_of_the_package() -> None:
    first = next(card for card in catalogue.cards() if not card.is_pattern)
    add_card(first.name, "https://example.org/own.zip")
    add_card("zzz", "https://example.org/z.zip", aliases=["firefox-base-en-de"])
    found = [catalogue.find(name).source for name in (first.name, "firefox-base-en-de")]
    assert found == ["https://example.org/own.zip", "https://example.org/z.zip"], "also instead of a pattern"
    own = storage.home() / f"catalogue/{first.name}.yaml"
    own.with_name("copy.yaml").write_bytes(own.read_bytes())
    refused("two cards have the name", catalogue.cards)


def test_languages_match_whatever_their_code() -> None:
    add_card("many", "https://example.org/m.zip", languages={"codes": "eng_Latn deu_Latn fra_Latn"})
    found = [catalogue.find("many").languages.direction("de", target) for target in ("fr", "deu_Latn", "nl")]
    assert found == [("deu_Latn", "fra_Latn"), None, None]
