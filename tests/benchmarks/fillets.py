"""Collect the spoken lines of the game Fish Fillets, for `specs/speech/fillets-cs.yaml`.

    python -m tests.benchmarks.fillets LANGUAGE OUT [GAME]

LANGUAGE is cs or nl. GAME is the folder of the game, by default where Debian's packages `fillets-ng-data` and
`fillets-ng-data-cs` or `-nl` install it. For train, dev and test, OUT gets a list of sounds (`train.sounds.cs`), their
texts (`train.cs`) and English translations (`train.en`). Whole rooms of the game are only in dev or test. `spoken.*`
are the lines of train, which espeak-ng speaks with many voices. The lines have the GPL 2 or later.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import soundfile

from tests.benchmarks.sentence_sounds import speak_all
from tests.benchmarks.sentences import write_lists

GAME = Path("/usr/share/games/fillets-ng")
TIMES = 6
"""Number of voices that speak each line of train."""
_STRING = r'"((?:[^"\\]|\\.)*)"'
_LINE = re.compile(rf"dialogId\({_STRING},\s*{_STRING},\s*{_STRING}\)\s*dialogStr\({_STRING}\)")
_SPLITS = {3: "dev", 8: "test"}
"""Places of the rooms of dev and test among ten successive rooms."""

Line = tuple[Path, str, str]
"""The sound of a line, its text and its English translation."""


def lines(game: Path, language: str) -> Iterator[tuple[str, Line]]:
    """Yield the split and the content of each line that has a sound, room by room."""
    rooms = [path for path in sorted(game.glob(f"script/*/dialogs_{language}.lua")) if _LINE.search(_text(path))]
    for number, path in enumerate(rooms):
        for name, _, english, text in _LINE.findall(_text(path)):
            sound = game / "sound" / path.parent.name / language / f"{name}.ogg"
            if sound.exists() and soundfile.info(sound).frames and any(map(str.isalpha, text)):
                yield _SPLITS.get(number % 10, "train"), (sound, _plain(text), _plain(english))


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _plain(text: str) -> str:
    """Return a string of Lua without escapes, on one line."""
    return " ".join(re.sub(r"\\(.)", r"\1", text).split())


def main() -> None:
    """Collect the lines that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("language", choices=["cs", "nl"])
    parser.add_argument("out", type=Path)
    parser.add_argument("game", type=Path, nargs="?", default=GAME)
    arguments = parser.parse_args()
    language = arguments.language
    sets: dict[str, list[Line]] = {"train": [], "dev": [], "test": []}
    for split, line in lines(arguments.game.resolve(), language):
        sets[split].append(line)
    if not all(sets.values()):
        parser.error(f"{arguments.game} has too few lines in `{language}`: install the game's packages")
    arguments.out.mkdir(parents=True)
    repeated = sets["train"] * TIMES
    folder = (arguments.out / "spoken").resolve()
    spoken = speak_all([text for _, text, _ in repeated], folder, "train", accents=[language])
    sets["spoken"] = [(path, *line[1:]) for path, line in zip(spoken, repeated, strict=True)]
    for name, found in sets.items():
        sounds, texts, english = zip(*found, strict=True)
        write_lists(arguments.out, name, {f"sounds.{language}": sounds, language: texts, "en": english})
        print(f"{name}: {len(found):,} sounds")


if __name__ == "__main__":
    main()
