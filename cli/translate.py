"""`zoo translate`: translate documents, and keep everything but their text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli import options
from specs import ZooError

TRANSLATE_EXAMPLES = (
    "zoo translate letter.docx --model everyday --to de"
    "\n\nzoo translate page.html -o seite.html --model everyday --from en --to de"
)


def translate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Document to translate.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            show_default="FILE with the code of the target language before its suffix",
            help="File to write.",
        ),
    ] = None,
    spec: options.OfSpec = None,
    model: options.Model = None,
    from_: options.From = None,
    to: options.To = None,
    device: options.Device = "auto",
    precision: options.Precision = None,
    backend: options.Backend = None,
    max_batch_tokens: options.MaxBatchTokens = None,
) -> None:
    """Translate a document.

    The formats are plain text (.txt), Markdown (.md), web pages (.html), subtitles (.srt), Word (.docx), OpenDocument
    (.odt) and e-books (.epub). Everything but the text is copied byte for byte. Bold words, links and the like go to
    the words that their words are aligned to (see `zoo align`). Code is not translated.
    """
    from cli.console import report
    from zoo.documents.document import MAX_DOCUMENT_BYTES, format_of, translate_document
    from zoo.files.atomic import atomic_file
    from zoo.files.reading import read_bytes
    from zoo.generation.config import LanguageOptions
    from zoo.generation.loading import open_model
    from zoo.models.find import from_options
    from zoo.text.languages import choose_direction

    format_of(file.name)  # before the model is loaded
    if not file.is_file():
        raise ZooError(f"`{file}` is not a file", hint="name the document to translate")
    content = read_bytes(file, MAX_DOCUMENT_BYTES)
    messages = report()
    translator = open_model(
        from_options(spec, model, messages),
        device=device,
        precision=precision,
        backend=backend,
        max_batch_tokens=max_batch_tokens,
        report=messages,
    )
    source, target = choose_direction(translator.spec, from_, to, messages)
    written = output or file.with_suffix(f".{target}{file.suffix}")
    if written.suffix.lower() != file.suffix.lower():
        raise ZooError(
            f"`{written}` has another format than `{file}`", hint=f"name a file that ends with `{file.suffix}`"
        )
    languages: LanguageOptions = {"source": source, "target": target}

    def translations_of(texts: list[str]) -> list[str]:
        return [best.text for best, *_ in translator.hypotheses(texts, report=messages, **languages)]

    result = translate_document(
        content,
        file.name,
        translations_of,
        lambda texts, translations: translator.align(texts, translations, report=messages, **languages),
    )
    with atomic_file(written) as partial:
        partial.write_bytes(result)
    messages.info(f"wrote {written}")
