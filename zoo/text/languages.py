"""Source and target language of a request, and the tokens that specify them for a model of several languages."""

from __future__ import annotations

from dataclasses import dataclass

from specs import Languages, Spec, ZooError
from specs.corpus import Direction
from specs.sections import suggest_language
from zoo.report import Report
from zoo.text.tokenizer import Tokenizer
from zoo.text.vocabulary import Vocabulary

_PAIRS = (
    "afr:af als:sq amh:am arb:ar asm:as azj:az bel:be ben:bn bod:bo bos:bs bul:bg cat:ca ces:cs cym:cy dan:da deu:de "
    "ell:el eng:en epo:eo est:et eus:eu fin:fi fra:fr gle:ga glg:gl guj:gu heb:he hin:hi hrv:hr hun:hu hye:hy ind:id "
    "isl:is ita:it jpn:ja kan:kn kat:ka kaz:kk khk:mn khm:km kir:ky kor:ko lao:lo lit:lt ltz:lb lvs:lv mal:ml mar:mr "
    "mkd:mk mlt:mt mya:my nld:nl nno:nn nob:no npi:ne ory:or pan:pa pbt:ps pes:fa pol:pl por:pt ron:ro rus:ru san:sa "
    "sin:si slk:sk slv:sl snd:sd som:so spa:es srp:sr swe:sv swh:sw tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tur:tr "
    "uig:ug ukr:uk urd:ur uzn:uz vie:vi xho:xh yor:yo yue:zh zho:zh zsm:ms zul:zu"
)
_THREE_LETTERS = dict(pair.split(":") for pair in _PAIRS.split())
"""Languages that have a code of two letters, by their code of three letters (ISO 639)."""


def base_language(code: str) -> str:
    """Return the language in a code, as two letters if possible: `zh` for `zh_CN`, `zh-Hant` and `zho_Hans`.

    Rules for splitting sentences and for spaces are looked up by these codes.
    """
    base = code.replace("_", "-").partition("-")[0].lower()
    return _THREE_LETTERS.get(base, base)


def language_tag(code: str) -> str:
    """Return a language code as documents spell it: `zh-Hans` for `zho_Hans`."""
    return "-".join((base_language(code), *code.replace("_", "-").split("-")[1:]))


def are_languages(source: str, target: str) -> bool:
    """Return whether these are codes of two different natural languages. The source may be undetermined."""
    known = {UNKNOWN, *_THREE_LETTERS.values()}
    return base_language(source) != base_language(target) and {base_language(source), base_language(target)} <= known


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
        """Return the language tokens that precede a stream."""
        return self.source_tokens if stream == "source" else self.target_tokens

    @classmethod
    def of(cls, spec: Spec, vocabulary: Vocabulary, direction: Direction) -> LanguagePair:
        """Return the two languages of a translation direction, with their language tokens.

        Args:
            spec: Spec of the model.
            vocabulary: Vocabulary of the model.
            direction: Codes of the source and target language.

        Raises:
            ZooError: The vocabulary has no token for one of the languages.
        """
        source, target = direction
        if spec.languages is None:
            return cls(source, target)
        languages = spec.languages
        assert isinstance(vocabulary.target, Tokenizer)
        of_source = {"source": source, "target": target, None: None}[languages.source_token]
        of_target = target if languages.target_token else None
        return cls(
            source,
            target,
            _ids(vocabulary.source, languages, of_source),
            _ids(vocabulary.target, languages, of_target),
        )


def _ids(tokenizer: Tokenizer, languages: Languages, code: str | None) -> tuple[int, ...]:
    if code is None:
        return ()
    id = tokenizer.id_of(languages.token_of(code))
    if id is None:
        raise ZooError(
            f"the vocabulary has no token `{languages.token_of(code)}` for the language `{code}`",
            hint="correct `languages` in the model's spec, or learn a vocabulary with this spec",
        )
    if tokenizer.model.is_control(id):
        return (id,)
    # A token that can be part of a text is encoded as text: in MADLAD-400, the token `▁` precedes `<2de>`.
    return tuple(tokenizer.model.encode(languages.token_of(code)))


def choose_direction(spec: Spec, source: str | None, target: str | None, report: Report) -> Direction:
    """Return the source and target language of a request. A language that the user did not give comes from the spec.

    If the model has only two languages, it is enough to give one of them. If the model does not read a token for the
    source language, the source language need not be given.

    Args:
        spec: Spec of the model.
        source: Code of the language of the text, if given.
        target: Code of the language of the translation, if given.
        report: Receives a warning if the model was not trained on this translation direction.

    Raises:
        ZooError: A language is missing or unknown.
    """
    languages = spec.languages
    if languages is None:
        for name, given, own in (("from", source, spec.corpus.source), ("to", target, spec.corpus.target)):
            if given not in (None, own):
                raise ZooError(
                    f"`{spec.name}` translates from `{spec.corpus.source}` to `{spec.corpus.target}` only, not {name} "
                    f"`{given}`",
                    hint="leave the languages out, or use a model for these languages",
                )
        return spec.corpus.source, spec.corpus.target
    for code in (source, target):
        if code is not None and code not in languages.codes:
            raise ZooError(f"`{spec.name}` has no language `{code}`", hint=suggest_language(code, languages))
    if target is None:
        target = _other(languages, source)
    if source is None:
        source = _other(languages, target)
    if target is None:
        raise ZooError(
            f"`{spec.name}` translates into {len(languages.codes)} languages, and the target language is not given",
            hint=f"give it with `--to CODE` (in Python: `target=`): {_list(languages)}",
        )
    if source is None:
        if languages.source_token == "source":
            raise ZooError(
                f"`{spec.name}` reads {len(languages.codes)} languages, and the language of the text is not given",
                hint=f"give it with `--from CODE` (in Python: `source=`): {_list(languages)}",
            )
        return UNKNOWN, target
    learned = {spec.corpus.direction(part) for part in spec.corpus.train}
    if learned and (source, target) not in learned:
        report.warn(
            f"the training text of `{spec.name}` has no translations from `{source}` to `{target}`: expect a poor "
            "translation, or one into another language"
        )
    return source, target


UNKNOWN = "und"
"""ISO 639 code of an undetermined language."""
_MAX_LISTED = 12


def _other(languages: Languages, code: str | None) -> str | None:
    """Return the other language of a model with two languages. None for other models, or if `code` is None."""
    if code is None or len(languages.codes) != 2:
        return None
    first, second = languages.codes
    return second if code == first else first


def _list(languages: Languages) -> str:
    more = len(languages.codes) - _MAX_LISTED
    return ", ".join(languages.codes[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
