"""Pictures of every kind that PNG and JPEG have become the same patches, and hostile files are refused."""

from __future__ import annotations

import io
import random
import resource
import struct
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specs import ZooError, parts
from tests.mutations import mutated
from tests.refusals import refused
from zoo.features import image
from zoo.features.image import MAX_PIXELS
from zoo.files.reading import MAX_BYTES

Image = pytest.importorskip("PIL.Image")
PATCHES = image.Image(parts.Image(kind="image", patch={"height": 8, "width": 4}))
COLUMNS = image.Image(parts.Image(kind="image"))


@pytest.fixture
def pixels() -> np.ndarray:
    """Dark strokes on white, 32 pixels high, in 8-bit grey."""
    return np.random.default_rng(1).integers(0, 256, (4, 12), np.uint8).repeat(8, 0).repeat(4, 1)


def file_of(picture: Any, kind: str = "PNG", **options: object) -> io.BytesIO:
    picture.save(file := io.BytesIO(), kind, **options)
    return io.BytesIO(file.getvalue())


def normalised(pixels: np.ndarray) -> np.ndarray:
    return (pixels.mean() - pixels) / pixels.std()


def test_columns_and_patches_follow_each_other_column_by_column(pixels: np.ndarray) -> None:
    """The last patch of a row continues with the last column of pixels if the width is not divisible."""
    picture = Image.fromarray(pixels[:, :46])
    columns, patches = COLUMNS.encode(file_of(picture)), PATCHES.encode(file_of(picture))
    assert (columns.dtype, columns.shape, patches.shape) == (np.float32, (46, 32), (12 * 4, 32))
    np.testing.assert_allclose(columns.T, normalised(pixels[:, :46]), atol=1e-5)
    expected = np.pad(normalised(pixels[:, :46]), ((0, 0), (0, 2)), mode="edge")
    for index, patch in enumerate(patches):
        row, column = 8 * (index % 4), 4 * (index // 4)
        np.testing.assert_allclose(patch.reshape(8, 4), expected[row : row + 8, column : column + 4], atol=1e-5)
    np.testing.assert_allclose(PATCHES.picture(patches), (127.5 - 51 * expected).clip(0, 255), atol=1)
    assert [PATCHES.place(index) for index in (0, 3, 4)] == ["0 px", "0 px", "4 px"]


def test_all_kinds_of_pixels_give_the_same_patches(pixels: np.ndarray) -> None:
    grey = Image.fromarray(pixels)
    expected = COLUMNS.encode(file_of(grey))
    palette = Image.fromarray(255 - pixels, "P")
    palette.putpalette([255 - value for value in range(256) for _ in range(3)])
    transparent = Image.merge("LA", [Image.new("L", grey.size, 0), Image.fromarray(255 - pixels)])
    wide = Image.fromarray(pixels.astype(np.uint16) * 257)
    turned, exif = grey.transpose(Image.Transpose.ROTATE_90), Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    larger = grey.resize((96, 64), Image.Resampling.NEAREST)
    for picture in (grey.convert("RGB"), grey.convert("RGBA"), palette, transparent, wide, larger):
        assert_similar(picture, expected)
    assert_similar(turned, expected, exif=exif)
    assert_similar(grey, expected, save_all=True, append_images=[Image.new("L", grey.size)])
    assert_similar(grey.convert("CMYK"), expected, "JPEG", quality=100)
    assert_similar(grey, expected, "JPEG", quality=100, progressive=True)
    assert_similar(turned.convert("RGB"), expected, "JPEG", quality=100, exif=exif)
    assert not COLUMNS.encode(file_of(Image.new("L", (64, 64), 240))).any(), "a blank picture is zero"


def assert_similar(picture: Any, expected: np.ndarray, kind: str = "PNG", **options: object) -> None:
    actual = COLUMNS.encode(file_of(picture, kind, **options))
    assert actual.shape == expected.shape, (picture.mode, kind)
    assert np.abs(actual - expected).mean() < 0.2, (picture.mode, kind)


def test_pictures_that_are_read_in_parallel_hide_no_warnings(pixels: np.ndarray, tmp_path: Path) -> None:
    Image.fromarray(pixels.repeat(9, 0).repeat(9, 1)).save(tmp_path / "picture.png")
    COLUMNS.encode_all([str(tmp_path / "picture.png")] * 50)
    assert ("ignore", None, Warning, None, 0) not in warnings.filters


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(width: int, height: int, *chunks: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + b"".join(chunks) + chunk(b"IEND", b"")


INVALID = "is not a valid PNG or JPEG file"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", INVALID),
        (b"GIF89a" + bytes(40), INVALID),
        (png_of(64, 32), INVALID),
        (png_of(9, 9, chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2_000_000)))), INVALID),
        (png_of(60_000, 60_000), "more than 25,000,000 pixels"),
        (png_of(10_000, 9_000), "more than 25,000,000 pixels"),
        (png_of(6_000, 2, chunk(b"IDAT", zlib.compress(bytes(2 * 24_001)))), "times as long as the other side"),
        (png_of(2, 1_200, chunk(b"IDAT", zlib.compress(bytes(9 * 1_200)))), "times as long as the other side"),
    ],
    ids=["empty", "GIF", "no pixels", "bomb in a comment", "bomb", "too large", "too wide", "too high"],
)
def test_damaged_and_huge_pictures_are_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (path := tmp_path / "picture.png").write_bytes(content)
    error = refused(problem, COLUMNS.encode, path)
    assert str(path) in str(error)
    assert error.hint


def test_a_picture_with_too_many_bytes_is_refused(tmp_path: Path) -> None:
    (path := tmp_path / "picture.png").write_bytes(bytes(MAX_BYTES + 1))
    for source in (path, io.BytesIO(path.read_bytes())):
        assert refused("is larger than 20 MB", COLUMNS.encode, source).hint == "scale the picture down"


def with_checksums(data: bytes) -> bytes:
    """Return a file with correct checksums if it is PNG."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return data
    parts, place = [data[:8]], 8
    while place + 12 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4])
        parts.append(chunk(data[place + 4 : place + 8], data[place + 8 : end - 4]))
        place = end
    return b"".join(parts)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(1_000, 1_500), marks=pytest.mark.slow)], ids=str)
def test_mutated_pictures_are_read_or_refused(tmp_path: Path, pixels: np.ndarray, seeds: range) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grey = Image.fromarray(pixels)
    originals = [file_of(grey), file_of(grey.convert("P"), transparency=3), file_of(grey.convert("RGBA"), dpi=(72, 72))]
    originals += [file_of(grey, "JPEG", exif=Image.Exif()), file_of(grey.convert("RGB"), "JPEG", progressive=True)]
    path, outcomes = tmp_path / "mutant", set()
    for seed in seeds:
        draw = random.Random(seed)
        mutant = mutated(draw.choice(originals).getvalue(), draw)
        path.write_bytes(with_checksums(mutant) if draw.random() < 0.7 else mutant)
        try:
            patches = COLUMNS.encode(path)
        except ZooError:
            outcomes.add("refused")
        else:
            outcomes.add("read")
            assert patches.dtype == np.float32, seed
            assert np.isfinite(patches).all(), seed
    assert outcomes == {"read", "refused"}
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth * 1024 < 20 * MAX_PIXELS, "kibibytes"
