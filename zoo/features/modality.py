"""Base class for feature modalities, such as audio, and functions that find input files.

Each modality has its own file, such as `audio.py`. The class of its options in `specs/parts.py` names the modality.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, BinaryIO, ClassVar, cast

import numpy as np
import numpy.typing as npt

from compiler.host import cores
from specs import FeatureSource, Task, ZooError
from zoo.files.reading import UnreadableError, file_exists, open_file
from zoo.text.lines import clean, read_sentences

Frames = npt.NDArray[np.float32]
"""Values of an example: feature vectors in order, `[frames, width]`."""
_HASHED_BYTES = 1 << 16
_DEVIATIONS = 2.5  # absolute value of white and of black pixels


class FeatureModality(ABC):
    """Modality that reads recordings or images as sequences of float32 vectors, called frames.

    The raw data of an example is the path of a file, unless a subclass overrides `names_files` and `raw_data`.
    Prepared corpora store frames as float16. Each frame takes one position in a batch. Padding frames are zero.

    Attributes:
        options: Options for the modality in the spec.
        dtype: Data type of a frame on disk. Because it is not an integer, batches do not add BOS and EOS.
    """

    suffixes: ClassVar[tuple[str, ...]]
    """Suffixes of the files that can be read, such as `.wav`."""
    names_files: ClassVar[bool] = True
    """Whether the raw data of an example is the path of a file."""
    chunk_examples: ClassVar[int] = 32
    """Maximum number of examples that `zoo prepare` encodes at a time. An hour of audio takes 115 MB."""
    cut_at_pauses: ClassVar[bool] = False
    """Whether `zoo transcribe` can cut a file at pauses into parts that are recognised one by one."""
    version: ClassVar[int] = 1
    """Version of the code that computes frames. Increase it whenever the same file gives different frames."""

    def __init__(self, options: FeatureSource) -> None:
        self.options, self.dtype = options, np.dtype(("float16", (options.width,)))

    def read(self, path: Path) -> Iterator[str]:
        """Yield the raw data of each example in a file with one example per line. See `raw_data` for errors."""
        for number, line in enumerate(read_sentences(path), start=1):
            yield self.raw_data(path, number, line)

    @staticmethod
    def raw_data(file: Path, line: int, text: str) -> str:
        """Convert a line in a file, or a cell in a table, to the raw data of an example: by default, an absolute path.

        Args:
            file: Text file or table that contains `text`.
            line: Number of the line, for the error message.
            text: Name of a file, relative to the folder of the text file.

        Raises:
            ZooError: The name is empty, or has control characters or leading or trailing white space, or the file is
                missing.
        """
        path = os.path.abspath(os.path.join(os.path.dirname(file), text))
        if not text or clean(text) != text or clean(path) != path:
            hint = "write one file name per line, relative to the folder of the list"
            raise ZooError(f"{text!r} is not a file name", where=f"{file}:{line}", hint=hint)
        if not file_exists(Path(path)):
            hint = "check the path, or remove this line"
            raise ZooError(f"`{path}` is missing", where=f"{file}:{line}", hint=hint, exit_code=1)
        return path

    @abstractmethod
    def encode(self, file: str | Path | BinaryIO) -> Frames:
        """Read a file, and convert it to frames (feature vectors). Raise ZooError if the file cannot be read."""

    def encode_all(self, raw: Sequence[str], unusable: Callable[[str], None] | None = None) -> list[Frames]:
        """Read files in parallel. Return the frames (feature vectors) of each file.

        Args:
            raw: Paths of the files.
            unusable: Function that is called with the error message for each file that is damaged or not supported. The
                result for such a file has no frames. If None, the error is raised.
        """

        def encode(file: str) -> Frames:
            try:
                return self.encode(file)
            except ZooError as error:
                if unusable is None or isinstance(error, UnreadableError):
                    raise
                unusable(error.summary)
                return np.zeros((0, self.options.width), np.float32)

        with ThreadPoolExecutor(cores()) as pool:
            return list(pool.map(encode, raw))

    def augment(self, frames: Frames, random: np.random.Generator) -> Frames:
        """Change the frames in a training example at random. By default, return them unchanged."""
        return frames

    def picture(self, frames: Frames) -> npt.NDArray[np.uint8]:
        """Draw frames as a greyscale image, [height, width], with a column per frame. The lowest row is feature 0."""
        return grey_pixels(frames.T[::-1])

    def digits(self) -> ModuleType:
        """Return the module that generates examples for the corpus part `digits`. By default, raise ZooError."""
        problem = f"the corpus part `digits` cannot be generated as {self.options.kind}"
        raise ZooError(problem, hint="replace `digits` with a part that lists your own files as `source` and `target`")

    @abstractmethod
    def place(self, frame: int) -> str:
        """Return the position of a frame in its file as a short string, such as `1.25 s`."""

    @property
    def identity(self) -> dict[str, Any]:
        """All settings that determine the frames of a file, as JSON data."""
        options = self.options.model_dump(mode="json", exclude={*self.options.augmentation}, exclude_none=True)
        return {**options, "version": self.version}


def open_input(file: str | Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading, unless it is already open."""
    return open_file(Path(file)) if isinstance(file, str | Path) else nullcontext(file)


