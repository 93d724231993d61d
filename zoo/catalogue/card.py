"""Cards of the catalogue. A card describes a public model: its languages, its files and its authors.

A card is a YAML file. A card whose name contains `{source}` and `{target}` describes a model for each language pair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from specs.corpus import Direction
from specs.reader import read
from specs.section import Section, Size, reject
from specs.validation import validate
from zoo.report import size
from zoo.text.language_codes import base_language

_SHORT, _LONG = 200, 2_000
_Text = Annotated[str, Field(min_length=1, max_length=_LONG)]
_ShortText = Annotated[str, Field(min_length=1, max_length=_SHORT)]
_Texts = Annotated[tuple[_Text, ...], Field(strict=False, max_length=100)]
_Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+(/\S*)?$", max_length=_LONG)]
_Source = Annotated[str, Field(pattern=r"^(https?://[^\s/]+/\S+|hf:[\w.{}/@-]+)$", max_length=_LONG)]
_File = Annotated[str, Field(pattern=r"^[A-Za-z0-9_{][\w{}.-]*(/[A-Za-z0-9_{][\w{}.-]*)*$", max_length=_SHORT)]
_NamePattern = Annotated[str, Field(max_length=100)]
_NAME = re.compile(r"[A-Za-z0-9]([-_,A-Za-z0-9]|\.[-_,A-Za-z0-9])*")  # as in `specs.spec.Name`
_PLACEHOLDER = re.compile(r"\{[^{}]*\}|[{}]")
_LANGUAGES = ["{source}", "{target}"]
CODE = r"[A-Za-z]{2,8}(?:_[A-Za-z0-9]+)*"
"""Regular expression for a language code."""
_PAIR = f"{CODE}-{CODE}"
_MANY = 100_000  # characters
_MAX_CODES = 1_000
"""Maximum number of languages that a model translates into each other, which gives almost a million language pairs."""


class CardLanguages(Section):
    """Languages of a model: either language pairs, or languages that are all translated into each other."""

    pairs: Annotated[str, Field(pattern=rf"^\s*{_PAIR}(\s+{_PAIR})*\s*$", max_length=_MANY)] | None = None
    """Language pairs, separated by spaces, such as `en-de de-en`. Codes contain `_` instead of `-`."""
    codes: Annotated[str, Field(pattern=rf"^\s*{CODE}(\s+{CODE})*\s*$", max_length=_MANY)] | None = None
    """Codes of languages that the model translates in every direction, separated by spaces, such as `en de fr`."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.pairs is None) == (self.codes is None):
            hint = "write `languages: {pairs: en-de}` for language pairs, or `languages: {codes: en de fr}`"
            reject(("pairs", "codes"), "`languages` must have either `pairs` or `codes`", hint=hint)
        if self.codes is not None and len(self.codes.split()) > _MAX_CODES:
            hint = "write the language pairs as `pairs`"
            reject("codes", f"`languages.codes` lists more than {_MAX_CODES:,} languages", hint)
        return self

    @property
    def directions(self) -> list[Direction]:
        """The language pairs as source and target codes, spelled as the model spells them."""
        if self.pairs is not None:
            return [(source, target) for source, _, target in (pair.partition("-") for pair in self.pairs.split())]
        codes = (self.codes or "").split()
        return [(source, target) for source in codes for target in codes if source != target]

    def direction(self, source: str, target: str) -> Direction | None:
        """Return a language pair as the model spells it, such as `deu_Latn` for `de`. None if it has no such pair."""
        if self.codes is not None:
            codes = self.codes.split()
            own_source, own_target = _same_language(source, codes), _same_language(target, codes)
            return (own_source, own_target) if own_source and own_target and own_source != own_target else None
        pairs, bases = self.directions, (base_language(source), base_language(target))
        if (source, target) in pairs:
            return source, target
        return next((pair for pair in pairs if (base_language(pair[0]), base_language(pair[1])) == bases), None)

    def summary(self, max_pairs: int) -> str:
        """Return the language pairs, or the number of pairs or languages if there are more than `max_pairs`."""
        if self.codes is not None:
            return f"{len(self.codes.split())} languages"
        pairs = ["-".join(pair) for pair in self.directions]
        return f"{len(pairs):,} pairs" if len(pairs) > max_pairs else ", ".join(pairs)


class Publication(Section):
    """Publication or page that describes a model."""

    title: _ShortText
    url: _Url


class Score(Section):
    """Score of a model that its authors published."""

    test: _ShortText
    """Test set, such as `newstest2014 en-de`."""
    metric: _ShortText
    """Metric, such as `BLEU (tokenized, compound splitting)`."""
    value: float
    url: _Url
    """Page that publishes the score."""


class KnownTranslation(Section):
    """Documented translation of a sentence. The translation of the imported model is compared with it."""

    source: _Text
    target: _Text
    pair: Annotated[str, Field(pattern=rf"^{CODE}-{CODE}$")] | None = None
    """Language pair of the sentence. Required if the model has several."""


