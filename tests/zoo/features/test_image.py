"""Pictures of every kind that PNG and JPEG have become the same patches, and hostile files are refused."""

from __future__ import annotations

import io
import random
import resource
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from specs import ZooError, parts
from zoo.features import image
from zoo.features.image import MAX_PIXELS
from zoo.files.reading import MAX_BYTES

Image = pytest.importorskip("PIL.Image")
PATCHES = image.Image(parts.Image(kind="image", patch={"height": 8, "width": 4}))
COLUMNS = image.Image(parts.Image(kind="image"))


@pytest.fixture
def pixels() -> np.ndarray:
    """Dark strokes on white, 32 pixels high, in 8-bit grey."""
    rng = np.random.default_rng(1)
    blocks = rng.integers(0, 256, (4, 12)).repeat(8, 0).repeat(4, 1)
    return blocks.astype(np.uint8)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def save(picture: object, suffix: str = ".png", **options: object) -> Path:
        path = tmp_path / f"picture{suffix}"
        picture.save(path, **options)  # type: ignore[attr-defined]
        return path

    return save


def normalised(pixels: np.ndarray) -> np.ndarray:
    return (pixels.mean() - pixels) / pixels.std()


def test_columns_are_those_of_the_normalised_picture(pixels: np.ndarray, write: Callable[..., Path]) -> None:
    columns = COLUMNS.encode(write(Image.fromarray(pixels)))
    assert (columns.dtype, columns.shape) == (np.float32, (48, 32))
    np.testing.assert_allclose(columns.T, normalised(pixels), atol=1e-5)


def test_patches_follow_each_other_column_by_column(pixels: np.ndarray, write: Callable[..., Path]) -> None:
    """The last patch of a row continues with the last column of pixels if the width is not divisible."""
    patches = PATCHES.encode(write(Image.fromarray(pixels[:, :46])))
    assert patches.shape == (12 * 4, 32)
    expected = np.pad(normalised(pixels[:, :46]), ((0, 0), (0, 2)), mode="edge")
    for index, patch in enumerate(patches):
        row, column = 8 * (index % 4), 4 * (index // 4)
        np.testing.assert_allclose(patch.reshape(8, 4), expected[row : row + 8, column : column + 4], atol=1e-5)
    np.testing.assert_allclose(PATCHES.picture(patches), (127.5 - 51 * expected).clip(0, 255), atol=1)
    assert [PATCHES.place(index) for index in (0, 3, 4)] == ["0 px", "0 px", "4 px"]


def test_all_kinds_of_pixels_give_the_same_patches(pixels: np.ndarray, write: Callable[..., Path]) -> None:
    grey = Image.fromarray(pixels)
    expected = COLUMNS.encode(write(grey))
    palette = Image.fromarray(255 - pixels, "P")
    palette.putpalette([255 - value for value in range(256) for _ in range(3)])
    transparent = Image.merge("LA", [Image.new("L", grey.size, 0), Image.fromarray(255 - pixels)])
    wide = Image.fromarray(pixels.astype(np.uint16) * 257)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    turned = grey.transpose(Image.Transpose.ROTATE_90)
    for picture, suffix, options in [
        (grey.convert("RGB"), ".png", {}),
        (grey.convert("RGBA"), ".png", {}),
        (palette, ".png", {}),
        (transparent, ".png", {}),
        (wide, ".png", {}),
        (turned, ".png", {"exif": exif}),
        (grey, ".png", {"save_all": True, "append_images": [Image.new("L", grey.size)]}),
        (grey.convert("CMYK"), ".jpg", {"quality": 100}),
        (grey, ".jpeg", {"quality": 100, "progressive": True}),
        (turned.convert("RGB"), ".jpg", {"quality": 100, "exif": exif}),
        (grey.resize((96, 64), Image.Resampling.NEAREST), ".png", {}),
    ]:
        actual = COLUMNS.encode(write(picture, suffix, **options))
        assert actual.shape == expected.shape, (picture.mode, suffix)
        assert np.abs(actual - expected).mean() < 0.2, (picture.mode, suffix)


def test_pictures_that_are_read_in_parallel_hide_no_warnings(pixels: np.ndarray, write: Callable[..., Path]) -> None:
    COLUMNS.encode_all([str(write(Image.fromarray(pixels.repeat(9, 0).repeat(9, 1))))] * 50)
    assert ("ignore", None, Warning, None, 0) not in warnings.filters


def test_a_blank_picture_is_zero(write: Callable[..., Path]) -> None:
    assert not COLUMNS.encode(write(Image.new("L", (64, 64), 240))).any()


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
        (png_of(6_000, 2, chunk(b"IDAT", zlib.compress(bytes(2 * 24_001)))), "times as wide as it is high"),
        (png_of(2, 1_200, chunk(b"IDAT", zlib.compress(bytes(9 * 1_200)))), "times as high as it is wide"),
    ],
    ids=["empty", "GIF", "no pixels", "bomb in a comment", "bomb", "too large", "too wide", "too high"],
)
def test_damaged_and_huge_pictures_are_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    (path := tmp_path / "picture.png").write_bytes(content)
    with pytest.raises(ZooError, match=problem) as error:
        COLUMNS.encode(path)
    assert str(path) in str(error.value)
    assert error.value.hint


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_picture_with_too_many_bytes_is_refused(tmp_path: Path, in_memory: bool) -> None:
    (path := tmp_path / "picture.png").write_bytes(bytes(MAX_BYTES + 1))
    with pytest.raises(ZooError, match="is larger than 20 MB") as error:
        COLUMNS.encode(io.BytesIO(path.read_bytes()) if in_memory else path)
    assert error.value.hint == "scale the picture down"


