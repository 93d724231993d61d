"""The section `task`: what a model learns, the streams of its examples, and the scores that rate it."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from specs.section import Section

OUTPUT = "target"
"""Name of the stream that a model writes."""


class BaseTask(Section):
    """Base class of tasks."""

    streams: ClassVar[Mapping[str, str]]
    """The streams of an example, with their modalities. The encoder reads all of them except OUTPUT, which is last."""
    loss: ClassVar[str] = "cross_entropy"
    """The loss that training minimises, a key of `LOSSES` in `compiler/lowering/losses.py`. The cross entropy of tokens
    needs a decoder, and other losses need none."""
    command: ClassVar[str]
    """Command that runs a model."""
    scores: ClassVar[tuple[str, ...]]
    """Metrics that rate a model, and permitted values of `training.dev_score`. The main metric comes first."""

    @property
    def reads(self) -> bool:
        """Whether the model reads a source, so that it has an encoder."""
        return "source" in self.streams

    @property
    def writes_trees(self) -> bool:
        """Whether the model writes trees."""
        return self.streams[OUTPUT] == "trees"


class Translation(BaseTask):
    """Task of translating a sentence into another language (sections 5 and 6.1)."""

    streams: ClassVar[Mapping[str, str]] = {"source": "text", OUTPUT: "text"}
    command = "decode"
    scores = ("bleu", "paper_bleu", "chrf", "ter", "perplexity")
    kind: Literal["translation"]
    """Translate sentences (section 6.1)."""


class Parsing(BaseTask):
    """Task of writing the constituency tree of a sentence as a sequence (section 6.3)."""

    streams: ClassVar[Mapping[str, str]] = {"source": "text", OUTPUT: "trees"}
    command = "parse"
    scores = ("f1", "perplexity")
    kind: Literal["parsing"]
    """Parse sentences into constituency trees (section 6.3)."""
    linearisation: Literal["vinyals", "tensor2tensor", "initials"]
    """How a tree is written as a sequence (section 6.3 cites Vinyals et al. 2015). vinyals: `(S (NP XX )NP )S`, with XX
    for each word. tensor2tensor (the code of the paper's authors): `S NP NNP /NP /S`, with each word's part of speech.
    initials: `(S (NP J )NP )S`, with each word's first character."""
    constrained: bool
    """Whether decoding is restricted to valid trees over the words of the sentence (not in the paper). If false,
    invalid output is repaired afterwards."""


class LanguageModelling(BaseTask):
    """Task of predicting the next token of a text. The model has a decoder only (not in the paper)."""

    streams: ClassVar[Mapping[str, str]] = {OUTPUT: "text"}
    command = "decode"
    scores = ("perplexity",)
    kind: Literal["language_modelling"]
    """Predict the next token of a text, without reading a source (not in the paper)."""


Task = Annotated[Translation | Parsing | LanguageModelling, Field(discriminator="kind")]
TASKS: Mapping[str, type[BaseTask]] = {
    "translation": Translation,
    "parsing": Parsing,
    "language_modelling": LanguageModelling,
}
"""Classes of tasks, by kind."""
