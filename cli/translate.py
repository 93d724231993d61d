"""`zoo translate` translates documents, and `zoo transcribe` writes the text of audio files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Unpack

from cli import options
from cli.options import option
from specs import ZooError
from zoo.report import Report

if TYPE_CHECKING:
    from specs.corpus import Direction
    from zoo.models.catalogue import ModelCard

_DEFAULT_LANGUAGES = ("en", "de", "fr", "es")
_TRANSCRIPT_FORMATS = (".txt", ".srt", ".vtt")


def translate(
    documents: list[Path],
    output: Annotated[Path | None, option("--output", "-o")] = None,
    yes: bool = False,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    no_protect: options.NoProtect = False,
    **how: Unpack[options.Batching],
) -> None:
    """Translate documents.

    The formats are plain text (.txt), Markdown (.md), web pages (.html), subtitles (.srt), Word (.docx), OpenDocument
    (.odt) and e-books (.epub). Everything but the text is copied byte for byte. Bold words and links are placed by
    word alignment (see `zoo align`). Code is not translated.

    Without --spec and --model, the included model `everyday` translates between English, German, French and Spanish.
    It is intended for everyday and office language, not for legal or medical texts. Warnings report how many
    translations lack numbers, links or similar parts, or have a low probability. Check these translations.

    If a document cannot be translated, the other documents are still translated.

    Options:
        documents FILE|FOLDER: Document to translate, or folder. In a folder and its subfolders, all documents are
            translated. Hidden files, lock files of open documents, and translations that are beside their originals are
            skipped.
        output FILE|FOLDER: File to write. For several documents or a folder, the folder to write to. Translations keep
            the names and subfolders of their documents. [default: beside each document, with the code of the target
            language before the suffix]
        yes: Replace existing files without asking for confirmation.

    Examples:
        zoo translate letter.docx --to de
        zoo translate page.html -o seite.html --model everyday --from en --to de
        zoo translate website -o webseite --to de
    """
    from cli.console import report
    from zoo.documents import translation
    from zoo.documents.document import FORMATS, Document, format_of
    from zoo.files.atomic import atomic_file
    from zoo.generation.loading import open_model
    from zoo.models.catalogue import EVERYDAY
    from zoo.models.find import from_options
    from zoo.models.folder import ModelFolder
    from zoo.text.language_codes import best_match
    from zoo.text.languages import choose_direction

    suffixes = tuple(FORMATS)
    found = dict(_find_files(documents, output, suffixes, suffixes, "documents"))  # before the model is loaded
    for document in found:
        format_of(document.name)
    messages = report()
    if model is None and spec is None:
        from_, to = (code and (best_match(code, _DEFAULT_LANGUAGES) or code) for code in (from_, to))
        if not {from_, to} <= {None, *_DEFAULT_LANGUAGES}:
            raise _no_model_error(documents, output, from_, to)
        model = EVERYDAY
    folder = from_options(spec, model, messages)
    known = ModelFolder(folder).spec
    known.require_text("`zoo translate`")
    direction = choose_direction(known, from_, to, messages)
    codes = known.languages.codes if known.languages else direction
    originals = {path: each for path, each in found.items() if not _is_translation(path, found, codes)}
    plan = _plan(originals, output, direction[1], "translation")
    if not _confirm_replacement(plan, yes=yes):
        return messages.info("nothing was translated")
    translator = open_model(folder, **how, report=messages)
    sentences = list[str]()

    def write(document: Path, target: Path) -> None:
        original = Document.read(document)
        content, found = translation.translate(translator, original, direction, messages, protect=not no_protect)
        with atomic_file(target.resolve()) as partial:  # write through a symbolic link
            partial.write_bytes(content)
        messages.info(f"wrote {target}")
        sentences.extend(found)

    _write_each(plan, write)
    if known.name == EVERYDAY:
        _recommend(documents, output, direction, sentences, messages)
    return None


def _no_model_error(documents: Sequence[Path], output: Path | None, source: str | None, target: str | None) -> ZooError:
    """Return the error for languages that the included model does not support. The hint recommends a public model."""
    from zoo.models.catalogue import EVERYDAY, recommended

    if not (source and target):
        hint = "specify both languages with `--from CODE` and `--to CODE`, or name a model with `--model`"
    elif card := recommended(source, target):
        command = _command(documents, output, (source, target), card)
        hint = (
            f"{card.summary} translates from `{source}` to `{target}`: run `{command}`; "
            f"to list other models, run `zoo list --available {source}-{target}`"
        )
    else:
        hint = (
            f"no public model translates from `{source}` to `{target}`: write language codes, such as `de`, or "
            "name a model with `--model`; to list the public models, run `zoo list --available`"
        )
    problem = f"the included model `{EVERYDAY}` only translates between English, German, French and Spanish"
    return ZooError(problem, hint=hint)


def _command(documents: Sequence[Path], output: Path | None, direction: Direction, card: ModelCard) -> str:
    """Return the `zoo translate` command that translates the documents with a public model."""
    files = [*map(str, documents), *(["-o", str(output)] if output else [])]
    source, target = card.languages.direction(*direction) or direction
    return shlex.join(["zoo", "translate", *files, "--from", source, "--to", target, "--model", card.name])


def _recommend(
    documents: Sequence[Path], output: Path | None, direction: Direction, sentences: Sequence[str], messages: Report
) -> None:
    """Recommend a public model if the included model is not suited to the translated sentences."""
    from zoo.models.catalogue import better_for

    if found := better_for(sentences, *direction):
        card, message = found
        messages.info(f"{message}: `{_command(documents, output, direction, card)}`")


def _confirm_replacement(files: Iterable[Path], *, yes: bool) -> bool:
    """Ask the user whether existing files may be replaced. Return whether the files may be written.

    If `yes` is true or none of the files exist, return True without asking.
    """
    from cli.console import confirm

    existing = [] if yes else [file for file in files if file.exists()]
    if not existing:
        return True
    question = f"replace `{existing[0]}`{f' and {len(existing) - 1} more' * (len(existing) > 1)}?"
    return confirm(question, f"`{existing[0]}` was not replaced")


def _write_each(plan: Mapping[Path, Path], write: Callable[[Path, Path], None]) -> None:
    """Call `write(input, output)` for each entry in `plan`, which maps output files to input files.

    If calls fail, the remaining calls are still made. Afterwards, the first error is raised, and the other
    errors are attached to it.
    """
    from cli.errors import to_zoo_error

    errors = []
    for target, source in plan.items():
        try:
            write(source, target)
        except (ZooError, OSError) as error:
            errors.append(to_zoo_error(error))
    if errors:
        errors[0].additional = (*errors[0].additional, *errors[1:])
        raise errors[0]


def _find_files(
    given: Sequence[Path], output: Path | None, read: Sequence[str], written: Sequence[str], what: str
) -> Iterator[tuple[Path, Path | None]]:
    """Yield each input file with its output path: `output` itself, or a path in the folder `output` with the same name.

    Args:
        given: The input files and folders.
        output: File or folder to write to. If None, the output path is None.
        read: Suffixes of the files to read in folders.
        written: Suffixes that an output file may have.
        what: Name for the files in error messages, such as "documents".

    Raises:
        ZooError: A path is `-`, a file does not exist, a folder has no file to read, or `output` is a file but must be
            a folder.
    """
    if Path("-") in (*given, output) and not Path("-").exists():
        hint = "pass the path of a file or folder; to translate text from stdin to stdout, use `zoo decode`"
        raise ZooError("`-` is not supported: this command reads and writes files only", hint=hint)
    is_single = len(given) == 1 and not given[0].is_dir()
    is_file = is_single and output is not None and not output.is_dir() and bool(output.suffix or output.exists())
    is_folder = output is None or output.is_dir() or not (output.exists() or output.suffix.lower() in written)
    if not (is_file or is_folder):
        hint = f"for several {what} or a folder of {what}, pass an output folder with `--output`"
        raise ZooError(f"`{output}` is not a folder", hint=hint)
    if is_file and output and not output.parent.exists():
        raise ZooError(f"the folder `{output.parent}` does not exist", hint="create it, or choose another path")
    excluded = None if output is None else output.resolve()
    for path in given:
        if path.is_file():
            yield path, output if is_file or output is None else output / path.name
            continue
        if not path.is_dir():
            problem = "is not a regular file" if path.exists() else "does not exist"
            raise ZooError(f"`{path}` {problem}", hint=f"pass the {what}, or the folder that contains them")
        inside = [
            each
            for each in sorted(path.rglob("*"))
            if each.suffix.lower() in read
            and each.is_file()
            and not any(part.startswith((".", "~$")) for part in each.relative_to(path).parts)
            and (excluded in (None, path.resolve()) or excluded not in each.resolve().parents)
        ]
        if not inside:
            raise ZooError(f"`{path}` contains no {what}", hint=f"supported formats: {', '.join(read)}")
        yield from ((each, None if output is None else output / each.relative_to(path)) for each in inside)


def _plan(
    found: Mapping[Path, Path | None], output: Path | None, code: str, what: str, suffix: str = ""
) -> dict[Path, Path]:
    """Map the path of each output file to its input file.

    Args:
        found: The input files with their output paths (see `_find_files`). If a path is None, the output is written
            beside the input.
        output: The output file or folder that the user chose.
        code: Code of the target language. It is inserted before the suffix of outputs that are beside their inputs.
        what: Name for an output in error messages, such as "translation".
        suffix: Suffix of the outputs. By default, each output has the suffix of its input.

    Raises:
        ZooError: An output would have the wrong suffix, replace its input (perhaps through a symbolic link), or have
            the same path as another output.
    """
    plan: dict[Path, Path] = {}
    for source, chosen in found.items():
        ending = suffix or source.suffix
        target = source.with_suffix(f".{code}{ending}") if chosen is None else chosen
        if target != output:
            target = target.with_suffix(ending)
        if target.suffix.lower() != ending.lower():
            hint = f"choose a file name that ends in `{ending}`"
            raise ZooError(f"`{target}` must have the same format as `{source}`", hint=hint)
        if target.resolve() == source.resolve():
            raise ZooError(f"the {what} would replace `{source}`", hint="choose another path with `--output`")
        if target in plan:
            hint = "run the command once for each file, with different paths for `--output`"
            raise ZooError(f"two {what}s would be written to `{target}`", hint=hint)
        plan[target] = source
    return plan


def _is_translation(document: Path, found: Mapping[Path, Path | None], codes: Sequence[str]) -> bool:
    """Return whether a document seems to be a translation, such as `a.de.txt` beside its original `a.txt`."""
    stem = Path(document.stem)
    return stem.suffix[1:] in codes and document.with_name(stem.stem + document.suffix) in found


def transcribe(
    recordings: list[Path],
    output: Annotated[Path | None, option("--output", "-o")] = None,
    format: Literal["txt", "srt", "vtt"] | None = None,
    yes: bool = False,
    spec: options.OfSpec = None,
    model: options.Model = None,
    to: str | None = None,
    beam: options.Beam = None,
    **how: Unpack[options.Batching],
) -> None:
    """Transcribe audio files to text or subtitles.

    A recording is cut at its pauses into windows. A window is at most half as long as the longest recording that the
    model was trained on, and at most 30 seconds. If there is no pause, two windows overlap by up to two seconds, and
    their texts are joined at the words that both texts contain. Each window becomes a line of text, or one or more
    subtitles.

    If an audio file cannot be transcribed, the other files are still transcribed.

    Options:
        recordings FILE|FOLDER: Audio file (WAV, FLAC, OGG or MP3) of any length, or folder. In a folder and its
            subfolders, all audio files are transcribed, except hidden files.
        output FILE|FOLDER: File to write. For several audio files or a folder, the folder to write to. [default: beside
            each audio file, with the text's language code and the format as suffixes]
        format txt|srt|vtt: Format of the text: plain text with one line per window, or subtitles (SubRip or WebVTT).
            [default: the format of --output, otherwise txt]
        yes: Replace existing files without asking for confirmation.
        to CODE: Language of the text, such as de, for models that also translate speech directly. [default: the
            language of the model's corpus]

    Examples:
        zoo transcribe talk.ogg --spec speech/everyday-en
        zoo transcribe lectures --format srt -o subtitles --spec speech/everyday-en
        zoo transcribe talk.wav -o talk.de.vtt --to de --spec calls-en-de.yaml
    """
    from cli.console import report
    from zoo.features.audio import Audio
    from zoo.files.atomic import atomic_file
    from zoo.generation.loading import open_model
    from zoo.generation.recognizer import Recognizer
    from zoo.generation.transcription import FORMATS, max_window_seconds
    from zoo.models.find import from_options

    found = dict(_find_files(recordings, output, Audio.suffixes, _TRANSCRIPT_FORMATS, "audio files"))
    suffix = _transcript_suffix(format, output if output in found.values() else None)
    messages = report()
    translator = open_model(from_options(spec, model, messages), **how, report=messages)
    if not isinstance(translator, Recognizer):
        problem = f"`{translator.spec.name}` does not read audio: its task is `{translator.spec.task.kind}`"
        raise ZooError(problem, hint="use a model with the `recognition` task")
    max_window_seconds(translator)  # raises an error if the model reads images
    language = translator.preprocessor(target=to).languages.target
    plan = _plan(found, output, language, "transcript", suffix)
    if not _confirm_replacement(plan, yes=yes):
        return messages.info("nothing was transcribed")

    def write(recording: Path, target: Path) -> None:
        # The output is opened first, so that an unwritable path fails before the transcription.
        with atomic_file(target.resolve()) as partial:  # write through a symbolic link
            transcript = translator.transcribe(recording, target=to, report=messages, beam=beam)
            partial.write_text(FORMATS[suffix](transcript), encoding="utf-8")
        if not transcript.segments:
            messages.warn(f"`{recording}`: no speech was found; the transcript is empty")
        messages.info(f"wrote {target}")

    return _write_each(plan, write)


def _transcript_suffix(chosen: str | None, output: Path | None) -> str:
    """Choose the suffix of transcripts: `--format`, else the suffix of a single output file, else `.txt`.

    Raises:
        ZooError: The format is unknown, or differs from the output file's format.
    """
    own = output.suffix.lower() if output is not None else ""
    suffix = f".{chosen}" if chosen is not None else own or ".txt"
    if suffix not in _TRANSCRIPT_FORMATS:
        raise ZooError(f"`{suffix[1:]}` is not a transcript format", hint="use txt, srt or vtt")
    if own not in ("", suffix):
        raise ZooError(f"`{output}` does not end in {suffix}", hint="omit `--format`, or rename the output")
    return suffix