def mutated(content: bytes, draw: random.Random) -> bytes:
    """Return a file with a few changed, removed, repeated or swapped bytes, and with correct checksums if it is PNG."""
    data = bytearray(content)
    for _ in range(draw.randint(1, 6)):
        start = draw.randrange(len(data))
        end = min(len(data), start + draw.choice((1, 1, 4, 64)))
        data[start:end] = draw.choice((b"", draw.randbytes(end - start), data[start:end] * 2, b"\xff" * (end - start)))
    if draw.random() < 0.1:
        del data[draw.randrange(len(data)) :]
    return _with_checksums(bytes(data)) if draw.random() < 0.7 else bytes(data)


def _with_checksums(data: bytes) -> bytes:
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        return data
    parts, place = [data[:8]], 8
    while place + 12 <= len(data):
        end = place + 12 + int.from_bytes(data[place : place + 4])
        parts.append(chunk(data[place + 4 : place + 8], data[place + 8 : end - 4]))
        place = end
    return b"".join(parts)


def read_mutants(tmp_path: Path, pixels: np.ndarray, seeds: range) -> None:
    grey, originals = Image.fromarray(pixels), []
    for picture, kind, options in [
        (grey, "PNG", {}),
        (grey.convert("P"), "PNG", {"transparency": 3}),
        (grey.convert("RGBA"), "PNG", {"dpi": (72, 72)}),
        (grey, "JPEG", {"exif": Image.Exif()}),
        (grey.convert("RGB"), "JPEG", {"progressive": True}),
    ]:
        picture.save(stream := io.BytesIO(), kind, **options)
        originals.append(stream.getvalue())
    path, answered, refused = tmp_path / "mutant", 0, 0
    for seed in seeds:
        draw = random.Random(seed)
        path.write_bytes(mutated(draw.choice(originals), draw))
        try:
            patches = COLUMNS.encode(path)
        except ZooError:
            refused += 1
        else:
            answered += 1
            assert patches.dtype == np.float32, seed
            assert np.isfinite(patches).all(), seed
    assert answered, "no picture is good"
    assert refused, "no picture is bad"


def test_mutated_pictures_are_read_or_refused(tmp_path: Path, pixels: np.ndarray) -> None:
    read_mutants(tmp_path, pixels, range(40))


@pytest.mark.slow
def test_many_mutated_pictures_are_read_or_refused_in_bounded_memory(tmp_path: Path, pixels: np.ndarray) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read_mutants(tmp_path, pixels, range(1_000, 1_500))
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert growth * 1024 < 20 * MAX_PIXELS, "kibibytes"
