"""Source and target language of a request, and the language tokens that specify them for a multilingual model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import eq

from specs import Languages, Spec, ZooError
from specs.corpus import Direction
from specs.sections import suggest_language
from zoo.report import Report
from zoo.text.language_codes import CODES_OF_NAMES, UNKNOWN, best_match
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary

_MAX_LISTED = 12


@dataclass(frozen=True, slots=True)
class LanguagePair:
    """Languages of a text and its translation, and the language tokens that the model needs for them.

    Attributes:
        source: Code of the source language.
        target: Code of the target language.
        source_tokens: IDs of the language tokens to put before the text.
        target_tokens: IDs of the language tokens that the translation must start with.
    """

    source: str
    target: str
    source_tokens: tuple[int, ...] = ()
    target_tokens: tuple[int, ...] = ()

    def tokens_of(self, stream: str) -> tuple[int, ...]:
        """Return the IDs of the language tokens at the beginning of the source or of the target.

        `stream` is `source` or `target`.
        """
        return self.source_tokens if stream == "source" else self.target_tokens

    @classmethod
    def of(cls, spec: Spec, vocabulary: Vocabulary, direction: Direction, tag: str | None = None) -> LanguagePair:
        """Find the language tokens for a translation direction.

        Args:
            spec: Spec of the model.
            vocabulary: Vocabulary of the model.
            direction: Codes of the source and target language.
            tag: Tag of a part of the corpus. If given, the token for the tag precedes the source's language tokens.

        Raises:
            ZooError: The vocabulary has no token for one of the languages, or for the tag.
        """
        source, target = direction
        tags = () if tag is None else (_tag_id(vocabulary.source, tag),)
        languages = spec.languages
        if languages is None:
            return cls(source, target, tags)
        assert isinstance(vocabulary.target, Tokenizer)
        of_source = {"source": source, "target": target, None: None}[languages.source_token]
        of_target = target if languages.target_token else None
        source_tokens = (*tags, *_ids(vocabulary.source, languages, of_source))
        return cls(source, target, source_tokens, _ids(vocabulary.target, languages, of_target))


def _tag_id(tokenizer: Tokenizer, tag: str) -> int:
    if (id := tokenizer.id_of(tag)) is None:
        hint = "train without `training.start_from`, or without tags in `corpus.train`"
        raise ZooError(f"the vocabulary has no token for the tag `{tag}` in `corpus.train`", hint=hint)
    return id


def _ids(tokenizer: Tokenizer, languages: Languages, code: str | None) -> tuple[int, ...]:
    if code is None:
        return ()
    token = languages.token_of(code)
    if (id := tokenizer.id_of(token)) is None:
        hint = "correct `languages` in the model's spec, or learn a new vocabulary with this spec"
        raise ZooError(f"the vocabulary has no token `{token}` for the language `{code}`", hint=hint)
    if tokenizer.model.is_control(id):
        return (id,)
    # A token that can be part of a text is encoded as text: in MADLAD-400, the token `▁` precedes `<2de>`.
    return tuple(tokenizer.model.encode(token))


def choose_direction(spec: Spec, source: str | None, target: str | None, report: Report) -> Direction:
    """Return the source and target language of a request. A language that the user did not specify comes from the spec.

    If the model has only two languages, the user need only specify one of them. If the model does not read a token for
    the source language, the user need not specify the source language.

    A recognition model outputs text in the target language of the spec's corpus by default. If only the language of the
    input files is given, the output is in a language that the model was trained to write for this input language.

    Args:
        spec: Spec of the model.
        source: Language code of the text, if given.
        target: Language code of the translation, if given.
        report: Receives a warning if the model was not trained for this translation direction.

    Raises:
        ZooError: A language is missing or unknown.
        TypeError: A language is not a string.
    """
    for code in (source, target):
        if not isinstance(code, str | None):
            raise TypeError(f"a language is a string such as `de`, not {code!r}")
    languages, source = spec.languages, None if source == UNKNOWN else source
    if languages is None:
        own = spec.corpus.source, spec.corpus.target
        for name, given, code in (("from", source, own[0]), ("to", target, own[1])):
            if given is None or code == UNKNOWN or best_match(given, (code,)):
                continue
            if not spec.reads_text:
                verb = "reads" if name == "from" else "writes"
                hint = "omit the language, or use a model that was trained on this language"
                raise ZooError(f"`{spec.name}` {verb} the language `{code}`, not `{given}`", hint=hint)
            problem = f"`{spec.name}` translates from `{own[0]}` to `{own[1]}` only, not {name} `{given}`"
            command = f"`zoo list --available {source or own[0]}-{target or own[1]}`"
            hint = f"omit the languages, or use a model for these languages; run {command} to list public models"
            raise ZooError(problem, hint=hint)
        return own
    source = source and (best_match(source, languages.codes) or source)
    target = target and (best_match(target, languages.codes) or target)
    for given in (source, target):
        if given is not None and given not in languages.codes:
            hint = suggest_language(CODES_OF_NAMES.get(given.lower(), given), languages)
            raise ZooError(f"`{spec.name}` does not support the language `{given}`", hint=hint)
    learned = list(map(spec.corpus.direction, spec.corpus.train))
    if not spec.reads_text:
        source, target = _direction_of_files(spec, source, target, learned)
    target = target or _other(languages, source)
    source = source or _other(languages, target)
    if target is None:
        raise ZooError(
            f"`{spec.name}` translates into {len(languages.codes)} languages, but no target language was given",
            hint=f"specify it with `--to CODE` (in Python: `target=`): {languages.listed(_MAX_LISTED)}",
        )
    if source is None:
        if languages.source_token == "source":
            problem = f"`{spec.name}` reads {len(languages.codes)} languages, and the language of the text is not given"
            hint = f"specify it with `--from CODE` (in Python: `source=`): {languages.listed(_MAX_LISTED)}"
            raise ZooError(problem, hint=hint)
        return UNKNOWN, target
    if learned and (source, target) not in learned:
        problem = f"the training text of `{spec.name}` has no translations from `{source}` to `{target}`"
        expected = "a poor translation, or a translation into another language"
        if not spec.reads_text:
            stream = spec.task.streams["source"]
            problem = f"`{spec.name}` was not trained on {stream} in `{source}` with text in `{target}`"
            expected = "poor text, or text in another language"
        report.warn(f"{problem}: expect {expected}")
    return source, target


def _direction_of_files(spec: Spec, source: str | None, target: str | None, learned: Sequence[Direction]) -> Direction:
    """Return the language of a recognition model's input files, and the language of its output text.

    A language that is not given comes from the spec's corpus. If the model was not trained on the resulting
    language pair, the missing language comes from a pair that the model was trained on.
    """
    own = spec.corpus.source, spec.corpus.target
    target = own[1] if source is None and target is None else target
    suitable = [pair for pair in learned if source in (None, pair[0]) and target in (None, pair[1])]
    return max(suitable, key=lambda pair: sum(map(eq, pair, own)), default=(source or own[0], target or own[1]))


def _other(languages: Languages, code: str | None) -> str | None:
    """Return a bilingual model's language that is not `code`. Return None for other models, or if `code` is None."""
    pair = languages.codes if code is not None and len(languages.codes) == 2 else ()
    return next((each for each in pair if each != code), None)
