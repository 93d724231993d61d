"""Members of archives are extracted completely or not at all, and hostile archives are refused."""

import errno
import gzip
import io
import os
import random
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.refusals import refused
from zoo.files import archive as archive_module
from zoo.files import storage
from zoo.files.archive import extract, extract_all, extracted
from zoo.files.download import Fetched
from zoo.files.manifest import sha256

MEMBERS = {"training/corpus.en": b"a house\n" * 500, "training/corpus.de": b"ein Haus\n" * 500}
MEMBERS |= {"training/corpus.fr.gz": gzip.compress(b"une maison\n"), "README": b"read me\n"}


def tar(path, members=MEMBERS, mode="w:gz", prefix="", kind=tarfile.REGTYPE):
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(prefix + name)
            member.type, member.size = kind, len(content)
            archive.addfile(member, io.BytesIO(content))
    return Fetched(path, sha256(path))


def zipped(path, members=MEMBERS, packing=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.mkdir("training")
        for name, content in members.items():
            archive.writestr(name, content)
    return Fetched(path, sha256(path))


KINDS = {"a.tgz": tar, "a.tar": partial(tar, mode="w"), "dots.tgz": partial(tar, prefix="./")}
KINDS |= {"a.zip": zipped, "no-name": zipped}
MAKERS = pytest.mark.parametrize("make", [tar, zipped])


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
    names = ["README", "training/corpus.dee"]
    hint = refused(rf"`{kind}` has no member `training/corpus\.dee`", extract, archive, names).hint
    assert not missing(hint, "did you mean `training/corpus.de`?", "`README`")
    error = refused("has no member", extract, archive, ["somewhere/else/entirely/corpus.en"])
    assert "did you mean `training/corpus.en`?" in error.hint


def test_folders_and_links_are_not_members(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        folder, link = tarfile.TarInfo("folder"), tarfile.TarInfo("link")
        folder.type, link.type, link.linkname = tarfile.DIRTYPE, tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(folder)
        archive.addfile(link)
    for name in ("folder", "link"):
        refused("has no member", extract, Fetched(tmp_path / "a.tar", "0" * 64), [name])
    extract_all(tmp_path / "a.tar", tmp_path / "all")
    assert not [path for path in (tmp_path / "all").rglob("*") if path.is_symlink()]


@MAKERS
def test_nothing_is_written_outside_the_folder(tmp_path, make):
    for name in ("../evil", "a/../../evil", "/evil", "..\\evil", "C:evil", "a\0b"):
        archive = make(tmp_path / "evil", {"fine": b"fine"} if "\0" in name else {name: b"evil"})
        refused("is not a valid path", extract, archive, [name])
        if "\0" not in name:
            refused(
                "is not a valid path for an archive member", extract_all, archive.path, tmp_path / "deep/folder/all"
            )
        assert not storage.archives().exists()
        assert not list(tmp_path.rglob("evil?*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_archive_is_an_error_and_leaves_nothing(tmp_path, kind):
    archive = KINDS[kind](tmp_path / kind)
    content = archive.path.read_bytes()
    for share in (0.0, 0.1, 0.5, 0.8):
        # The end of a .tar consists of zeros that do not matter.
        archive.path.write_bytes(content[: int(share * len(content.rstrip(b"\0")))])
        assert refused("or it is damaged|has no member", extract, archive, ["training/corpus.en", "README"]).hint
        assert stored_files() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
@MAKERS
def test_a_full_disk_is_not_reported_as_damage(tmp_path, monkeypatch, make, number):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(number, os.strerror(number))

    archive, opened = make(tmp_path / "archive"), Path.open
    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode="r", **how: Full() if mode == "wb" else opened(path, mode, **how))
        assert "remove" not in refused("cannot be written: ", extract, archive, ["README"]).hint
    (path,) = extract(archive, ["README"])
    assert path.read_bytes() == MEMBERS["README"]


@pytest.mark.parametrize("make", [tar, zipped, partial(zipped, packing=zipfile.ZIP_LZMA)])
def test_a_flipped_bit_is_an_error_and_leaves_nothing(tmp_path, make):
    content = random.Random(1).randbytes(5_000)
    archive = make(tmp_path / "archive", {"a": content, "b": content[::-1]})
    data = bytearray(archive.path.read_bytes())
    data[2_000] ^= 4
    archive.path.write_bytes(data)
    refused("or it is damaged", extract, archive, ["a"])
    assert stored_files() == []


@MAKERS
def test_an_archive_that_unpacks_to_more_than_text_is_refused_unless_it_is_small(tmp_path, make):
    archive, small = (make(tmp_path / f"{size}", {"a": bytes(size)}) for size in (50_000_000, 5_000_000))
    for name in ("a", "b"):
        assert refused(r"is \d+ kB but unpacks to more than \d+ MB|no member `b`", extract, archive, [name]).hint
        assert stored_files() == []
    (path,) = extract(small, ["a"])
    assert path.stat().st_size == 5_000_000
    make(tmp_path / "bomb", {f"{number}": bytes(3_000_000) for number in range(5)})
    refused("more than zoo allows", extract_all, tmp_path / "bomb", tmp_path / "all")


def test_only_the_wanted_members_of_a_zip_archive_may_not_be_too_large(tmp_path):
    (path,) = extract(zipped(tmp_path / "archive", {"a": b"text", "large": bytes(50_000_000)}), ["a"])
    assert path.read_bytes() == b"text"


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_an_oversized_header_is_not_read_into_memory(tmp_path, kind):
    archive = tar(tmp_path / "archive", {"a": bytes(20_000_000)}, kind=kind)
    refused("a header is 20 MB", extract, archive, ["a"])


@MAKERS
def test_the_number_of_members_is_limited(tmp_path, monkeypatch, make):
    monkeypatch.setattr(archive_module, "_MAX_MEMBERS", 3)
    refused("more than 3 members", extract, make(tmp_path / "archive"), ["README"])


def test_another_kind_of_file_is_an_error(tmp_path):
    (tmp_path / "page").write_text("<html>moved</html>")
    page = Fetched(tmp_path / "page", "0" * 64)
    error = refused(r"not a \.tar, \.tar\.gz, \.tar\.bz2 or \.zip", extract, page, ["a"])
    assert (error.exit_code, "corpus.lock" in error.hint) == (1, True)


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2"])
def test_all_regular_files_of_an_archive_are_extracted(tmp_path, mode):
    folder = tmp_path / "all"
    extract_all(tar(tmp_path / "model", mode=mode, prefix="./").path, folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.relative_to(folder).as_posix(): path.read_bytes() for path in files} == MEMBERS
