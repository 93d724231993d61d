"""The section `task`: what a model's target is, how it is scored, and what a search may write."""

from typing import Annotated, Literal

from pydantic import Field

from specs.section import Section


class Translation(Section):
    """A sentence into another language (sections 5 and 6.1)."""

    kind: Literal["translation"] = Field(description="A sentence into its translation (6.1); a kind.")


class Parsing(Section):
    """A sentence into its constituency tree, written as a sequence (section 6.3)."""

    kind: Literal["parsing"] = Field(description="A sentence into its constituency tree (6.3); a kind.")
    linearisation: Literal["vinyals", "tensor2tensor", "initials"] = Field(
        description="How a tree becomes a sequence (6.3 cites Vinyals et al. 2015): vinyals writes `(S (NP XX )NP )S`, "
        "each word as XX; tensor2tensor is of the authors' code, `S NP NNP /NP /S`, each word as its tag; initials "
        "writes `(S (NP J )NP )S`, each word as its first character; a choice."
    )
    constrained: bool = Field(
        description="The search writes trees over the sentence's words and nothing else (the paper is silent); true or "
        "false. Else what is no tree is mended afterwards."
    )


COMMANDS = {"translation": "decode", "parsing": "parse"}
"""What a task is done by, on the command line."""
SCORES = {
    "translation": ("bleu", "paper_bleu", "chrf", "ter", "perplexity"),
    "parsing": ("f1", "perplexity"),
}
"""What the dev set of a task may be scored by."""
Task = Annotated[Translation | Parsing, Field(discriminator="kind")]
