"""Strings of handwritten digits as pictures, from scikit-learn's 1,797 digits of 8 x 8 pixels.

The digits of a string are written side by side, with different sizes, gaps, ink and noise. For training, each digit is
also rotated, slanted, stretched and thickened at random. A string depends only on its split and its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from math import cos, sin
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from specs import ZooError, install_hint
from zoo.features.spoken_digits import MAX_DIGITS, seeded_random
from zoo.files import storage
from zoo.files.atomic import FolderExistsError, atomic_folder
from zoo.report import Report

if TYPE_CHECKING:
    from PIL import Image

VERSION = 1
"""Version of the strings. Increase it whenever a string changes, because prepared corpora depend on it."""
_STRIDE, _HELD_OUT = 10, {4: "dev", 9: "test"}
"""Among ten successive digits of the same class, the positions of the digits that are held out for dev and test."""
_MAX_VALUE, _WHITE = 16, 255
_HEIGHT, _SIZES, _DRAWN = 32, (26, 31), 32
"""Height of a picture, range of the sizes of digits, and size at which digits are rotated, in pixels."""
_GAPS = (-4, 4)
"""Range of the gaps, in pixels, between the squares of adjacent digits. If a gap is negative, the squares overlap."""


def strings(split: str, count: int, report: Report) -> Iterator[tuple[str, str]]:
    """Yield the image file and text of the first `count` digit strings in a split. Generate missing files first.

    Raises:
        ZooError: pillow or scikit-learn is not installed.
    """
    _, classes = _data()
    folder = storage.prepared() / f"digits-written-{VERSION}-{split}-{count}"
    if not folder.is_dir():
        progress = report.progress(f"drawing {split}", count, "strings")
        with suppress(FolderExistsError), atomic_folder(folder, replace=False) as partial, progress as drawn:
            for number in range(count):
                draw_string(split, number).save(partial / f"{number:06d}.png")
                drawn.advance()
    for number in range(count):
        digits = classes[_choose(split, seeded_random(split, number))]
        yield str(folder / f"{number:06d}.png"), "".join(map(str, digits))


def draw_string(split: str, number: int) -> Image.Image:
    """Draw the string of handwritten digits at index `number` in a split."""
    from PIL import Image

    random = seeded_random(split, number)
    chosen = _choose(split, random)
    page = np.zeros((_HEIGHT, (len(chosen) + 1) * (_HEIGHT + _GAPS[1])), np.float32)
    left, usual = int(random.integers(7)), int(random.integers(*_SIZES))
    for index in chosen:
        size = usual + int(random.integers(-1, 2))
        digit = np.asarray(_draw_digit(int(index), size, split == "train", random), np.float32)
        top = random.integers(_HEIGHT - size + 1)
        place = page[top : top + size, left : left + size]
        np.maximum(place, digit, out=place)
        left += size + int(random.integers(*_GAPS))
    page = page[:, : left + random.integers(2, 7)]
    grey = _WHITE - page * random.uniform(0.6, 1) + random.normal(0, random.uniform(0, 12), page.shape)
    return Image.fromarray(grey.clip(0, _WHITE).astype(np.uint8))


def _draw_digit(index: int, size: int, distorted: bool, random: np.random.Generator) -> Image.Image:
    """Draw a digit from scikit-learn's data as a square image, white on black.

    Args:
        index: Index of the digit in the data.
        size: Width and height of the image, in pixels.
        distorted: Whether to rotate, slant, stretch and thicken the digit.
        random: Random number generator.
    """
    from PIL import Image

    images, _ = _data()
    ink = images[index] / _MAX_VALUE
    if distorted:  # thicker or thinner strokes
        ink = (ink + random.normal(0, 0.06, ink.shape)).clip(0, 1) ** np.exp(random.normal(0, 0.3))
    digit = Image.fromarray((ink * _WHITE).astype(np.uint8))
    digit = digit.resize((_DRAWN, _DRAWN), Image.Resampling.BICUBIC)
    if distorted:
        angle, slant = random.normal(0, (0.1, 0.15))
        across, down = 1 + random.normal(0, 0.1, 2)
        matrix = np.array([[across * cos(angle), slant - across * sin(angle)], [down * sin(angle), down * cos(angle)]])
        centre = np.full(2, _DRAWN / 2)
        affine = np.column_stack([matrix, centre - matrix @ centre])
        values = affine.ravel().tolist()
        digit = digit.transform(digit.size, Image.Transform.AFFINE, values, Image.Resampling.BICUBIC)
    return digit.resize((size, size), Image.Resampling.BILINEAR)


def _choose(split: str, random: np.random.Generator) -> npt.NDArray[np.int64]:
    """Randomly choose the images for a string of digits. Return their indices in scikit-learn's data set."""
    return random.choice(digits_of(split), random.integers(1, MAX_DIGITS + 1))


@cache
def digits_of(split: str) -> npt.NDArray[np.int64]:
    """Return the indices of a split's digits in scikit-learn's data. Different splits share no digits."""
    _, classes = _data()
    ranks = np.zeros(len(classes), np.int64)
    for digit in range(10):
        ranks[classes == digit] = np.arange(np.count_nonzero(classes == digit))
    chosen = [_HELD_OUT.get(rank, "train") == split for rank in (ranks % _STRIDE).tolist()]
    return np.flatnonzero(chosen)


@cache
def _data() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Load scikit-learn's digits: the pixels, [1797, 8, 8], and the classes, [1797]."""
    try:
        import PIL.Image  # noqa: F401  (draws the digits)
        from sklearn.datasets import load_digits
    except ImportError as error:
        problem = f"handwritten digits need the packages pillow and scikit-learn: {error}"
        raise ZooError(problem, hint=install_hint("pictures")) from None
    found = load_digits()
    return found.images, found.target
