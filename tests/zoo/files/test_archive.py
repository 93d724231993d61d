"""Members of archives are extracted completely or not at all, and hostile archives are refused."""

import errno
import gzip
import io
import os
import random
import tarfile
import zipfile
from pathlib import Path

import pytest

from specs import ZooError
from zoo.files import archive as archive_module
from zoo.files import storage
from zoo.files.archive import extract, extract_all, extracted
from zoo.files.download import Fetched
from zoo.files.manifest import sha256

MEMBERS = {
    "training/corpus.en": b"a house\n" * 500,
    "training/corpus.de": b"ein Haus\n" * 500,
    "training/corpus.fr.gz": gzip.compress(b"une maison\n"),
    "README": b"read me\n",
}


def tar(path, members=MEMBERS, mode="w:gz", prefix=""):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(prefix + name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return Fetched(path, sha256(path))


def zipped(path, members=MEMBERS, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.mkdir("training")
        for name, content in members.items():
            archive.writestr(name, content)
    return Fetched(path, sha256(path))


KINDS = {
    "a.tgz": tar,
    "a.tar": lambda path: tar(path, mode="w"),
    "dots.tgz": lambda path: tar(path, prefix="./"),
    "a.zip": zipped,
    "no-name": zipped,
}


def stored_files():
    return sorted(path for path in storage.archives().rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_requested_members_are_extracted(tmp_path, kind):
    archive = KINDS[kind](tmp_path / kind)
    names = ["training/corpus.de", "training/corpus.fr.gz"]
    assert extracted(archive.sha256, names) is None
    paths = extract(archive, names)
    assert [path.read_bytes() for path in paths] == [MEMBERS[name] for name in names]
    assert paths[1].name.endswith("fr.gz")
    assert stored_files() == sorted(paths)
    archive.path.unlink()
    assert extracted(archive.sha256, names) == paths
    assert extracted(archive.sha256, [*names, "README"]) is None
    assert extracted("0" * 64, names) is None


@pytest.mark.parametrize("kind", ["a.tgz", "a.zip"])
def test_a_missing_member_is_an_error_with_a_suggestion(tmp_path, kind):
    archive = KINDS[kind](tmp_path / kind)
    with pytest.raises(ZooError, match=rf"`{kind}` has no member `training/corpus\.dee`") as raised:
        extract(archive, ["training/corpus.en", "training/corpus.dee"])
    assert "did you mean `training/corpus.de`?" in raised.value.hint
    assert "`README`" in raised.value.hint
    with pytest.raises(ZooError) as raised:
        extract(archive, ["somewhere/else/entirely/corpus.en"])
    assert "did you mean `training/corpus.en`?" in raised.value.hint


def test_folders_and_links_are_not_members(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        folder, link = tarfile.TarInfo("folder"), tarfile.TarInfo("link")
        folder.type, link.type, link.linkname = tarfile.DIRTYPE, tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(folder)
        archive.addfile(link)
    fetched = Fetched(tmp_path / "a.tar", sha256(tmp_path / "a.tar"))
    for name in ("folder", "link"):
        with pytest.raises(ZooError, match="has no member"):
            extract(fetched, [name])
    extract_all(fetched.path, tmp_path / "all")
    assert not [path for path in (tmp_path / "all").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("make", [tar, zipped])
def test_nothing_is_written_outside_the_folder(tmp_path, make):
    for name in ("../evil", "a/../../evil", "/evil", "..\\evil", "C:evil", "a\0b"):
        archive = make(tmp_path / "evil", {"fine": b"fine"} if "\0" in name else {name: b"evil"})
        with pytest.raises(ZooError, match="is not a valid path"):
            extract(archive, [name])
        if "\0" not in name:
            with pytest.raises(ZooError, match="is not a valid path of an archive member"):
                extract_all(archive.path, tmp_path / "deep/folder/all")
        assert not storage.archives().exists()
        assert not list(tmp_path.rglob("evil?*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_archive_is_an_error_and_leaves_nothing(tmp_path, kind):
    archive = KINDS[kind](tmp_path / kind)
    content = archive.path.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.8):
        # The end of a .tar consists of zeros that do not matter.
        archive.path.write_bytes(content[: int(share * len(content.rstrip(b"\0")))])
        with pytest.raises(ZooError, match=r"or it is damaged|has no member") as raised:
            extract(archive, ["training/corpus.en", "README"])
        assert raised.value.hint
        assert stored_files() == []


def lzma_zipped(path, members):
    return zipped(path, members, zipfile.ZIP_LZMA)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
@pytest.mark.parametrize("make", [tar, zipped])
def test_a_full_disk_is_not_reported_as_damage(tmp_path, monkeypatch, make, number):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(number, os.strerror(number))

    archive, opened = make(tmp_path / "archive"), Path.open
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode="r", **how: Full() if mode == "wb" else opened(path, mode, **how))
        with pytest.raises(ZooError, match="cannot be written: ") as raised:
            extract(archive, ["README"])
    assert "remove" not in raised.value.hint
    (path,) = extract(archive, ["README"])
    assert path.read_bytes() == MEMBERS["README"]


@pytest.mark.parametrize("make", [tar, zipped, lzma_zipped])
def test_a_flipped_bit_is_an_error_and_leaves_nothing(tmp_path, make):
    content = random.Random(1).randbytes(5_000)
    archive = make(tmp_path / "archive", {"a": content, "b": content[::-1]})
    data = bytearray(archive.path.read_bytes())
    data[2_000] ^= 4
    archive.path.write_bytes(data)
    with pytest.raises(ZooError, match="or it is damaged"):
        extract(archive, ["a"])
    assert stored_files() == []


class Zeros(io.RawIOBase):
    """Stream of `amount` zero bytes."""

    def __init__(self, amount):
        self.left = amount

    def readable(self):
        return True

    def readinto(self, buffer):
        count = min(self.left, len(buffer))
        buffer[:count] = bytes(count)
        self.left -= count
        return count


def zeros(path, amount, kind=tarfile.REGTYPE):
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        member = tarfile.TarInfo("a")
        member.type, member.size = kind, amount
        archive.addfile(member, io.BufferedReader(Zeros(amount)))
    return Fetched(path, sha256(path))


def zipped_zeros(path, amount):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a", "w") as member:
        for _ in range(amount // 1_000_000):
            member.write(bytes(1_000_000))
    return Fetched(path, sha256(path))


@pytest.mark.parametrize("make", [zeros, zipped_zeros])
@pytest.mark.parametrize("name", ["a", "b"])
def test_an_archive_that_unpacks_to_more_than_text_is_refused(tmp_path, make, name):
    archive = make(tmp_path / "archive", 50_000_000)
    with pytest.raises(ZooError, match=r"is \d+ kB but unpacks to more than \d+ MB|no member `b`") as raised:
        extract(archive, [name])
    assert raised.value.hint
    assert stored_files() == []


def test_a_small_archive_may_have_any_ratio(tmp_path):
    (path,) = extract(zeros(tmp_path / "archive", 5_000_000), ["a"])
    assert path.stat().st_size == 5_000_000


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_oversized_header_is_not_read_into_memory(tmp_path, kind):
    with pytest.raises(ZooError, match=r"a header is 20 MB"):
        extract(zeros(tmp_path / "archive", 20_000_000, kind), ["a"])


def test_the_number_of_members_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_module, "_MAX_MEMBERS", 3)
    with pytest.raises(ZooError, match="more than 3 members"):
        extract(tar(tmp_path / "a.tgz"), ["README"])
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        for number in range(4):
            file.writestr(str(number), b"")
    with pytest.raises(ZooError, match="more than 3 members"):
        extract_all(tmp_path / "a.zip", tmp_path / "a")


def test_another_kind_of_file_is_an_error(tmp_path):
    (tmp_path / "page").write_text("<html>moved</html>")
    with pytest.raises(ZooError, match=r"not a \.tar, \.tar\.gz, \.tar\.bz2 or \.zip") as raised:
        extract(Fetched(tmp_path / "page", "0" * 64), ["a"])
    assert raised.value.exit_code == 1
    assert "corpus.lock" in raised.value.hint


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
def test_all_regular_files_of_an_archive_are_extracted(tmp_path, mode):
    folder = tmp_path / "all"
    extract_all(tar(tmp_path / "model", mode=mode, prefix="./").path, folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.relative_to(folder).as_posix(): path.read_bytes() for path in files} == MEMBERS


def test_the_limit_holds_for_all_members_together(tmp_path):
    zipped(tmp_path / "bomb", {f"{number}": bytes(3_000_000) for number in range(5)})
    with pytest.raises(ZooError, match="not plausible"):
        extract_all(tmp_path / "bomb", tmp_path / "all")
