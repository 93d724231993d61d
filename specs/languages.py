"""The section `languages`: languages and language tokens of a multilingual model."""

from difflib import get_close_matches
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.section import Section, reject

LanguageCode = Annotated[str, Field(pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]+)*$", max_length=35)]

_MAX_SHOWN = 20


class Languages(Section):
    """Languages of a multilingual model, and its language tokens (Johnson et al. 2017).

    A language token, such as `<2de>`, tells the model which language to read or write.
    """

    codes: Annotated[tuple[LanguageCode, ...], Field(strict=False)] = Field(min_length=2, max_length=1_000)
    """Codes of all languages of the model, such as `[en, de, fr]`. The models of NLLB use codes such as `eng_Latn`."""
    token: Annotated[str, Field(pattern=r"^[^\s{}]*\{\}[^\s{}]*$", max_length=40)] = "<2{}>"
    """Pattern of the language tokens in the vocabulary. `{}` stands for the language code: `<2{}>` gives the token
    `<2de>` for German. Default: `<2{}>`."""
    source_token: Literal["source", "target"] | None = "target"
    """Which language token precedes each source sentence. target: the token of the target language (Johnson et al.
    2017). source: the token of the source language (NLLB, mBART). null: no language token. Default: target."""
    target_token: Literal["target"] | None = None
    """Which language token precedes each translation. target: the token of the target language (NLLB, mBART). null: no
    language token. Default: null."""

    def token_of(self, code: str) -> str:
        """Return the language token for a language code, such as `<2de>` for `de`."""
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
                problem="neither the source nor the translation has the token of the target language, so the model "
                "cannot know which language to translate into",
                hint="write `source_token: target`, or `target_token: target`",
            )
        return self


def suggest_language(code: str, languages: Languages) -> str:
    """Return a hint for an unknown language code: similar codes or, if there are none, the first 20 codes."""
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
