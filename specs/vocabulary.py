"""The section `vocabulary`: word tokens, and the four that every vocabulary begins with."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Section, broken_rule

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""Ids of padding, the unknown token, the beginning and the end of a sentence."""


class Vocabulary(Section):
    """Word tokens learned by SentencePiece from the training text (section 5.1)."""

    kind: Literal["bpe", "unigram"] = Field(
        description="How tokens are learned (5.1: byte pairs for EN-DE): byte-pair merges or a unigram model; a choice."
    )
    size: Annotated[int, Field(gt=EOS + 1)] = Field(
        le=1_048_576,
        description="V (5.1: about 37,000 for EN-DE, 32,000 for EN-FR), the four special tokens included; tokens.",
    )
    target_size: Annotated[int, Field(gt=EOS + 1, le=1_048_576)] | None = Field(
        description="V of the target, where it has a vocabulary of its own and of another size (no letter), the four "
        "special tokens included; null: `size`; tokens. A parser's are the brackets of its trees."
    )
    byte_fallback: bool = Field(
        description="Characters without a token are spelled in bytes (no letter); true or false. The bytes take 256 of "
        "the tokens, and the rarest 1 in 10,000 characters of the text are spelled so, too, which teaches them. Else "
        "each character of the text has a token, and all others are unknown."
    )
    shared: bool = Field(
        description="One vocabulary for source and target (5.1: shared), or one for each; true or false."
    )

    separate_models: bool = Field(
        description="Each side is cut into tokens by a SentencePiece model of its own, though both have the same V "
        "tokens in the same order (no letter; OPUS-MT's); true or false. Such a vocabulary is imported, never learned."
    )

    @property
    def sizes(self) -> tuple[int, int]:
        """V of the source and of the target."""
        return self.size, self.size if self.target_size is None else self.target_size

    @model_validator(mode="after")
    def _one_vocabulary_has_one_size(self) -> Self:
        if self.shared and self.target_size is not None:
            broken_rule(
                "target_size",
                "shared",
                problem=f"`vocabulary.target_size` is {self.target_size:,}, but `vocabulary.shared` is true: one "
                "vocabulary has one size",
                hint="write `vocabulary: {shared: false}`, or `target_size: null`",
            )
        return self

    @model_validator(mode="after")
    def _separate_models_share_their_pieces(self) -> Self:
        if self.separate_models and not self.shared:
            broken_rule(
                "separate_models",
                "shared",
                problem="`vocabulary.separate_models` is true, but `vocabulary.shared` is false: two vocabularies have "
                "a model each as it is",
                hint="write `vocabulary: {separate_models: false}`",
            )
        return self
