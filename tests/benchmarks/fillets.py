"""Collect the spoken lines from the game Fish Fillets, for `specs/speech/fillets-cs.yaml`.

    python -m tests.benchmarks.fillets LANGUAGE OUT [GAME]

LANGUAGE is cs or nl. GAME is the folder of the game. The default is the folder in which the Debian packages
`fillets-ng-data` and `fillets-ng-data-cs` or `-nl` install the game. For each of the sets train, dev and test, the
script writes a list of audio files (`train.sounds.cs`), their texts (`train.cs`) and English translations (`train.en`)
to OUT. All lines of a room of the game are in the same set. The files `spoken.*` contain the lines of the training set,
spoken by espeak-ng with many voices. The licence of the lines is the GPL, version 2 or later.
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
"""Number of espeak-ng voices that speak each line in the training set."""
_STRING = r'"((?:[^"\\]|\\.)*)"'
_LINE = re.compile(rf"dialogId\({_STRING},\s*{_STRING},\s*{_STRING}\)\s*dialogStr\({_STRING}\)")
_SPLITS = {3: "dev", 8: "test"}
"""Indices of the dev room and the test room among ten successive rooms."""

Line = tuple[Path, str, str]
"""Audio file of a line, its text and its English translation."""


def lines(game: Path, language: str) -> Iterator[tuple[str, Line]]:
    """Yield the set (`train`, `dev` or `test`) and the content of each line of the game that has an audio file."""
    rooms = [path for path in sorted(game.glob(f"script/*/dialogs_{language}.lua")) if _LINE.search(_text(path))]
    for number, path in enumerate(rooms):
        for name, _, english, text in _LINE.findall(_text(path)):
            sound = game / "sound" / path.parent.name / language / f"{name}.ogg"
            if sound.exists() and soundfile.info(sound).frames and any(map(str.isalpha, text)):
                yield _SPLITS.get(number % 10, "train"), (sound, _plain(text), _plain(english))


def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _plain(text: str) -> str:
    """Convert a Lua string literal to plain text on one line."""
    return " ".join(re.sub(r"\\(.)", r"\1", text).split())


def main() -> None:
    """Collect the spoken lines of one language, and write their lists."""
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
