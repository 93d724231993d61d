"""Language models: programs without an encoder, which continue a prompt and score texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, Unpack

from specs import ZooError
from zoo.generation.config import GenerationOptions
from zoo.generation.preprocessing import EncodedText, Preprocessor
from zoo.generation.translation import SearchInput, Translation
from zoo.generation.translator import Translator
from zoo.text.languages import LanguagePair
from zoo.text.sentences import checked_texts, excerpt


class LanguageModel(Translator):
    """Model that continues prompts, and computes the probability of texts.

    The texts of `hypotheses`, `submit` and `zoo decode` are prompts, with which the output begins. An empty prompt
    gives a text from its beginning.
    """

    verb = "generate"

    def generate(
        self, prompts: Iterable[str], *, n_best: int | None = None, **options: Unpack[GenerationOptions]
    ) -> list[list[Translation]]:
        """Return continuations of each prompt, with the prompt, and their scores.

        Args:
            prompts: The prompts, each of one line. A prompt may be empty.
            n_best: Number of continuations of each prompt. None: one.
            **options: Generation options, such as `search="sample"`. Defaults come from the spec.

        Raises:
            ZooError: An option is out of range, or a prompt is too long or has characters that the model cannot
                generate.
        """
        return self.hypotheses(prompts, n_best=n_best, **options)

    def score(self, texts: Iterable[str], *, max_batch_tokens: int | None = None) -> list[float]:  # type: ignore[override]
        """Return the natural log-probability of each text, with EOS.

        Args:
            texts: The texts, each of one line.
            max_batch_tokens: Maximum number of tokens in a batch, with padding. None for the default.
        """
        return [score.log_probability for score in self.score_tokens(texts, max_batch_tokens=max_batch_tokens)]

    def check_examples(self, *texts: Iterable[str], first: int = 1) -> tuple[list[str], ...]:
        """Check the texts to score, and return them.

        Raises:
            ZooError: A text is not one line.
        """
        (lines,) = texts
        return (checked_texts(lines),)

    def preprocessor(
        self, source: str | None = None, target: str | None = None, *, split: bool = False, protect: bool = False
    ) -> Preprocessor:
        """Return a new preprocessor for prompts, which are never split. The arguments have no effect."""
        corpus = self.spec.corpus
        languages = LanguagePair(corpus.source, corpus.target)
        return PromptPreprocessor(self.vocabulary, self.spec, self.positions, None, self.report, languages)

    def align(self, *_: Any, **__: Any) -> NoReturn:
        """Raise ZooError, because a language model has no source to align with."""
        raise ZooError(f"`{self.spec.name}` is a language model, so no text is aligned", hint="use a translation model")

    def attention(self, *_: Any, **__: Any) -> NoReturn:
        """Raise ZooError, because attention is only shown between a source and its output."""
        problem = f"`{self.spec.name}` is a language model, and only attention over a source and its output is shown"
        raise ZooError(problem, hint="use a translation model or a parser")


class PromptPreprocessor(Preprocessor):
    """Preprocessor for language models. Each text is a prompt, with which the output begins."""

    unknown_effect = None  # a prompt with unknown characters is an error

    def encode(self, text: str, prefix: str, index: int) -> EncodedText:
        """Encode a prompt for the search.

        Raises:
            ZooError: A prefix is given, or the prompt is too long or has characters that the model cannot generate.
        """
        if prefix.strip():
            problem = (
                f"text {index + 1:,} has the prefix {excerpt(prefix)}, but a language model continues the text itself"
            )
            raise ZooError(problem, hint="leave prefixes out, and write the beginning of the output as the text")
        prompt = self._encode_prefix(text, index)
        limit = self.max_source_length
        if len(prompt) > limit:
            problem = f"the prompt {excerpt(text)} has {len(prompt):,} tokens, but may have at most {limit:,}"
            raise ZooError(
                problem, hint="shorten the prompt, or raise `decoding.max_source_length` in the model's spec"
            )
        part = SearchInput(index, {}, self._max_target_length(len(prompt)), prompt, text.strip())
        return EncodedText(index, text, (part,), len(prompt))
