"""Recognizers: models that transcribe audio files or read the text in images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np

from compiler.lazy import no_grad, torch
from specs import ZooError
from zoo.features.audio import Audio
from zoo.features.modality import FeatureModality, Frames, modality_of
from zoo.features.windows import Recording, Window
from zoo.generation.attention import Attention, compute_attention
from zoo.generation.config import GenerationOptions
from zoo.generation.preprocessing import EncodedText, InputTerms, Preprocessor
from zoo.generation.scoring import TokenScores
from zoo.generation.transcription import Transcript, max_window_seconds
from zoo.generation.translation import SearchInput, Translation
from zoo.generation.translator import Translator
from zoo.report import Report
from zoo.text.sentences import FILE
from zoo.text.tokenizer import SPACE
from zoo.text.vocabulary import Side

_MAX_ATTENTION_POSITIONS, _MAX_GROUPS = 1_000, 60
_CHUNK_FILES = 64
"""Maximum number of files whose frames are read into memory at a time."""
CHUNK_WINDOWS = 16
"""Number of windows of a recording that are recognised together."""


class FilePreprocessor(Preprocessor):
    """Preprocessor for recognizers. Each text is a file path, and the file is always read as a whole."""

    max_chunk = _CHUNK_FILES

    @cached_property
    def modality(self) -> FeatureModality:
        """Modality of the files, such as audio."""
        return cast(FeatureModality, modality_of(self.spec.task))

    @cached_property
    def terms(self) -> InputTerms:
        """Words that messages and progress bars use for files."""
        advice = "; `zoo transcribe` cuts recordings into shorter parts" if self.modality.cut_at_pauses else ""
        noun = FILE if self.modality.names_files else "input"
        return InputTerms(noun, f"{noun}s", "frames", "recognise", "read", None, advice)

    @cached_property
    def max_source_length(self) -> int:
        """Maximum number of frames in a file."""
        positions, longest = self.positions, self.spec.decoding.max_source_length
        return longest if positions is None else min(longest, positions * self.spec.architecture.source_stride)

    def encode(self, text: str, prefix: str, index: int) -> EncodedText:
        """Read an audio or image file, and convert it to an input for the search.

        Args:
            text: Path of the file. If it is empty, the result has no input.
            prefix: The prefix that the output must start with, or an empty string.
            index: Index of the file in the request.

        Raises:
            ZooError: The file is missing, damaged or too long, or the prefix cannot be generated.
        """
        if not text.strip():
            return EncodedText(index, text, (), 0)
        part = self.search_input(self.modality.encode(text), text, index, prefix)
        return EncodedText(index, text, (part,), len(part))

    def search_input(self, frames: Frames, name: str, index: int = 0, prefix: str = "") -> SearchInput:
        """Convert frames (feature vectors) to an input for the search.

        Args:
            frames: The frames of the input.
            name: Name of the input in error messages, such as its path.
            index: Index of the input in the request.
            prefix: The prefix that the output must start with, or an empty string.
        """
        forced = self._encode_prefix(prefix)
        self.require_length(f"`{name}`", len(frames), f"split it into shorter {self.terms.unit}")
        max_length = self._max_target_length(-(-len(frames) // self.spec.architecture.source_stride))
        return SearchInput(index, {"source": torch.from_numpy(frames)}, max_length, forced, name)

    def encode_pairs_side(self, texts: Sequence[str], side: Side, **options: Any) -> list[Any]:
        """Encode the files or their transcripts for scoring (see `Preprocessor.encode_pairs_side`)."""
        if side == "target":
            return super().encode_pairs_side(texts, side, **options)
        return [torch.from_numpy(frames) for frames in self.modality.encode_all(texts)]


class Recognizer(Translator):
    """Model that transcribes audio files or reads the text in images. Its methods take file paths instead of texts.

    Attributes:
        modality: Modality of the files, such as audio.
    """

    translates = False
    preprocessor_class = FilePreprocessor

    def __post_init__(self) -> None:
        super().__post_init__()
        self.modality = cast(FeatureModality, modality_of(self.spec.task))

    def translate(self, texts: Any, **options: Any) -> Any:
        """Recognise the text in one or more files, given by path (see `Translator.translate`)."""
        return super().translate(_names(texts), **options)

    def score(self, sources: Any, targets: Any, **options: Any) -> Any:
        """Return the log-probability of each target, given its source file (see `Translator.score`)."""
        return super().score(_names(sources), targets, **options)

    def transcribe(
        self,
        file: str | PathLike[str],
        *,
        target: str | None = None,
        report: Report | None = None,
        **options: Unpack[GenerationOptions],
    ) -> Transcript:
        """Return the transcript of a recording of any length, with the start and end times of its segments.

        The recording is cut at pauses into windows. A window is at most half as long as the longest training
        recording, and at most 30 seconds. To process a recording as a whole, use `translate`.

        Args:
            file: The path of an audio file.
            target: Language code of the output. If None, use the language of the spec's corpus.
            report: Receives the progress.
            **options: Generation options. Defaults come from the spec.

        Raises:
            ZooError: The file is missing or damaged, an option is out of range, or the model does not read audio or
                cannot output the language.
        """
        seconds = max_window_seconds(self)
        windows, results = list[Window](), list[Translation]()
        recording = Recording(Path(file), cast(Audio, self.modality), seconds)
        with (report or Report()).progress("transcribe", None, "seconds") as progress:
            pending = iter(recording)
            while chunk := list(islice(pending, CHUNK_WINDOWS)):
                found = self.recognize([window.values for window in chunk], target=target, **options)
                windows += [window._replace(values=np.empty(0, np.float32)) for window in chunk]
                results += [best for best, *_ in found]
                progress.advance(round(chunk[-1].end - chunk[0].start))
        return Transcript.of(windows, results, recording.duration)

    def recognize(
        self,
        inputs: Sequence[Frames],
        *,
        target: str | None = None,
        n_best: int | None = None,
        **options: Unpack[GenerationOptions],
    ) -> list[list[Translation]]:
        """Recognise the text in inputs that are already in memory, such as windows of a recording.

        Args:
            inputs: The frames (feature vectors) of each input, `[frames, width]`.
            target: Language code of the output. If None, use the language of the spec's corpus.
            n_best: Number of texts per input. Default: 1.
            **options: Generation options. Defaults come from the spec.

        Returns:
            The texts of each input with their scores. Beam search returns the best text first.

        Raises:
            ZooError: An input is too long, an option is out of range, or the model cannot output the language.
        """
        config, files = self.configure(n_best, target=target, **options)
        preprocessor = cast(FilePreprocessor, files)
        sources = [
            preprocessor.search_input(frames, f"input {index + 1:,}", index) for index, frames in enumerate(inputs)
        ]
        found = self._engine_for(config).submit(sources, config.strategy(self.constraint)).result()
        pairs = zip(sources, found, strict=True)
        return [self.to_translations(preprocessor, source, hypotheses) for source, hypotheses in pairs]

    def score_tokens(
        self, *texts: Iterable[str], report: Report | None = None, first: int = 1, **options: Any
    ) -> list[TokenScores]:
        """Return the log-probability of each token in the given transcripts (see `Translator.score_tokens`)."""
        files, targets = self.check_examples(*texts, first=first)
        scores: list[TokenScores] = []
        for start in range(0, len(files), _CHUNK_FILES):
            chunk = slice(start, start + _CHUNK_FILES)
            scores += super().score_tokens(files[chunk], targets[chunk], first=first + start, **options)
        return scores

    @no_grad()
    def attention(
        self, text: str, translation: str | None = None, *, source: str | None = None, target: str | None = None
    ) -> Attention:
        """Return the attention weights of every head in every layer, for a file and its text.

        Neighbouring encoder positions are combined into at most 60 groups, which take the place of source words.

        Args:
            text: The path of the file.
            translation: The text of the file. If None, the model generates it.
            source: Code of the language in the file (see `LanguageOptions`).
            target: Language code of the text.

        Raises:
            ZooError: The file cannot be read or is too long, the model does not support a language, or the
                recognizer is an ensemble or was created from a compiled model.
        """
        build_program, stride = self.require_attention(), self.spec.architecture.source_stride
        preprocessor, frames = cast(FilePreprocessor, self.preprocessor(source, target)), self.modality.encode(text)
        values = preprocessor.search_input(frames, text).streams["source"]
        positions = -(-len(frames) // stride)
        if positions > _MAX_ATTENTION_POSITIONS:
            problem = f"`{text}` has {positions:,} encoder positions, but the maximum is {_MAX_ATTENTION_POSITIONS:,}"
            raise ZooError(problem, hint="split the file into shorter files")
        if translation is None:
            best = self.recognize([frames], target=target)[0][0]
            output, tokens = best.text, list(best.tokens)
        else:
            ((_, *tokens, _),) = preprocessor.encode_pairs_side([translation], "target")
            output = translation
        rows = self.modality.options.rows
        size = rows * -(-positions // (rows * _MAX_GROUPS))
        places = [
            f"{SPACE}{self.modality.place(position * stride)}" if position % size == 0 else ""
            for position in range(positions)
        ]
        attention = compute_attention(
            build_program(),
            (Path(text).name, values, places),
            (output, tokens, self.vocabulary.token_strings(tokens)),
            forced=translation is not None,
            language_tokens=(0, len(preprocessor.languages.target_tokens)),
        )
        return replace(attention, picture=self.modality.picture(frames))


def _names(files: Any) -> Any:
    """Convert one path, or several paths, to strings."""
    return fspath(files) if isinstance(files, str | PathLike) else map(fspath, files)
