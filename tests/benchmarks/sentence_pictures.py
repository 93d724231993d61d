"""Draw German sentences in many fonts, for `specs/pictures/everyday-de.yaml`.

    python -m tests.benchmarks.sentence_pictures SENTENCES.de SENTENCES.en OUT [FONTS ...] [--train N]

Line n of SENTENCES.en is the translation of line n of SENTENCES.de. FONTS are folders that contain .ttf and .otf files.
The default is the folder of the system fonts, `/usr/share/fonts`. `docs/how-to/pictures.md` describes where to get
sentences and fonts.

For each of the sets train, dev and test, the script writes a list of pictures (`train.pictures.de`), their texts
(`train.de`) and translations (`train.en`) to OUT. The training set shares no sentence and no font family with the dev
set and the test set.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from math import atan, degrees
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from tests.benchmarks.sentences import parser_for, read_pairs, write_lists

SIZES = {"test": 500, "dev": 500, "train": 30_000}
"""Number of pictures in each set."""
CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyzÄÖÜäöüß0123456789.,;:!?-'\""
SYMBOL_FONTS = ("D050000L", "Standard Symbols PS", "OpenSymbol", "Symbola", "Linux Biolinum Keyboard O")
"""Font families with symbols instead of letters, or with letters drawn on keys."""
_STRIDE = 6
"""Out of this number of font families, one is in the test set, and one is in the dev set."""

Fonts = Mapping[str, Sequence[Path]]
"""Font files, keyed by the first word of the font family, so that DejaVu Sans and DejaVu Serif are in the same set."""


def find_fonts(folders: Iterable[Path]) -> Fonts:
    """Find the fonts in folders that have all German letters. If several fonts have the same name, return one."""
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if path.suffix.lower() not in (".ttf", ".otf"):
            continue
        font = ImageFont.truetype(path, 32)
        family, style = (name or "" for name in font.getname())
        missing = bytes(font.getmask("\U0010ffff"))
        if family not in SYMBOL_FONTS and all(bytes(font.getmask(each)) != missing for each in CHARACTERS):
            found.setdefault(family.split()[0], {})[f"{family} {style}"] = path
    return {family: [*styles.values()] for family, styles in sorted(found.items())}


def divide(fonts: Fonts) -> Mapping[str, Fonts]:
    """Divide the font families among the sets. Return the fonts of each set, keyed by `train`, `dev` and `test`."""
    places = {"test": 0, "dev": _STRIDE // 2}
    chosen = {name: {f: fonts[f] for f in [*fonts][place::_STRIDE]} for name, place in places.items()}
    held_out = {family for each in chosen.values() for family in each}
    return {**chosen, "train": {family: paths for family, paths in fonts.items() if family not in held_out}}


def draw(text: str, font_file: Path, random: random.Random) -> Image.Image:
    """Draw a text as a picture that looks like a bad scan or photo."""
    size = random.randint(28, 44)
    font = ImageFont.truetype(font_file, size)
    left, top, right, bottom = font.getbbox(text)
    across, down = random.randint(2, 14), random.randint(2, 8)
    paper, ink = random.randint(190, 255), random.randint(0, 90)
    page = Image.new("L", (round(right - left) + 2 * across, round(bottom - top) + 2 * down), paper)
    ImageDraw.Draw(page).text((across - left, down - top), text, font=font, fill=ink)
    steepest = min(1.5, degrees(atan(0.3 * size / page.width)))  # long lines would leave the strip
    angle = random.uniform(-steepest, steepest)
    page = page.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=paper)
    page = page.filter(ImageFilter.GaussianBlur(random.uniform(0, size / 24)))
    noise = np.random.default_rng(random.getrandbits(32))
    light = np.linspace(random.uniform(-20, 20), random.uniform(-20, 20), page.width)
    pixels = np.asarray(page, np.float32) + light
    pixels += noise.normal(0, random.uniform(0, 16), pixels.shape)
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def write(pairs: Sequence[tuple[str, str]], fonts: Fonts, out: Path, name: str) -> None:
    """Draw the source of each pair in a random font. Write the pictures and lists of the set `name` to `out`."""
    draws, families = random.Random(name), [*fonts]
    (out / name).mkdir(parents=True)
    for index, (source, _) in enumerate(pairs):
        font = draws.choice(fonts[draws.choice(families)])
        picture = draw(source, font, draws)
        picture.save(out / name / f"{index}.jpg", quality=draws.randint(25, 90))
    german, english = zip(*pairs, strict=True)
    files = [f"{name}/{index}.jpg" for index in range(len(pairs))]
    write_lists(out, name, {"pictures.de": files, "de": german, "en": english})


def main() -> None:
    """Draw the pictures of all sets, and write their lists."""
    parser = parser_for(__doc__, sources=Path, targets=Path, out=Path)
    parser.add_argument("fonts", nargs="*", type=Path, default=[Path("/usr/share/fonts")])
    parser.add_argument("--train", type=int, default=SIZES["train"], help="number of pictures for training")
    arguments = parser.parse_args()
    pairs, start = read_pairs(arguments.sources, arguments.targets, {*CHARACTERS, " "}), 0
    fonts = divide(find_fonts(arguments.fonts))
    for name, count in {**SIZES, "train": arguments.train}.items():
        if not fonts[name]:
            parser.error(f"the fonts have too few families for {name}: install more, as docs/how-to/pictures.md says")
        print(f"{name}: {', '.join(fonts[name])}")
        write(pairs[start : start + count], fonts[name], arguments.out, name)
        start += count


if __name__ == "__main__":
    main()
