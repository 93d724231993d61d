"""`zoo transcribe`: write the text of sound files, with the times of subtitles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cli import options
from cli.options import option
from cli.translate import confirm_replacement, find_files, raise_first
from specs import ZooError

if TYPE_CHECKING:
    from zoo.generation.recognizer import Recognizer

_FORMATS = (".txt", ".srt", ".vtt")


def transcribe(
    recordings: list[Path],
    output: Annotated[Path | None, option("--output", "-o")] = None,
    format: str | None = None,
    yes: bool = False,
    spec: options.OfSpec = None,
    model: options.Model = None,
    to: str | None = None,
    beam: options.Beam = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    max_batch_tokens: options.MaxBatchTokens = None,
) -> None:
    """Write the text of sound files, or subtitles.

    A recording is cut at its pauses into windows. A window is at most as long as the longest sound that the model was
    trained on, and at most 30 seconds. Without a pause, two windows overlap by two seconds, and their texts are joined
    at the words that both contain. Each window becomes a line of text, or one or more subtitles.

    If a sound file cannot be transcribed, the others are transcribed nevertheless.

    Options:
        recordings FILE|FOLDER: Sound file (WAV, FLAC, OGG or MP3) of any length, or folder. In a folder and its
            subfolders, all sound files are transcribed, except hidden files.
        output FILE|FOLDER: File to write or, for several sound files or a folder, folder to write to. [default: beside
            each sound file, with the code of the text's language and the format as suffixes]
        format txt|srt|vtt: Format of the text: plain text with one line per passage, or subtitles (SubRip or WebVTT).
            [default: that of --output, otherwise txt]
        yes: Replace existing files without asking for confirmation.
        to CODE: Language of the text, such as de. The model must write this language: it is a check for models that
            translate speech directly. [default: the language that the model writes]

    Examples:
        zoo transcribe talk.ogg --model runs/everyday-en
        zoo transcribe lectures --format srt -o subtitles --model runs/everyday-en
        zoo transcribe talk.wav -o talk.de.vtt --to de --model runs/everyday-en-de
    """
    from cli.console import report
    from cli.errors import to_zoo_error
    from zoo.features.audio import Audio
    from zoo.files.atomic import atomic_file
    from zoo.generation.loading import open_model
    from zoo.generation.transcription import FORMATS
    from zoo.models.find import from_options

    found = dict(find_files(recordings, output, Audio.suffixes, _FORMATS, "sound files"))
    suffix = _suffix(format, output)
    messages = report()
    folder = from_options(spec, model, messages)
    translator = open_model(
        folder, device=device, precision=precision, backend=backend, max_batch_tokens=max_batch_tokens, report=messages
    )
    recognizer = _require_recognizer(translator, to)
    plan = _plan(found, output, f".{recognizer.spec.corpus.target}{suffix}", suffix)
    if not confirm_replacement(plan, yes=yes):
        return messages.info("nothing was transcribed")
    errors = []
    for target, recording in plan.items():
        try:
            transcript = recognizer.transcribe(recording, report=messages, beam=beam)
            with atomic_file(target.resolve()) as partial:  # write through a symbolic link
                partial.write_text(FORMATS[suffix](transcript), encoding="utf-8")
            if not transcript.segments:
                messages.warn(f"`{recording}`: no speech was found; the text is empty")
            messages.info(f"wrote {target}")
        except (ZooError, OSError) as error:
            errors.append(to_zoo_error(error))
    return raise_first(errors)


def _suffix(chosen: str | None, output: Path | None) -> str:
    """Return the suffix of the texts: that of `--format`, that of the output file, or .txt.

    Raises:
        ZooError: The format is unknown, or is not that of the output file.
    """
    own = output.suffix.lower() if output is not None and not output.is_dir() else ""
    suffix = f".{chosen}" if chosen is not None else own if own in _FORMATS else ".txt"
    if suffix not in _FORMATS:
        raise ZooError(f"`{chosen}` is not a format of transcripts", hint="use txt, srt or vtt")
    if own in _FORMATS and own != suffix:
        raise ZooError(f"`{output}` does not end in {suffix}", hint="leave `--format` out, or rename the output")
    return suffix


def _require_recognizer(translator: object, to: str | None) -> Recognizer:
    """Return the model. Raise ZooError if it does not read sound, or does not write the language in `--to`."""
    from zoo.generation.recognizer import Recognizer
    from zoo.generation.transcription import max_window_seconds

    assert hasattr(translator, "spec")
    spec = translator.spec
    if not isinstance(translator, Recognizer):
        problem = f"`{spec.name}` does not read sound: its task is `{spec.task.kind}`"
        raise ZooError(problem, hint="use a model with the task `recognition`")
    max_window_seconds(translator)
    if to is not None and to != spec.corpus.target:
        problem = f"`{spec.name}` writes `{spec.corpus.target}`, not `{to}`"
        raise ZooError(problem, hint="use a model that was trained to write this language, or translate its text")
    return translator


def _plan(found: Mapping[Path, Path], output: Path | None, suffixes: str, suffix: str) -> dict[Path, Path]:
    """Return the files to write, and the sound file for each of them.

    Raises:
        ZooError: Two sound files would be written to the same file.
    """
    plan: dict[Path, Path] = {}
    for recording, relative in found.items():
        target = recording.with_suffix(suffixes)
        if output is not None:
            target = output if relative == Path() else (output / relative).with_suffix(suffix)
        if target in plan:
            raise ZooError(f"two sound files would be written to `{target}`", hint="transcribe them in separate calls")
        plan[target] = recording
    return plan
