"""The `image` modality: PNG and JPEG files as patches of greyscale pixels."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from specs import ZooError, install_hint, parts
from zoo.features import written_digits
from zoo.features.modality import FeatureModality, Frames, grey_pixels, input_name, open_input
from zoo.files.reading import MAX_BYTES, UnreadableError
from zoo.report import size

if TYPE_CHECKING:
    from PIL import Image as PillowImage

MAX_PIXELS = 25_000_000
"""Maximum number of pixels in a picture. Decoding takes up to ten bytes per pixel."""
MAX_ASPECT = 512
"""Maximum ratio of the two sides of a picture. Scaling a much taller picture takes gigabytes of memory."""
_MIN_DEVIATION = 1.0
"""Minimum standard deviation, in grey values, by which pixels are divided, so that noise on blank paper stays small."""
_STEP = 257
"""Difference in 16 bits between two adjacent 8-bit grey values."""


class Image(FeatureModality):
    """The `image` modality: greyscale pixels, normalised to mean 0 and variance 1 per image.

    Dark pixels have positive values. Transparent pixels count as white. Only the first frame of an animated image is
    read. A photo is rotated according to its EXIF data.
    """

    suffixes = (".png", ".jpg", ".jpeg")
    options: parts.Image

    def encode(self, file: str | Path | BinaryIO) -> Frames:
        """Split an image into patches, [columns * rows, pixels], column by column and from top to bottom.

        If the last patches extend beyond the right edge of the image, the last column of pixels is repeated.

        Raises:
            ZooError: The file is missing, damaged, too large or not a PNG or JPEG file, or pillow is not installed.
        """
        pixels = np.asarray(_read_grey(file, self.options.height), np.float32)
        pixels = (pixels.mean() - pixels) / max(float(pixels.std()), _MIN_DEVIATION)
        patch = self.options.patch
        pixels = np.pad(pixels, ((0, 0), (0, -pixels.shape[1] % patch.width)), mode="edge")
        grid = pixels.reshape(self.options.rows, patch.height, -1, patch.width).transpose(2, 0, 1, 3)
        return np.ascontiguousarray(grid).reshape(-1, self.options.width)

    def digits(self) -> ModuleType:
        """Return the module that generates images of handwritten digits."""
        return written_digits

    def picture(self, frames: Frames) -> npt.NDArray[np.uint8]:
        """Join patches into an image, [height, width]."""
        patch = self.options.patch
        grid = frames.reshape(-1, self.options.rows, patch.height, patch.width).transpose(1, 2, 0, 3)
        return grey_pixels(grid.reshape(self.options.height, -1))

    def place(self, frame: int) -> str:
        """Return the horizontal position of a patch in its image, such as `32 px`."""
        return f"{frame // self.options.rows * self.options.patch.width} px"


def _read_grey(file: str | Path | BinaryIO, height: int) -> PillowImage.Image:
    """Read an image, convert it to 8-bit greyscale, and scale it to the given height in pixels."""
    try:
        from PIL import Image as pillow
        from PIL import ImageOps, UnidentifiedImageError
    except ImportError:
        problem = "reading pictures requires the `pillow` package, which is not installed"
        raise UnreadableError(problem, hint=install_hint("pictures")) from None
    name = input_name(file)
    with open_input(file) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ZooError(f"`{name}` is larger than {size(MAX_BYTES)}", hint="scale the picture down")
    # Pillow warns about large and slightly damaged pictures. Threads must not use `catch_warnings`.
    warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        picture = pillow.open(io.BytesIO(content), formats=("PNG", "JPEG"))
        if picture.width * picture.height > MAX_PIXELS:
            raise pillow.DecompressionBombError
        ImageOps.exif_transpose(picture, in_place=True)
        if max(picture.size) > MAX_ASPECT * min(picture.size):
            problem = f"one side of `{name}` is more than {MAX_ASPECT} times as long as the other side"
            raise ZooError(problem, hint="crop the picture to one line of text, or cut a long line into parts")
        width = max(1, round(picture.width * height / picture.height))
        return _convert_to_grey(picture).resize((width, height), pillow.Resampling.BILINEAR)
    except (ZooError, MemoryError):
        raise
    except pillow.DecompressionBombError:
        hint = "crop the picture to the line of text, or scale it down"
        raise ZooError(f"`{name}` has more than {MAX_PIXELS:,} pixels", hint=hint) from None
    except Exception as error:  # pillow raises errors of many classes for damaged files
        reason = "" if isinstance(error, UnidentifiedImageError) else f": {error}"
        hint = "if an image viewer can open the file, save it there as PNG"
        raise ZooError(f"`{name}` is not a valid PNG or JPEG file{reason}", hint=hint) from None


def _convert_to_grey(picture: PillowImage.Image) -> PillowImage.Image:
    """Convert an image to 8-bit greyscale. Transparent parts become white."""
    from PIL import Image as pillow

    if picture.mode.startswith("I"):  # 16 bits, which pillow would cut off at 255
        return pillow.fromarray((np.asarray(picture) // _STEP).astype(np.uint8))
    if picture.has_transparency_data:
        coloured, grey = picture.convert("RGBA"), pillow.new("L", picture.size, "white")
        grey.paste(coloured.convert("L"), mask=coloured.getchannel("A"))
        return grey
    return picture.convert("L")
