"""Where things are kept."""

from pathlib import Path

from zoo.files import storage


def test_everything_is_below_the_home_that_the_environment_names(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "elsewhere"))
    assert storage.home() == tmp_path / "elsewhere"
    folders = [storage.models(), storage.archives(), storage.prepared()]
    assert len(set(folders)) == 3
    assert all(place.parent == storage.home() for place in folders)
    assert not storage.home().exists()


def test_home_is_absolute_and_knows_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("ZOO_HOME", "near")
    assert storage.home() == Path.cwd() / "near"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ZOO_HOME", "~/zoo")
    assert storage.home() == tmp_path / "zoo"
    monkeypatch.setenv("ZOO_HOME", "~nobody-here/zoo")
    assert storage.home() == Path.cwd() / "~nobody-here/zoo"


def test_without_a_word_it_is_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    for word in (None, ""):
        monkeypatch.delenv("ZOO_HOME", raising=False) if word is None else monkeypatch.setenv("ZOO_HOME", word)
        assert storage.home().is_relative_to(tmp_path)
        assert storage.home().name == "zoo"
