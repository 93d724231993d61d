"""Write the files of the built-in corpus, in `zoo/data/builtin_pairs`: `python -m tests.grammar`."""

import bz2

from tests.grammar.corpus import generate
from zoo.data.builtin import FOLDER, MAX_PAIRS


def main() -> None:
    for split, pairs in generate(MAX_PAIRS).items():
        for column, lines in (("trees", [pair.tree for pair in pairs]), ("de", [pair.target for pair in pairs])):
            text = "".join(f"{line}\n" for line in lines)
            (FOLDER / f"{split}.{column}.bz2").write_bytes(bz2.compress(text.encode()))


if __name__ == "__main__":
    main()
