"""The section `languages`: the languages of a model that translates in several directions."""

from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Section, reject

LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]+)*$", max_length=35)]

_MAX_SHOWN = 20


class Languages(Section):
    """Languages of one model, and the tokens that tell it which of them a sentence is in (Johnson et al. 2017)."""

    codes: Annotated[tuple[LanguageCode, ...], Field(strict=False)] = Field(
        min_length=2,
        max_length=1_000,
        description="Codes of the languages, as users write them: `[en, de, fr]`, or `eng_Latn` in NLLB's models.",
    )
    token: Annotated[str, Field(pattern=r"^[^\s{}]*\{\}[^\s{}]*$", max_length=40)] = Field(
        default="<2{}>",
        description="Token of a language in the vocabulary, with `{}` in place of the code: `<2{}>` gives `<2de>`. "
        "Default: `<2{}>`.",
    )
    source_token: Literal["source", "target"] | None = Field(
        default="target",
        description="Language whose token is put before each source sentence: that of the `target` (Johnson et al. "
        "2017) or that of the `source` (NLLB, mBART). null: none. Default: target.",
    )
    target_token: Literal["target"] | None = Field(
        default=None,
        description="Language whose token is the first token of each translation (NLLB, mBART: target). null: none. "
        "Default: null.",
    )

    def token_of(self, code: str) -> str:
        """Return the token of a language."""
        return self.token.replace("{}", code)

    @model_validator(mode="after")
    def _check_tokens(self) -> Self:
        if repeated := [code for code in self.codes if self.codes.count(code) > 1]:
            reject(
                "codes",
                problem=f"`languages.codes` contains `{repeated[0]}` twice",
                hint="list each language once",
            )
        if self.source_token != "target" and self.target_token is None:
            reject(
                "source_token",
                "target_token",
                problem="neither the source nor the translation has the token of the target language, so that the "
                "model would not know which language to write",
                hint="write `source_token: target`, or `target_token: target`",
            )
        return self


def suggest_language(code: str, languages: Languages) -> str:
    """Return a hint with the codes that are similar to an unknown one, or with all codes if there are few."""
    lower = {each.lower(): each for each in languages.codes}
    if code.lower() in lower:
        return f"did you mean `{lower[code.lower()]}`?"
    near = [lower[each] for each in get_close_matches(code.lower(), lower, n=3)]
    near += [each for each in languages.codes if each.lower().startswith(code.lower()[:2]) and each not in near][:3]
    if near:
        return f"did you mean {' or '.join(f'`{each}`' for each in near)}?"
    shown = ", ".join(languages.codes[:_MAX_SHOWN])
    more = len(languages.codes) - _MAX_SHOWN
    return f"the languages are {shown}{f' and {more} more' if more > 0 else ''}"