def input_name(file: str | Path | BinaryIO) -> str:
    """Return the name of a file for error messages."""
    return str(file) if isinstance(file, str | Path) else "the file"


def read_frames(content: bytes, task: Task) -> Frames:
    """Convert the content of an audio or image file to frames (feature vectors), for a task that reads such files."""
    return cast(FeatureModality, modality_of(task)).encode(BytesIO(content))


def grey_pixels(values: Frames) -> npt.NDArray[np.uint8]:
    """Convert values with mean 0 and variance 1 to greyscale pixels from 0 to 255. Large values are dark."""
    pixels: npt.NDArray[np.uint8] = np.rint(127.5 - 127.5 * np.clip(values / _DEVIATIONS, -1, 1)).astype(np.uint8)
    return pixels


def modality_of(task: Task) -> FeatureModality | None:
    """Return the modality of a task's source. None if the source consists of tokens, or if there is no source."""
    return cast(FeatureModality, resolve_name(task.features.modality)(task.features)) if task.features else None


def identify(paths: Iterable[str]) -> str:
    """Return a hexadecimal hash of the sizes and first bytes of files. Hashing whole files would take too long.

    Raises:
        ZooError: A file is missing or cannot be read.
    """
    found = blake2b(digest_size=16)
    for path in paths:
        with open_file(Path(path)) as stream:
            found.update(b"%d " % os.fstat(stream.fileno()).st_size + stream.read(_HASHED_BYTES))
    return found.hexdigest()


def input_files(path: Path, suffixes: tuple[str, ...]) -> list[str] | None:
    """Find the input files for a path that the user passes.

    Returns:
        For a folder, its files with one of the suffixes, except hidden files, sorted by name. For an input file, only
        this file. None if the path does not exist, or is a text file, which the caller reads as a list of files. A
        binary file is an input file even if its suffix is unknown.

    Raises:
        ZooError: The folder contains no files with one of the suffixes.
    """
    if file_exists(path):
        with open_file(path) as stream:
            start = stream.read(_HASHED_BYTES)
        is_binary = b"\0" in start and not start.startswith((b"\xff\xfe", b"\xfe\xff"))  # not UTF-16 either
        return [str(path)] if is_binary or path.suffix.lower() in suffixes else None
    if not path.is_dir():
        return None
    named = (each for each in sorted(path.iterdir()) if each.suffix.lower() in suffixes and each.name[0] != ".")
    # Reading a broken link or a pipe raises an error. If they were skipped, the output would lack a line for them.
    found = [str(each) for each in named if not each.is_dir()]
    if not found:
        raise ZooError(f"`{path}` contains no files to read", hint=f"supported formats: {', '.join(suffixes)}")
    return found
