"""Base class of the modalities of features, and the lists of files that a corpus consists of.

A modality is one file, such as `audio.py`, with a line in `FEATURES`, and the class of its options in `specs/parts.py`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
import numpy.typing as npt

from specs import FeatureSource, Recognition, Task, ZooError
from zoo.files.reading import file_exists, open_file
from zoo.text.files import read_sentences
from zoo.text.lines import clean

FEATURES: Mapping[str, str] = {"audio": "zoo.features.audio.Audio", "image": "zoo.features.image.Image"}
"""The class of each modality of features. It is imported when it is needed, because it may need further packages."""
Frames = npt.NDArray[np.float32]
"""Values of an example: vectors in order, `[frames, width]`."""
_HASHED_BYTES = 1 << 16
_DEVIATIONS = 2.5  # absolute value of white and of black pixels


class FeatureModality(ABC):
    """Modality whose raw data is the path of a file, and whose values are float32 vectors, called frames.

    The store keeps frames as float16. An example costs a batch one position per frame. Padding is zero.

    Attributes:
        options: Options of the modality in the spec.
    """

    suffixes: ClassVar[tuple[str, ...]]
    """Suffixes of the files that can be read, such as `.wav`."""
    version: ClassVar[int] = 1
    """Increase it whenever the same file gives other frames."""

    def __init__(self, options: FeatureSource) -> None:
        self.options = options

    @abstractmethod
    def encode(self, file: str | Path | BinaryIO) -> Frames:
        """Return the frames of a file. Raise ZooError if the file cannot be read."""

    def encode_all(self, files: Iterable[str]) -> list[Frames]:
        """Return the frames of each file."""
        return list(map(self.encode, files))

    def augment(self, frames: Frames, random: np.random.Generator) -> Frames:
        """Return the frames of a training example with random changes. By default, there are none."""
        return frames

    def picture(self, frames: Frames) -> npt.NDArray[np.uint8]:
        """Return frames as a grey picture [height, width]: a column per frame, and the first feature at the bottom."""
        return grey_pixels(frames.T[::-1])

    def place(self, frame: int) -> str:
        """Return where a frame is in its file, as a short text. By default, this is its number."""
        return str(frame + 1)

    @property
    def rows(self) -> int:
        """Number of successive frames that share a column of the picture."""
        return 1

    @property
    def width(self) -> int:
        """Number of features per frame."""
        return self.options.width

    @property
    def augments(self) -> bool:
        """Whether `augment` changes anything."""
        fields = type(self.options).model_fields
        return any(getattr(self.options, name) != fields[name].default for name in self.options.augmentation)

    @property
    def identity(self) -> dict[str, Any]:
        """JSON data that, together with a file, determines the frames."""
        options = self.options.model_dump(mode="json", exclude={*self.options.augmentation})
        return {**options, "version": self.version}


def read_frames(content: bytes, task: Recognition) -> Frames:
    """Return the frames of a file in memory."""
    return cast(FeatureModality, modality_of(task)).encode(BytesIO(content))


def grey_pixels(values: Frames) -> npt.NDArray[np.uint8]:
    """Return values with mean 0 and variance 1 as grey pixels. Large values are dark."""
    pixels: npt.NDArray[np.uint8] = np.rint(127.5 - 127.5 * np.clip(values / _DEVIATIONS, -1, 1)).astype(np.uint8)
    return pixels


def modality_of(task: Task) -> FeatureModality | None:
    """Return the modality of a task's source. None if the source is text, or if there is no source."""
    if not isinstance(task, Recognition):
        return None
    module, _, name = FEATURES[task.source.kind].rpartition(".")
    modality: FeatureModality = getattr(import_module(module), name)(task.source)
    return modality


def listed_files(file: Path) -> Iterator[str]:
    """Yield the absolute path of each file in a list. See `absolute_path`."""
    for number, name in enumerate(read_sentences(file), start=1):
        yield absolute_path(file, number, name)


def absolute_path(file: Path, line: int, name: str) -> str:
    """Return the absolute path of a file whose name, relative to the list's folder, is in a line of a list.

    Raises:
        ZooError: The line has no name, or a name with control characters or white space at an end.
    """
    path = os.path.abspath(os.path.join(os.path.dirname(file), name))
    if not name or clean(name) != name or clean(path) != path:
        hint = "write one file name per line, relative to the folder of the list"
        raise ZooError(f"{name!r} is not a file name", where=f"{file}:{line}", hint=hint)
    return path


def identify(paths: Iterable[str]) -> str:
    """Return a hash of the sizes and first bytes of files, in hexadecimal. Hashing all of a corpus would take long.

    Raises:
        ZooError: A file is missing or cannot be read.
    """
    found = blake2b(digest_size=16)
    for path in paths:
        with open_file(Path(path)) as stream:
            found.update(b"%d " % os.fstat(stream.fileno()).st_size + stream.read(_HASHED_BYTES))
    return found.hexdigest()


def input_files(path: Path, suffixes: tuple[str, ...]) -> list[str] | None:
    """Return the paths of the files that a user names: the files in a folder, sorted by name, or the path itself.

    Returns:
        The paths. None if the path is that of a text file, which is then a list of files.

    Raises:
        ZooError: The folder contains no files with one of the suffixes.
    """
    if file_exists(path):
        return [str(path)] if path.suffix.lower() in suffixes else None
    if not path.is_dir():
        return None
    found = [str(each) for each in sorted(path.iterdir()) if each.suffix.lower() in suffixes and each.is_file()]
    if not found:
        raise ZooError(f"`{path}` contains no files to read", hint=f"the formats are {', '.join(suffixes)}")
    return found