class FactSource(Section):
    """Page that documents the facts in a card, and the date on which it was read."""

    url: _Url
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class ModelCard(Section):
    """Public model, or a pattern for models of many language pairs. An undocumented property is None or empty."""

    name: _NamePattern
    """Name of the model. A name with `{source}` and `{target}` stands for one model for each language pair."""
    aliases: Annotated[tuple[_NamePattern, ...], Field(strict=False, max_length=20)] = ()
    """Further names."""
    description: _ShortText
    """Description of the model, in one sentence."""
    source: _Source
    """Address of an archive (.tar.bz2, .tar.gz or .zip), address of a folder with single files, which ends with `/`,
    or `hf:ORG/NAME@REVISION`. May contain `{source}` and `{target}`."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the archive, if its authors publish it. Otherwise, the SHA-256 of the first download is recorded."""
    bytes: Size | None = None
    """Size of the download."""
    parameters: Size | None = None
    """Number of parameters."""
    files: Annotated[tuple[_File, ...], Field(strict=False, max_length=16)] = ()
    """Paths of the checkpoints in the archive, below the folder that contains all files. Empty: the import finds the
    model. Several: they form an ensemble. If the source is a folder: names of all files of the model, which are
    unpacked if they end with `.gz`."""
    format: _ShortText | None = None
    """Format for the import, if it is not detected."""
    tokenizer: _ShortText | None = None
    """Option `--tokenizer` of `zoo import`, if the model's files do not specify the tokenizer."""
    languages: CardLanguages
    texts: _ShortText | None = None
    """Kind of texts that the model was trained on, such as `news`."""
    licence: _ShortText | None = None
    """Licence of the weights: an SPDX identifier such as `CC-BY-4.0`, or a phrase."""
    trained_by: _ShortText | None = None
    training_data: _Text | None = None
    differences: _Texts = ()
    """Differences from the paper's model, if this model has its architecture."""
    reference: Publication | None = None
    scores: Annotated[tuple[Score, ...], Field(strict=False, max_length=100)] = ()
    check: Annotated[tuple[KnownTranslation, ...], Field(strict=False, max_length=20)] = ()
    facts: FactSource

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for field, text in (("name", self.name), *(("aliases", alias) for alias in self.aliases)):
            if not _NAME.fullmatch(text.replace("{source}", "xx").replace("{target}", "xx")):
                hint = "use letters, digits and `-_.,`, and `{source}` and `{target}` in a pattern"
                reject(field, f"`{text}` is not a valid name for a model", hint)
            if sorted(_PLACEHOLDER.findall(text)) not in ([], _LANGUAGES):
                hint = "write both `{source}` and `{target}` once, or neither"
                reject(field, f"`{text}` does not contain both languages once", hint)
        if set(_PLACEHOLDER.findall(self.source)) not in (set(), set(_LANGUAGES)):
            hint = "write both `{source}` and `{target}`, or neither"
            reject("source", f"`{self.source}` does not contain both languages", hint)
        if any(self.is_pattern != ("{" in text) for text in (self.source, *self.aliases)):
            hint = "write the languages into the name, its aliases and the source, or into none of them"
            reject(("name", "source"), "only some of the names and the source contain languages", hint)
        if self.is_pattern and self.languages.pairs is None:
            hint = "write `languages: {pairs: en-de de-en}`"
            reject("languages", f"`{self.name}` is a pattern, but the card lists no language pairs", hint)
        return self

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if self.is_folder and not self.files:
            reject("source", "the source is a folder, but the card lists no files", "add `files: [...]`")
        if self.source.startswith("hf:") and self.files:
            reject("files", "the files of a repository are found", "leave `files` out")
        return self

    @property
    def is_pattern(self) -> bool:
        """Whether the card describes a model for each language pair."""
        return "{" in self.name

    @property
    def short_licence(self) -> str:
        """The licence without explanations. Empty if it is not documented."""
        return re.split(r"[.,;] ", self.licence or "")[0]

    @property
    def is_folder(self) -> bool:
        """Whether the source is the address of a folder with single files, instead of an archive or a repository."""
        return self.source.endswith("/")

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the files to download. Empty for a repository."""
        if self.source.startswith("hf:"):
            return ()
        return tuple(f"{self.source}{file}" for file in self.files) if self.is_folder else (self.source,)

    @property
    def members(self) -> tuple[str, ...]:
        """Names under which the members of an ensemble are stored. For other models, the name of the model."""
        if len(self.files) < 2 or self.is_folder:
            return (self.name,)
        return tuple(f"{self.name}.{number}" for number in range(1, len(self.files) + 1))

    @property
    def is_multilingual(self) -> bool:
        """Whether one model translates more than one language pair."""
        return self.languages.codes is not None or (not self.is_pattern and len(self.languages.directions) > 1)

    @property
    def summary(self) -> str:
        """The name, size and licence in a few words."""
        bytes = f"{size(self.bytes)}, " if self.bytes else ""
        return f"the public model `{self.name}` ({bytes}licence: {self.short_licence or 'not documented'})"

    def for_pair(self, source: str, target: str) -> ModelCard:
        """Return the card for one language pair. This card must be a pattern."""
        return self.model_copy(
            update={
                "name": _fill(self.name, source, target),
                "aliases": tuple(_fill(alias, source, target) for alias in self.aliases),
                "description": _fill(self.description, source, target),
                "source": _fill(self.source, source, target),
                "files": tuple(_fill(file, source, target) for file in self.files),
                "languages": CardLanguages(pairs=f"{source}-{target}"),
            }
        )


def parse(text: str, file: str) -> ModelCard:
    """Parse a card.

    Args:
        text: The YAML text.
        file: The name of the file, for error messages.

    Raises:
        ZooError: The card is invalid. The error has the file and line.
    """
    return validate(ModelCard, read(text, file, "name: NAME"))


def _same_language(code: str, codes: Sequence[str]) -> str | None:
    """Return the code itself, or else the first code of the same language, such as `deu_Latn` for `de`."""
    if code in codes:
        return code
    return next((each for each in codes if base_language(each) == base_language(code)), None)


def _fill(text: str, source: str, target: str) -> str:
    return text.replace("{source}", source).replace("{target}", target)
