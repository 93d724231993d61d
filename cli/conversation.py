"""`zoo run`: translate or parse what the user types at a prompt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from cli import options
from cli.options import argument

if TYPE_CHECKING:
    from zoo.generation.translator import Translator

HELP = """\
/to CODE    translate into this language
/from CODE  read texts in this language
/swap       swap the two languages
/best N     print the N best results for each text
/help       print this list
/exit       end the session (also Ctrl-D)"""


def run(
    name: Annotated[str, argument(complete=options.complete_model_or_run)],
    from_: options.From = None,
    to: options.To = None,
    **how: Unpack[options.Execution],
) -> None:
    """Translate or parse each line that you type.

    The result for a line is printed immediately. `/help` lists the commands, such as `/swap`, which swaps the two
    languages. Ctrl-C discards a line, and Ctrl-D ends the session.

    To translate a file or the output of another program, use `zoo decode`.

    Options:
        name MODEL: Model to use: the name of a published model (NAME@2 for revision 2), the folder of a run, or the
            name of a run's spec. A model that is not on this machine is pulled from the registries.

    Examples:
        zoo run everyday
        zoo run everyday --from de --to en
        zoo run runs/tiny
    """
    from cli.console import report
    from specs import ZooError
    from zoo.generation.loading import open_model
    from zoo.models.find import model

    if not sys.stdin.isatty():
        hint = f"to translate a file or a pipe, run `zoo decode {name}`"
        raise ZooError("stdin is not a terminal, so `zoo run` cannot prompt for text", hint=hint)
    translator = open_model(model(name, report()), **how, report=report())
    conversation = Conversation(translator, from_, to)
    print(f"{translator.spec.name}: type a text, or /help. Ctrl-D ends.")
    with suppress(ImportError):
        import readline  # noqa: F401  (gives `input` a history and editing keys)
    while True:
        try:
            if (line := input(conversation.prompt)).strip() == "/exit":
                return
            for answer in conversation.answer(line):
                print(answer)
        except ZooError as error:
            print(f"error: {error.summary}" + (f"\nhint: {error.hint}" if error.hint else ""))
        except KeyboardInterrupt:
            print()
        except EOFError:
            print()
            return


class Conversation:
    """Interactive session with a model. It remembers the languages and the number of results that the user chose."""

    def __init__(self, translator: Translator, source: str | None = None, target: str | None = None) -> None:
        """Choose the session's languages. If neither is given, use the model's first translation direction.

        Raises:
            ZooError: The model does not support a given language, or the user must specify a language.
        """
        self._translator, self._n_best = translator, 1
        corpus = translator.spec.corpus
        if source is None and target is None and translator.spec.languages is not None and corpus.train:
            source, target = corpus.direction(corpus.train[0])
        self._choose(source, target)

    @property
    def prompt(self) -> str:
        """Prompt that is printed before each typed line, such as `en > de: `."""
        from zoo.text.language_codes import UNKNOWN

        return f"{'any language' if self._source == UNKNOWN else self._source} > {self._target}: "

    def answer(self, line: str) -> Iterator[str]:
        """Yield the output lines for a typed line.

        Raises:
            ZooError: The command is unknown, a command's argument is wrong, or the text cannot be translated.
        """
        text = line.strip()
        if text and (files := self._files(Path(text))):
            yield from (answer for file in files for answer in self._translate(file))
        elif text.startswith("/"):
            yield from self._obey(*text.split())
        elif text:
            yield from self._translate(text)

    def _files(self, path: Path) -> list[str]:
        """Return the audio or image files at a path: the file itself, or all such files in a folder.

        If the model reads text, return an empty list.
        """
        from zoo.features.modality import input_files
        from zoo.generation.recognizer import Recognizer

        model = self._translator
        return (input_files(path, model.modality.suffixes) or []) if isinstance(model, Recognizer) else []

    def _translate(self, text: str) -> Iterator[str]:
        from zoo.generation.parser import Parser
        from zoo.text.trees.tree import format_tree

        model, beam = self._translator, max(self._n_best, self._translator.spec.decoding.beam)
        if isinstance(model, Parser):
            for parse in model.parse(text, n_best=self._n_best, beam=beam):
                yield format_tree(parse)
            return
        yield from model.translate(text, n_best=self._n_best, beam=beam, source=self._source, target=self._target)

    def _obey(self, command: str, *arguments: str) -> Iterator[str]:
        from specs import ZooError
        from zoo.text.language_codes import UNKNOWN

        match command, *arguments:
            case ["/to", code]:
                self._choose(self._source, code)
            case ["/from", code]:
                self._choose(code, self._target)
            case ["/swap"] if self._source == UNKNOWN:
                hint = "type `/from CODE` to set the source language, or `/to CODE` to change the target language"
                raise ZooError("`/swap` needs a source language, but zoo detects the language of each text", hint=hint)
            case ["/swap"]:
                self._choose(self._target, self._source)
            case ["/best", number] if number.isdecimal() and 1 <= int(number) <= 100:
                self._n_best = int(number)
            case ["/help"]:
                yield HELP
            case _:
                words = " ".join([command, *arguments])
                raise ZooError(f"`{words}` is not a command", hint="type `/help` to list the commands")

    def _choose(self, source: str | None, target: str | None) -> None:
        from zoo.text.languages import choose_direction

        self._source, self._target = choose_direction(self._translator.spec, source, target, self._translator.report)
