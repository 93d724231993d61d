"""Treebanks: brackets that are lost, too many, too deep, empty, or hold what is no tree."""

from __future__ import annotations

import gzip
import json
from random import Random
from typing import get_args

from hostile import values
from hostile.judge import right
from hostile.trial import Trial
from zoo.data.prepare import PreparedCorpus
from zoo.text.trees.bracketed import read_tree
from zoo.text.trees.tokenizer import Linearisation

_TREES = (
    "(TOP (S (NP (DT the) (JJ old) (NN dog)) (VP (VBZ sees) (NP (DT a) (JJ small) (NN house)))))",
    "( (S (NP-SBJ-1 (PRP we)) (VP (VBP read) (NP (CD two) (NNS books)) (NP-TMP (NN today)))) )",
    "(ROOT (SQ (VBP do) (NP (PRP you)) (VP (VB see) (NP (DT the) (NN cat)) (-NONE- *T*-1)) (. ?)))",
    "(TOP (NP (NP (NN pressure)) (-LRB- -LRB-) (NN IOP) (-RRB- -RRB-) (CD 1\\/2)))",
)
_ODD = ("(", ")", "()", "(())", "( ", "(NP)", "(NP (NN", "\x00", "\ufeff", "-NONE-", "(-NONE- *)", "⁇", "(((", "\r\n")
_SMALL = {
    "architecture": {"N": 1, "d_model": 16, "d_ff": 24, "h": 2, "d_k": 6, "d_v": 4},
    "compilation": {"backend": "eager"},
}


def run(draw: Random, trial: Trial) -> None:
    """Makes one and prepares it; what is prepared has trees over the words of its sentences."""
    content = _content(draw)
    name = draw.choice(("odd.trees", "odd.mrg", "odd.trees.gz"))
    (trial.folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (trial.folder / "good.trees").write_text("\n".join(_TREES) + "\n")
    split = draw.choice(("train", "train", "dev"))
    sets = {"train": [{"trees": "good.trees"}], "dev": [{"trees": "good.trees"}], "test": []}
    sets[split] = [{"trees": draw.choice((name, name, name, "."))}]
    vocabulary = {"size": draw.choice((60, 45)), "target_size": draw.choice((64, 20))}
    task = {"linearisation": draw.choice(get_args(Linearisation))}
    own = {"extends": "parsing/tiny", "name": "own", "task": task, "corpus": sets, "vocabulary": vocabulary, **_SMALL}
    (trial.folder / "own.yaml").write_text(json.dumps(own))
    trial.tell(f"{split}: {len(content)} bytes, {own}")
    done = trial.zoo("prepare", "own.yaml")
    if done.status == 0:
        (folder,) = (each for each in (trial.home / "prepared").iterdir() if (each / "manifest.json").is_file())
        prepared = PreparedCorpus(folder)
        for source, tree in zip(*prepared.texts("dev"), strict=True):
            right(len(source.split()) == len(list(read_tree(tree).leaves())), f"{source!r} is not of {tree!r}")


def _content(draw: Random) -> bytes:
    good = "\n".join(draw.choices(_TREES, k=draw.choice((1, 4, 30)))) + "\n"
    at = draw.randrange(len(good))
    match draw.randrange(10):
        case 0:
            text = good[:at]
        case 1:
            text = good[:at] + draw.choice(_ODD) + good[at:]
        case 2:
            text = good[:at] + good[at + 1 :]
        case 3:
            depth = draw.choice((200, 260, 5_000, 200_000))
            text = "(S " * depth + "(NN deep)" + ")" * draw.choice((depth, depth - 1)) + "\n"
        case 4:
            text = "(S" + " (NN wide)" * draw.choice((2_000, 60_000)) + ")\n"
        case 5:
            text = good.replace(" ", draw.choice(("\n", "\t\n  ", "\u3000", "\u2028")))
        case 6:
            text = good.replace("NP", values.word(draw).replace("(", "")[:200] or "NP")
        case 7:
            text = "".join(draw.sample(good, len(good)))
        case 8:
            return values.damaged(draw, good.encode())
        case _:
            text = good
    return text.encode("utf-8", "surrogatepass")
