"""The section `corpus`: which sentence pairs there are, and which of them are kept."""

from collections.abc import Mapping
from typing import Annotated, Any, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    SerializerFunctionWrapHandler,
    Tag,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from specs.section import Positive, Section, Size, broken_rule

Path = Annotated[str, Field(min_length=1, max_length=4_096)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]+)*$", max_length=35)]


def _address(written: str) -> str:
    """As it is written; raises what is told as a broken pattern for brackets, hosts and ports that are none."""
    try:
        parts = urlsplit(written)
        host, _ = parts.hostname or "", parts.port
        whole = parts.scheme == "file" or bool(host.encode("idna"))
    except ValueError:
        whole = False
    if not whole or not written.isprintable():
        raise PydanticCustomError("string_pattern_mismatch", "it is no address")
    return written


class Weighted(Section):
    """A part of a corpus that is written down, and not taken out of another."""

    weight: Positive = Field(
        default=1.0,
        le=1_000,
        description="How often an epoch has each pair of this part of `train` (the paper is silent): 2 for twice, 0.25 "
        "for a quarter of them, others in each epoch; a number.",
    )

    @model_serializer(mode="wrap")
    def _without_a_weight_that_says_nothing(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in written(self).items() if (key, value) != ("weight", 1.0)}


class Grammar(Weighted):
    """Pairs of the built-in corpus, disjoint from those of the other sets."""

    grammar: Size = Field(
        le=5_000_000, description="Pairs taken from the built-in English-German corpus; sentence pairs."
    )


class Files(Weighted):
    """Two local files, one sentence a line, line n of one the translation of line n of the other."""

    source: Path = Field(description="File of source sentences (.gz and .sgm are understood); a path from `folder` on.")
    target: Path = Field(
        description="File of their translations (.gz and .sgm are understood); a path from `folder` on."
    )


class Archive(Weighted):
    """Two members of an archive (.tgz, .tar.gz, .tar, .zip) that is fetched once and kept."""

    archive: Annotated[str, Field(pattern=r"^(https?|file)://\S+$", max_length=4_096), AfterValidator(_address)] = (
        Field(description="Address of the archive (5.1 names the corpora, not the files); a URL.")
    )
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = Field(
        description="SHA-256 of the archive in hexadecimal; null: the first download records it in `corpus.lock`."
    )
    source: Path = Field(description="Member that holds the source sentences (.gz and .sgm are understood); a path.")
    target: Path = Field(description="Member that holds their translations (.gz and .sgm are understood); a path.")


class Treebank(Weighted):
    """Bracketed trees, each the target of its own words: one a line, or over several lines."""

    trees: Path = Field(
        description="File of trees in the Penn Treebank's notation (.gz is understood), or a folder of such files, "
        "taken in the order of their names (6.3: WSJ); a path from `folder` on."
    )


class HeldOut(Section):
    """Pairs taken out of the training set, the same ones every time: chosen by a hash of the source line."""

    held_out: Size = Field(le=1_000_000, description="Pairs taken out of `train` for this set; sentence pairs.")


def _kind(part: Any) -> str | None:
    """The one kind of part that `part` is, or None where it is none or several."""
    if isinstance(part, Section):
        return type(part).__name__
    if not isinstance(part, Mapping):
        return None
    files = "Files" if {"source", "target"} & part.keys() and "archive" not in part else None
    keys = {"Grammar": "grammar", "Archive": "archive", "Treebank": "trees", "HeldOut": "held_out"}
    kinds = {kind: key in part for kind, key in keys.items()}
    named = [kind for kind, present in kinds.items() if present] + ([files] if files else [])
    return named[0] if len(named) == 1 else None


Part = Annotated[
    Annotated[Grammar, Tag("Grammar")]
    | Annotated[Files, Tag("Files")]
    | Annotated[Archive, Tag("Archive")]
    | Annotated[Treebank, Tag("Treebank")]
    | Annotated[HeldOut, Tag("HeldOut")],
    Discriminator(_kind),
]
# A YAML list arrives as a list; inside a frozen spec it is a tuple.
Parts = Annotated[tuple[Part, ...], Field(strict=False, max_length=1_000)]


class Corpus(Section):
    """Sentence pairs to train on, to choose by (dev) and to report on (test); section 5.1."""

    source: Language = Field(description="Language translated from (5.1); a code such as en.")
    target: Language = Field(
        description="Language translated into (5.1), and of a parser that of its source; a code such as de."
    )
    folder: Path = Field(
        description="Folder that the paths of parts start from, itself from the current folder on; a path."
    )
    train: Parts = Field(
        description="Training pairs (5.1), all parts one after another, none of a model that was imported; a list of "
        "parts."
    )
    dev: Parts = Field(description="Pairs for development (6.2: newstest2013); a list of parts.")
    test: Parts = Field(description="Pairs for the final score (6.1: newstest2014); a list of parts.")
    max_length: Size = Field(
        le=1_048_576,
        description="Longest side of a training pair (the paper is silent; the authors' code has 256), EOS "
        "not counted; tokens. Longer pairs are dropped.",
    )
    max_ratio: Annotated[float, Field(ge=1, le=1_048_576)] | None = Field(
        description="Longer side over shorter side of a training pair, in tokens; a ratio. Pairs beyond it "
        "are dropped; null: none is (the paper is silent)."
    )
    deduplicate: bool = Field(
        description="Drop training pairs that occurred before (the paper is silent); true or false."
    )

    @model_validator(mode="after")
    def _train_holds_nothing_out(self) -> Self:
        for index, part in enumerate(self.train):
            if isinstance(part, HeldOut):
                broken_rule(
                    f"train.{index}",
                    problem="`corpus.train` cannot hold out pairs: they are taken from it",
                    hint="write `held_out` in `corpus.dev` or `corpus.test`",
                )
        return self

    @model_validator(mode="after")
    def _weights_are_for_training(self) -> Self:
        for split in ("dev", "test"):
            for index, part in enumerate(getattr(self, split)):
                if getattr(part, "weight", 1.0) != 1.0:
                    broken_rule(
                        f"{split}.{index}.weight",
                        problem=f"`corpus.{split}` has every pair once: a part of it has no weight",
                        hint="write `weight` in a part of `corpus.train`, or leave it out",
                    )
        return self

    @property
    def parts(self) -> tuple[Part, ...]:
        """Those of all sets."""
        return (*self.train, *self.dev, *self.test)
