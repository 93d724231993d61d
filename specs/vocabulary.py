"""The section `vocabulary`: the subword tokens, and the four special tokens that start every vocabulary."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Section, reject

PAD, UNK, BOS, EOS = 0, 1, 2, 3
"""IDs of the special tokens: padding, unknown token, beginning of sentence and end of sentence."""


class Vocabulary(Section):
    """Options of the subword vocabulary, which SentencePiece learns from the training text (section 5.1)."""

    kind: Literal["bpe", "unigram"]
    """Algorithm that learns the tokens (section 5.1: bpe). bpe: byte-pair encoding. unigram: a unigram language
    model."""
    size: Annotated[int, Field(gt=EOS + 1)] = Field(le=1_048_576)
    """V, the vocabulary size including the four special tokens (section 5.1: about 37,000 for EN-DE, 32,000 for EN-FR).
    Unit: tokens."""
    target_size: Annotated[int, Field(gt=EOS + 1, le=1_048_576)] | None
    """Size of the target vocabulary, if the target has a separate vocabulary of another size (not in the paper). null:
    the same as `size`. A parser's target tokens are the brackets of its trees. Unit: tokens."""
    byte_fallback: bool
    """Whether a character that is not in the vocabulary is encoded as its UTF-8 bytes (not in the paper). 256 tokens of
    the vocabulary are then bytes. The rarest 0.01 % of all characters in the training text get no token of their own,
    so that the byte tokens are trained. If false, every character of the training text gets a token, and any other
    character is unknown."""
    shared: bool
    """Whether source and target share one vocabulary (section 5.1: shared) or each has its own."""

    separate_models: bool
    """Whether source and target have separate SentencePiece models that contain the same tokens in the same order (not
    in the paper, but in OPUS-MT). Such a vocabulary can be imported, but not learned."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Vocabulary sizes of the source and of the target."""
        return self.size, self.size if self.target_size is None else self.target_size

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        if self.shared and self.target_size is not None:
            reject(
                "target_size",
                "shared",
                problem=f"`vocabulary.target_size` is {self.target_size:,}, but `vocabulary.shared` is true: a shared "
                "vocabulary has one size",
                hint="write `vocabulary: {shared: false}`, or `target_size: null`",
            )
        if self.separate_models and not self.shared:
            reject(
                "separate_models",
                "shared",
                problem="`vocabulary.separate_models` is true, but `vocabulary.shared` is false: the field is only for "
                "shared vocabularies",
                hint="write `vocabulary: {separate_models: false}`",
            )
        return self
