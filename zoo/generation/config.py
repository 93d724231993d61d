"""Search options: a caller's generation options, completed with the defaults in the model's spec."""

from __future__ import annotations

from numbers import Integral
from operator import index
from typing import Annotated, Literal, Self, TypedDict

from pydantic import Field, ValidationError, field_validator

from specs import Spec, ZooError
from specs.notation import quote
from specs.sections import Decoding
from zoo.generation.beam_search import BeamSearch
from zoo.generation.constraints import Constraint, SuppressedTokens
from zoo.generation.sampling import Sampling
from zoo.models.shortlist import Shortlist

DEFAULT_MAX_BATCH_TOKENS = 4096
"""Default for the maximum number of source tokens in a batch, including EOS and padding."""
_MAX_TOKENS = 100_000_000

LARGE_BEAM = 100
"""Number of hypotheses per sentence above which a message warns how much longer the search takes."""


class GenerationOptions(TypedDict, total=False):
    """Options for decoding. If an option is missing or None, the value in the spec's `decoding` section is used.

    The default of `seed` is the spec's `training.seed`. The default of `max_batch_tokens` is
    `DEFAULT_MAX_BATCH_TOKENS`. If a call sets `max_batch_tokens` or `workers` to a value that differs from the
    translator's value, the call uses separate worker threads.
    """

    search: str | None
    beam: int | None
    alpha: float | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    shortlist: bool | None
    max_batch_tokens: int | None
    workers: int | Literal["auto"] | None


class LanguageOptions(TypedDict, total=False):
    """Source and target language of a request, for a multilingual model."""

    source: str | None
    """Code of the source language.

    The code can be omitted if the model has only two languages and `target` is given, or if the model does not read a
    token for the source language.
    """
    target: str | None
    """Code of the target language."""


class TranslationOptions(GenerationOptions, LanguageOptions, total=False):
    """Options for `Translator.translate`: languages, sentence splitting, decoding, protection of numbers and links."""

    split: bool
    """Whether to translate each sentence in a text separately. Default: true.

    This only applies if the model was trained on single sentences and the text has no prefix. The white space between
    the sentences is kept. If false, only a text that is too long for the model is split.
    """

    protect: bool
    """Whether to keep amounts, dates, links, placeholders and the like, and texts without letters. Default: true.

    This only applies to translation between natural languages. If a beam search with `n_best=1` loses or changes such
    an item, the sentence is translated again. `Translation.unkept` lists the remaining differences.
    """


class GenerationConfig(Decoding):
    """All options for decoding: the values in the spec's `decoding` section, overridden by the caller's options.

    Attributes:
        seed: Random seed for sampling.
        max_batch_tokens: Maximum number of source tokens in a batch, including EOS and padding.
        n_best: Number of hypotheses per sentence.
        vocabulary_size: Size of the target vocabulary.
    """

    seed: Annotated[int, Field(ge=0, lt=2**63)]
    max_batch_tokens: Annotated[int, Field(ge=1, le=_MAX_TOKENS)]
    n_best: Annotated[int, Field(ge=1, le=10_000)]
    vocabulary_size: int

    @field_validator("*", mode="before")
    @classmethod
    def _convert_integer(cls, value: object) -> object:
        """Convert integers from other libraries, such as NumPy, to Python integers."""
        return index(value) if isinstance(value, Integral) and not isinstance(value, bool) else value

    @classmethod
    def from_spec(cls, spec: Spec, options: GenerationOptions, n_best: int | None = None) -> Self:
        """Complete a caller's options with values from the spec.

        Args:
            spec: Spec of the model.
            options: The caller's options.
            n_best: Number of hypotheses per sentence. Default: 1.

        Raises:
            ZooError: A value is out of range, or an option has no effect on this kind of search.
        """
        given = {name: value for name, value in options.items() if value is not None}
        values = {
            **spec.decoding.model_dump(),
            "seed": spec.training.seed,
            "max_batch_tokens": DEFAULT_MAX_BATCH_TOKENS,
            "n_best": 1 if n_best is None else n_best,
            "vocabulary_size": spec.vocabulary.sizes[1],
        }
        try:
            config = cls.model_validate({**values, **given})
        except ValidationError as invalid:
            error = invalid.errors()[0]
            message = error["msg"].removeprefix("Input should be ")
            raise ZooError(f"`{error['loc'][0]}` is {quote(error['input'])}; it should be {message}") from None
        if config.search == "beam" and config.n_best > config.beam:
            raise ZooError(
                f"`n_best` is {config.n_best}, but a beam of {config.beam} finds at most {config.beam} hypotheses",
                hint=f"set the beam to {config.n_best}, or `n_best` to at most {config.beam}",
            )
        unused = ("beam",) if config.search == "sample" else ("temperature", "top_k", "top_p", "seed")
        for name in unused:
            if name in given:
                other = "beam" if config.search == "sample" else "sample"
                raise ZooError(
                    f"`{name}` has no effect when `search` is `{config.search}`",
                    hint=f"omit `{name}`, or set `search` to `{other}`",
                )
        return config

    @property
    def rows(self) -> int:
        """The number of hypotheses per sentence that the search extends at the same time."""
        return self.beam if self.search == "beam" else self.n_best

    def strategy(
        self, constraint: Constraint | None = None, shortlist: Shortlist | None = None
    ) -> BeamSearch | Sampling:
        """Return the search strategy that these options describe.

        Args:
            constraint: Constraint that all outputs must satisfy.
            shortlist: Vocabulary shortlist of the model. It is only used if the `shortlist` option is true.
        """
        if self.suppressed_tokens or self.min_length:
            constraint = SuppressedTokens(self.suppressed_tokens, self.vocabulary_size, constraint, self.min_length)
        if not self.shortlist:
            shortlist = None
        if self.search == "beam":
            penalty, rule = self.length_penalty, self.stopping_rule
            return BeamSearch(self.beam, self.alpha, self.n_best, constraint, penalty, rule, shortlist)
        distribution = (self.temperature, self.top_k, self.top_p)
        return Sampling(self.n_best, self.alpha, *distribution, self.seed, constraint, self.length_penalty, shortlist)
