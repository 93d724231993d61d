"""Translators and language models, which generate and score texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import starmap
from typing import TYPE_CHECKING, Self, Unpack, overload

from compiler.lazy import no_grad
from specs import ZooError
from specs.sections import OUTPUT
from zoo.generation.alignment import AlignedToken, align
from zoo.generation.attention import END, Attention, compute_attention
from zoo.generation.config import GenerationOptions, LanguageOptions, TranslationOptions
from zoo.generation.ensemble import Ensemble, check_compatible
from zoo.generation.preprocessing import PromptPreprocessor
from zoo.generation.scoring import TokenScores, score_targets
from zoo.generation.text_search import Prefixes, TextSearch
from zoo.generation.text_stream import InputWarnings
from zoo.generation.translation import Translation
from zoo.report import Report
from zoo.text.lines import clean
from zoo.text.sentences import check_text, checked_pairs, checked_texts

if TYPE_CHECKING:
    from compiler import EmittedProgram


class Translator(TextSearch):
    """Model that translates raw text and scores given translations.

    Results are in the order of the texts. The translation of an empty text is "". A model that was trained on single
    sentences translates each sentence in a text separately.

    Several threads can use a translator at the same time. Sentences from different calls can then be in the same batch.
    A translator that was opened from a folder can be pickled, and unpickling opens the folder again. A forked child
    process can use its parent's translator, but torch then computes on one thread.
    """

    def __reduce__(self) -> tuple[Callable[[], Translator], tuple[()]]:
        if self.reopen is None:
            raise ZooError(
                "this translator was created from a compiled model, so it cannot be pickled",
                hint="open the model with `zoo.load(NAME)`",
            )
        return self.reopen, ()

    def require_attention(self) -> Callable[[], EmittedProgram]:
        """Return the function that compiles a model that outputs attention weights.

        Raises:
            ZooError: The translator is an ensemble or was created from a compiled model.
        """
        if self.attention_program is None:
            problem = "attention weights are only available for a single model that was opened from a folder"
            raise ZooError(problem, hint="open a single model with `zoo.load(NAME)`")
        return self.attention_program

    @classmethod
    def ensemble(cls, translators: Sequence[Self]) -> Self:
        """Return a translator that averages the probabilities of several models.

        If `translators` contains only one translator, return it unchanged. Otherwise, the spec, the vocabulary and the
        default settings are taken from the first translator.

        Raises:
            ZooError: No translator is given, or the translators have different vocabularies or devices.
        """
        check_compatible(translators)
        first = translators[0]
        if len(translators) == 1:
            return first
        can_reopen = all(translator.reopen for translator in translators)
        return replace(
            first,
            program=Ensemble([translator.program for translator in translators]),
            longest_source=_min_known(each.longest_source for each in translators),
            positions=_min_known(each.positions for each in translators),
            reopen=partial(cls.ensemble, list(translators)) if can_reopen else None,
            shortlist=None,
            calibration=None,
            alignment_head=None,
            attention_program=None,
        )

    # mypy checks overloads in order, and str is also an Iterable[str]: str has to come first.
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: None = None, prefixes: str | None = None, **options: Unpack[TranslationOptions]
    ) -> str: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, n_best: int, prefixes: str | None = None, **options: Unpack[TranslationOptions]
    ) -> list[str]: ...
    @overload
    def translate(
        self,
        texts: Iterable[str],
        *,
        n_best: None = None,
        prefixes: Prefixes = None,
        **options: Unpack[TranslationOptions],
    ) -> list[str]: ...
    @overload
    def translate(
        self, texts: Iterable[str], *, n_best: int, prefixes: Prefixes = None, **options: Unpack[TranslationOptions]
    ) -> list[list[str]]: ...
    def translate(
        self,
        texts: str | Iterable[str],
        *,
        n_best: int | None = None,
        prefixes: str | Iterable[str] | None = None,
        **options: Unpack[TranslationOptions],
    ) -> str | list[str] | list[list[str]]:
        """Translate one or more texts.

        Args:
            texts: One text, or an iterable of texts. Each text is a single line.
            n_best: Number of translations per text. Beam search returns the best translations, best first. Their tokens
                differ, but two translations may have the same text. Sampling returns samples in random order.
            prefixes: The prefix that each translation must start with: a string for one text, a list for several texts.
            **options: Options for languages, sentence splitting and the search (see `TranslationOptions`). Defaults
                come from the spec.

        Returns:
            For one text, the best translation or, if `n_best` is given, a list of translations. For several texts, a
            list of such results.

        Raises:
            ZooError: An option is out of range, a text is too long or not one line, the model cannot generate a prefix,
                or a language is missing or unknown.
            TypeError: A text is not a string, or one text has several prefixes.
        """
        if isinstance(texts, str) and isinstance(prefixes, str | None):
            prefix_list = None if prefixes is None else [prefixes]
            return self.translate([texts], n_best=n_best, prefixes=prefix_list, **options)[0]
        if isinstance(texts, str) or isinstance(prefixes, str):
            raise TypeError("pass one text and one prefix, or a list of texts and a list of prefixes")
        hypotheses = self.hypotheses(texts, n_best=n_best, prefixes=prefixes, **options)
        lists = [[translation.text for translation in translations] for translations in hypotheses]
        if n_best is not None:
            return lists
        return [best for best, *_ in lists]

    @overload
    def score(  # type: ignore[overload-overlap]
        self, sources: str, targets: str, *, max_batch_tokens: int | None = None, **languages: Unpack[LanguageOptions]
    ) -> float: ...
    @overload
    def score(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        max_batch_tokens: int | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> list[float]: ...
    def score(
        self,
        sources: str | Iterable[str],
        targets: str | Iterable[str],
        *,
        max_batch_tokens: int | None = None,
        **languages: Unpack[LanguageOptions],
    ) -> float | list[float]:
        """Return the natural log-probability of each target, including its EOS, given its source.

        Args:
            sources: One text, or several texts.
            targets: The translation of each text.
            max_batch_tokens: Maximum number of tokens in a batch, including padding. None for the translator's default.
            **languages: Language codes, for a multilingual model (see `LanguageOptions`).

        Raises:
            ZooError: The numbers of sources and targets differ, or a source is empty and the model appends no EOS.
            TypeError: Only one of the arguments is a string.
        """
        if isinstance(sources, str) and isinstance(targets, str):
            return self.score([sources], [targets], max_batch_tokens=max_batch_tokens, **languages)[0]
        if isinstance(sources, str) or isinstance(targets, str):
            raise TypeError("pass one text and one translation, or a list of texts and a list of translations")
        scores = self.score_tokens(sources, targets, max_batch_tokens=max_batch_tokens, **languages)
        return [score.log_probability for score in scores]

    def score_tokens(
        self,
        *texts: Iterable[str],
        source: str | None = None,
        target: str | None = None,
        max_batch_tokens: int | None = None,
        report: Report | None = None,
        first: int = 1,
    ) -> list[TokenScores]:
        """Return the log-probability of each token in the given translations.

        Args:
            *texts: Two arguments: the sources and their translations. For a language model, one argument: the texts.
            source: Language code of the sources (see `LanguageOptions`).
            target: Language code of the translations.
            max_batch_tokens: Maximum number of tokens in a batch, including padding. None for the translator's default.
            report: Receives the progress.
            first: Number of the first pair in error messages.

        Raises:
            ZooError: The same errors as `score`.
        """
        checked = self.check_examples(*texts, first=first)
        preprocessor, streams = self.preprocessor(source, target), self.spec.task.streams
        if self.vocabulary.copy_symbols:
            pairs = list(starmap(preprocessor.replaced_pair, zip(*checked, strict=True)))
            checked = [source.text for source, _ in pairs], [target.text for _, target in pairs]
        numbers = range(first, first + len(checked[0]))
        ids = {
            name: preprocessor.encode_pairs_side(lines, "source" if name == "source" else "target", numbers=numbers)
            for name, lines in zip(streams, checked, strict=True)
        }
        with (report or Report()).progress("score", len(checked[0]), "sentences") as progress:
            batch_tokens = self.batch_tokens(max_batch_tokens)
            return score_targets(self, ids.get("source"), ids[OUTPUT], batch_tokens, progress, first)

    def check_examples(self, *texts: Iterable[str], first: int = 1) -> tuple[list[str], ...]:
        """Check sources and their translations before scoring. Return the list of sources and the list of translations.

        Args:
            texts: Two iterables: the sources and their translations.
            first: Number of the first pair in error messages.

        Raises:
            ZooError: The numbers of sources and targets differ, or a text has more than one line.
        """
        sources, targets = texts
        return checked_pairs(sources, targets, first=first)

    def align(
        self,
        sources: Iterable[str],
        targets: Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        report: Report | None = None,
        first: int = 1,
    ) -> list[list[AlignedToken]]:
        """Align each token of given translations to a source token.

        A token is aligned to the source token that it attends to most, in the attention head that aligned words best on
        the dev set when the weights were averaged. If this head is not known, the mean of all heads in the
        second-to-last decoder layer is used. Tokens that mostly attend to the EOS of the source are omitted. Texts of
        several sentences are aligned sentence by sentence if the translation has the same number of sentences.

        Args:
            sources: The texts.
            targets: The translation of each text.
            source: Language code of the texts (see `LanguageOptions`).
            target: Language code of the translations.
            report: Receives the progress.
            first: Number of the first pair in error messages.

        Returns:
            The aligned tokens in each translation, in order. Positions are character offsets in the given strings.

        Raises:
            ZooError: The same errors as `score`, or the model is a parser or an ensemble, or its decoder has no
                cross-attention.
            TypeError: An argument is a single string instead of a list.
        """
        self.spec.require_text("word alignment")
        self.spec.require_source("word alignment")
        source_texts, target_texts = self.check_examples(sources, targets, first=first)
        return align(self, source_texts, target_texts, source, target, report or Report(), first=first)

    @no_grad()
    def attention(
        self, text: str, translation: str | None = None, *, source: str | None = None, target: str | None = None
    ) -> Attention:
        """Return the attention weights of every head in every layer, for a text and its translation.

        Args:
            text: The text.
            translation: The translation or, for a parser, the tree. If None, the model generates it.
            source: Language code of the text (see `LanguageOptions`).
            target: Language code of the translation.

        Raises:
            ZooError: The text is empty or too long to translate as a whole, a language is missing or unknown, or the
                translator is an ensemble or was created from a compiled model.
        """
        self.spec.require_source("attention")
        build_program = self.require_attention()
        check_text(text, 1, "text")
        preprocessor = self.preprocessor(source, target)
        encoded, languages = preprocessor.encode(text, "", 0), preprocessor.languages
        if not encoded.parts:
            raise ZooError("an empty text has no attention weights", hint="enter a sentence")
        preprocessor.require_length("the text", encoded.length, "pass a single sentence")
        source_ids: Sequence[int] = encoded.parts[0].tokens
        target_ids: Sequence[int]
        if translation is None:
            ((best, *_),) = self.hypotheses([text], source=source, target=target, split=False, protect=False)
            output, target_ids = best.text, best.tokens
            replaced = preprocessor.replaced(text, encoded.parts[0].language)
            spellings = {symbol: span.spellings[0] for symbol, span in replaced.spans.items()}
        else:
            _, (output,) = self.check_examples([text], [translation])
            replaced, replaced_output = preprocessor.replaced_pair(text, output)
            (source_ids,) = preprocessor.encode_pairs_side([replaced.text], "source")
            ((_, *target_ids, _),) = preprocessor.encode_pairs_side([replaced_output.text], "target")
            spellings = {symbol: span.text for symbol, span in replaced_output.spans.items()}
            with InputWarnings(preprocessor, self.report) as warnings:
                warnings.count(encoded)
        program, vocabulary = build_program(), self.vocabulary
        language_tokens = vocabulary.token_strings(languages.source_tokens, "source")
        source_tokens = [*language_tokens, *preprocessor.source_tokens(replaced)]
        return compute_attention(
            program,
            (clean(text), source_ids, [*source_tokens, *[END] * (len(source_ids) - len(source_tokens))]),
            (output, target_ids, [spellings.get(token, token) for token in vocabulary.token_strings(target_ids)]),
            forced=translation is not None,
            language_tokens=(len(languages.source_tokens), len(languages.target_tokens)),
        )


class LanguageModel(Translator):
    """Model that continues prompts, and computes the probability of texts.

    The texts for `hypotheses`, `submit` and `zoo decode` are prompts. The output begins with its prompt. If the
    prompt is empty, the model generates a complete text.
    """

    translates = False
    preprocessor_class = PromptPreprocessor

    def generate(
        self, prompts: Iterable[str], *, n_best: int | None = None, **options: Unpack[GenerationOptions]
    ) -> list[list[Translation]]:
        """Continue each prompt. Return the texts, which include the prompt, with their scores.

        Args:
            prompts: The prompts. Each prompt is a single line, and may be empty.
            n_best: Number of texts per prompt. Default: 1.
            **options: Generation options, such as `search="sample"`. Defaults come from the spec.

        Raises:
            ZooError: An option is out of range, or a prompt is too long or has characters that the model cannot
                generate.
        """
        return self.hypotheses(prompts, n_best=n_best, **options)

    def score(self, texts: Iterable[str], *, max_batch_tokens: int | None = None) -> list[float]:  # type: ignore[override]
        """Return the natural log-probability of each text, including its EOS token.

        Args:
            texts: The texts. Each text is a single line.
            max_batch_tokens: Maximum number of tokens in a batch, including padding. None for the default.
        """
        return [score.log_probability for score in self.score_tokens(texts, max_batch_tokens=max_batch_tokens)]

    def check_examples(self, *texts: Iterable[str], first: int = 1) -> tuple[list[str], ...]:
        """Check texts before scoring. Return a tuple with one list, because a language model has no sources.

        Args:
            texts: A single iterable, which contains the texts.
            first: Number of the first text in error messages.

        Raises:
            ZooError: A text has more than one line.
        """
        return (checked_texts(*texts, first=first),)


def _min_known(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)
