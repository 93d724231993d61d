"""A spec: everything there is to know about a model and its training, as frozen data."""

from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, model_validator

from specs.architecture import Architecture
from specs.compilation import Compilation
from specs.corpus import Corpus, Grammar, HeldOut, Treebank
from specs.decoding import Decoding
from specs.history import FORMAT, WRITTEN_BY
from specs.notation import dump
from specs.section import Section, broken_rule
from specs.task import SCORES, Parsing, Task
from specs.training import Training
from specs.vocabulary import EOS, Vocabulary

# Letters, digits and - _ . , only; no two dots in a row, so that a name is never a way out of a folder.
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-_,A-Za-z0-9]|\.[-_,A-Za-z0-9])*$", max_length=100)]
ENTITLING = ("name", "description", "licence")
"""Fields that say of a model what it is called, and nothing of what it is."""
Licence = Annotated[str, Field(min_length=1, max_length=200)]


class Spec(Section):
    """One model, declared. Two specs are equal when all their fields are, wherever they were read from."""

    name: Name = Field(description="Name the trained model is published under: letters, digits and - _ . , only; text.")
    description: str = Field(max_length=10_000, description="What this spec is, in one short sentence; text.")
    licence: Licence | None = Field(
        description="Licence under which its weights may be used, for its card: an SPDX name such as CC-BY-4.0, or "
        "words; null: none is said; text."
    )
    task: Task = Field(description="What is learned: to translate (6.1), or to parse (6.3).")
    architecture: Architecture = Field(description="The network (section 3).")
    vocabulary: Vocabulary = Field(description="Word tokens (section 5.1).")
    corpus: Corpus = Field(description="Sentence pairs (section 5.1), or trees (6.3).")
    training: Training = Field(
        description="Batches, optimiser, schedule, regularisation, checkpoints (sections 5, 6.1)."
    )
    decoding: Decoding = Field(description="Beam search (section 6.1), or sampling.")
    compilation: Compilation = Field(description="How the graph becomes a program (not in the paper).")

    _short: str | None = PrivateAttr(default=None)
    _named: bool = PrivateAttr(default=True)

    @property
    def short(self) -> str:
        """The catalogue's name ("big", "table3/a-h1"), a file's stem, or, where neither is known, `name`."""
        return self.name if self._short is None else self._short

    @property
    def named(self) -> bool:
        """Whether `name` is its own: False where it has it from the spec that it extends."""
        return self._named

    def yaml(self, version: str | None = None) -> str:
        """The whole spec, and its format, as YAML that needs no other file and that YAML 1.1 and 1.2 read alike.

        `version` is that of the zoo that writes it into a file, which then says so.
        """
        header = "" if version is None else f"{WRITTEN_BY}{version}\n"
        return header + dump({"format": FORMAT, **self.model_dump(mode="json")})

    def called(self, short: str, *, named: bool = True) -> Self:
        """The same spec under the short name `short`; `named` says whether its `name` is its own."""
        spec = self.model_copy()
        spec._short, spec._named = short, named
        return spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spec) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))

    def __repr_args__(self) -> Any:
        yield None, self.short

    @model_validator(mode="after")
    def _corpus_has_what_the_task_learns(self) -> Self:
        parsing, corpus = isinstance(self.task, Parsing), self.corpus
        for split in ("train", "dev", "test"):
            for index, part in enumerate(getattr(corpus, split)):
                if not isinstance(part, (Grammar, HeldOut)) and isinstance(part, Treebank) is not parsing:
                    learned, keys = ("trees", "trees") if parsing else ("pairs of sentences", "source and target")
                    broken_rule(
                        f"corpus.{split}.{index}",
                        "task.kind",
                        problem=f"`task.kind` is `{self.task.kind}`, which learns from {learned}, and this part of "
                        f"`corpus.{split}` has none",
                        hint=f"give the part {keys}, or write another `task`",
                    )
        grammar = any(isinstance(part, Grammar) for part in corpus.parts)
        languages, wanted = (corpus.source, corpus.target), ("en", "en" if parsing else "de")
        if grammar and languages != wanted:
            what = "English trees" if parsing else "English to German"
            broken_rule(
                "corpus.source",
                "corpus.target",
                problem=f"the built-in corpus is {what}, not `{languages[0]}` to `{languages[1]}`",
                hint=f"write `source: {wanted[0]}` and `target: {wanted[1]}`, or parts of another kind than `grammar`",
            )
        return self

    @model_validator(mode="after")
    def _parsers_have_a_vocabulary_of_brackets(self) -> Self:
        if isinstance(self.task, Parsing) and self.vocabulary.shared:
            broken_rule(
                "vocabulary.shared",
                "task.kind",
                problem="`task.kind` is `parsing`, whose target is brackets and no text, but `vocabulary.shared` is "
                "true",
                hint="write `vocabulary: {shared: false, target_size: 256}`",
            )
        return self

    @model_validator(mode="after")
    def _dev_score_is_one_of_the_task(self) -> Self:
        score, own = self.training.dev_score, SCORES[self.task.kind]
        if score is not None and score not in own:
            broken_rule(
                "training.dev_score",
                "task.kind",
                problem=f"`training.dev_score` is `{score}`, which is no score of the task `{self.task.kind}`",
                hint=f"write `{own[0]}`, or `perplexity`",
            )
        return self

    @model_validator(mode="after")
    def _one_matrix_needs_one_vocabulary(self) -> Self:
        if self.architecture.tied_embeddings == "all" and not self.vocabulary.shared:
            broken_rule(
                "vocabulary.shared",
                "architecture.tied_embeddings",
                problem="`architecture.tied_embeddings` is `all`, but `vocabulary.shared` is false: "
                "two vocabularies cannot share one matrix",
                hint="write `vocabulary: {shared: true}`, or `architecture: {tied_embeddings: target}`",
            )
        return self

    @model_validator(mode="after")
    def _what_is_barred_is_a_piece_and_not_the_end(self) -> Self:
        size, suppressed = self.vocabulary.sizes[1], self.decoding.suppressed_tokens
        if EOS in suppressed:
            broken_rule(
                "decoding.suppressed_tokens",
                problem=f"`decoding.suppressed_tokens` has {EOS}, EOS: nothing would end",
                hint="leave it out",
            )
        if suppressed and (most := max(suppressed)) >= size:
            broken_rule(
                "decoding.suppressed_tokens",
                "vocabulary.size",
                problem=f"`decoding.suppressed_tokens` has {most:,}, but the target has {size:,} tokens, counted from 0",
                hint="leave it out",
            )
        return self

    @model_validator(mode="after")
    def _every_training_position_has_a_row(self) -> Self:
        rows, longest = self.architecture.max_positions, self.corpus.max_length
        if self.architecture.positional_encoding == "learned" and rows <= longest:
            broken_rule(
                "architecture.max_positions",
                "corpus.max_length",
                "architecture.positional_encoding",
                problem=f"`architecture.max_positions` ({rows}) has no row for the EOS of a sentence of "
                f"`corpus.max_length` ({longest}) tokens",
                hint=f"raise `architecture.max_positions`, or lower `corpus.max_length` below {rows}",
            )
        return self

    @model_validator(mode="after")
    def _longest_pair_fits_into_a_step(self) -> Self:
        for side in ("source_tokens", "target_tokens"):
            budget = getattr(self.training, side)
            if budget <= self.corpus.max_length:
                broken_rule(
                    f"training.{side}",
                    "corpus.max_length",
                    problem=f"`training.{side}` ({budget}) has no room for a sentence of `corpus.max_length` "
                    f"({self.corpus.max_length}) tokens and its EOS",
                    hint=f"raise `training.{side}`, or lower `corpus.max_length` below {budget}",
                )
        return self
