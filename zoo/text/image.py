"""Pictures as the input of a model: PNG and JPEG files as patches of grey pixels."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import specs
from specs import ZooError
from zoo.files.reading import read_bytes

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("PNG", "JPEG")
MAX_PIXELS = 25_000_000
"""Maximum number of pixels of a picture. Unpacking takes some ten bytes for each of them."""
MAX_ASPECT = 512
"""Maximum width of a picture, divided by its height."""
_MIN_DEVIATION = 1.0
"""Minimum standard deviation, in grey values, by which pixels are divided. The noise of blank paper stays small."""
_STEP = 257
"""Difference of two 16-bit grey values that are neighbours in 8 bits."""


def read_picture(path: Path, options: specs.Pictures) -> npt.NDArray[np.float32]:
    """Return the patches of a picture, [columns * rows, pixels of a patch], column by column from top to bottom.

    The picture is converted to grey and scaled to the height of the options, and keeps its aspect ratio. Its pixels are
    normalised to mean 0 and standard deviation 1. Dark pixels are positive, and transparent pixels are white. Of an
    animated picture, the first frame is read. A photo is turned as its EXIF data says.

    Raises:
        ZooError: The file is missing, damaged, too large or not a PNG or JPEG file, or pillow is not installed.
    """
    grey = _read_grey(path, options.height)
    pixels = np.asarray(grey, np.float32)
    pixels = (pixels.mean() - pixels) / max(float(pixels.std()), _MIN_DEVIATION)
    height, width = options.patch
    pixels = np.pad(pixels, ((0, 0), (0, -pixels.shape[1] % width)), mode="edge")
    grid = pixels.reshape(options.rows, height, -1, width).transpose(2, 0, 1, 3)
    return np.ascontiguousarray(grid).reshape(-1, height * width)


def _read_grey(path: Path, height: int) -> Image.Image:
    """Return a picture with 8-bit grey pixels and a given height."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        hint = "run `pip install -e '.[pictures]'` in zoo's source folder"
        raise ZooError("pillow, which reads pictures, is not installed", hint=hint, exit_code=1) from None
    content = read_bytes(path)
    try:
        with warnings.catch_warnings():  # of large and of slightly damaged pictures
            warnings.simplefilter("ignore")
            picture = Image.open(io.BytesIO(content), formats=FORMATS)
            if picture.width * picture.height > MAX_PIXELS:
                raise Image.DecompressionBombError
            ImageOps.exif_transpose(picture, in_place=True)
            if picture.width > MAX_ASPECT * picture.height:
                problem = f"`{path}` is more than {MAX_ASPECT} times as wide as high"
                raise ZooError(problem, hint="cut the line of text into parts", exit_code=1)
            width = max(1, round(picture.width * height / picture.height))
            return _convert_to_grey(picture).resize((width, height), Image.Resampling.BILINEAR)
    except (ZooError, MemoryError):
        raise
    except Image.DecompressionBombError:
        hint = "cut out the line of text, or scale the picture"
        raise ZooError(f"`{path}` has more than {MAX_PIXELS:,} pixels", hint=hint, exit_code=1) from None
    except Exception as error:  # pillow raises errors of many classes for damaged files
        hint = "if an image viewer can open the file, save it there as PNG"
        raise ZooError(f"`{path}` is not a valid PNG or JPEG file: {error}", hint=hint, exit_code=1) from None


def _convert_to_grey(picture: Image.Image) -> Image.Image:
    """Return a picture with 8-bit grey pixels, on white if it is transparent."""
    from PIL import Image

    if picture.mode.startswith("I"):  # 16 bits, which pillow would cut off at 255
        return Image.fromarray((np.asarray(picture) // _STEP).astype(np.uint8))
    if picture.has_transparency_data:
        coloured, grey = picture.convert("RGBA"), Image.new("L", picture.size, "white")
        grey.paste(coloured.convert("L"), mask=coloured.getchannel("A"))
        return grey
    return picture.convert("L")
