"""Cards of the catalogue. A card describes a public model: what it translates, where its files are, and who trained it.

A card is a YAML file. A card whose name contains `{source}` and `{target}` describes a model for each language pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from specs import ZooError, nearest
from specs.corpus import Direction
from specs.notation import quote
from specs.reader import read
from specs.section import Section, Size, reject
from specs.spec import Name
from zoo.text.languages import base_language

_SHORT, _LONG = 200, 2_000
_Text = Annotated[str, Field(min_length=1, max_length=_LONG)]
_ShortText = Annotated[str, Field(min_length=1, max_length=_SHORT)]
_Texts = Annotated[tuple[_Text, ...], Field(strict=False, max_length=100)]
_Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+/\S*$", max_length=_LONG)]
_Source = Annotated[str, Field(pattern=r"^(https?://[^\s/]+/\S+|hf:[\w.{}/@-]+)$", max_length=_LONG)]
_File = Annotated[str, Field(pattern=r"^(?!/)(?!(.*/)?\.\.(/|$))[^\s\\:\0]+$", max_length=_SHORT)]
_NamePattern = Annotated[str, Field(pattern=r"^[A-Za-z0-9][-_.,{}A-Za-z0-9]*$", max_length=100)]
_Code = r"[A-Za-z]{2,8}(_[A-Za-z0-9]+)*"
_MANY = 100_000  # characters


class Languages(Section):
    """Languages of a model: either language pairs, or languages that are all translated into each other."""

    pairs: Annotated[str, Field(pattern=rf"^\s*({_Code}-{_Code}\s*)+$", max_length=_MANY)] | None = None
    """Language pairs, separated by spaces, such as `en-de de-en`. Codes contain `_` instead of `-`."""
    codes: Annotated[str, Field(pattern=rf"^\s*({_Code}\s*)+$", max_length=_MANY)] | None = None
    """Codes of languages that the model translates in every direction, separated by spaces, such as `en de fr`."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.pairs is None) == (self.codes is None):
            hint = "write `languages: {pairs: en-de}` for language pairs, or `languages: {codes: en de fr}`"
            reject("pairs", "codes", problem="`languages` must have either `pairs` or `codes`", hint=hint)
        return self

    @property
    def directions(self) -> list[Direction]:
        """The language pairs as source and target codes."""
        if self.pairs is not None:
            return [(source, target) for source, _, target in (pair.partition("-") for pair in self.pairs.split())]
        codes = (self.codes or "").split()
        return [(source, target) for source in codes for target in codes if source != target]


class Reference(Section):
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


class Translation(Section):
    """Documented translation of a sentence, with which an import is checked."""

    source: _Text
    target: _Text
    pair: Annotated[str, Field(pattern=rf"^{_Code}-{_Code}$")] | None = None
    """Language pair of the sentence. Required if the model has several."""


class Facts(Section):
    """Page on which the facts of a card were read, and when."""

    url: _Url
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class ModelCard(Section):
    """Public model, or a pattern for the models of many language pairs. An undocumented property is None or empty."""

    name: _NamePattern
    """Name of the model. If it contains `{source}` and `{target}`, the card describes a model for each language pair."""
    aliases: Annotated[tuple[_NamePattern, ...], Field(strict=False, max_length=20)] = ()
    """Further names."""
    description: _ShortText
    """What the model is, in one sentence."""
    source: _Source
    """Address of an archive (.tar.bz2, .tar.gz or .zip), or `hf:ORG/NAME@REVISION`. May contain `{source}` and
    `{target}`."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the archive, if its authors publish it. Otherwise, the SHA-256 of the first download is recorded."""
    bytes: Size | None = None
    """Size of the download."""
    parameters: Size | None = None
    """Number of parameters."""
    files: Annotated[tuple[_File, ...], Field(strict=False, max_length=16)] = ()
    """Paths of the checkpoints in the archive. Empty: the import finds the model. Several: they form an ensemble."""
    format: _ShortText | None = None
    """Format for the import, if it is not detected."""
    tokenizer: _ShortText | None = None
    """Option `--tokenizer` of `zoo import`, if the model's files do not specify the tokenizer."""
    bpe: _ShortText | None = None
    """Option `--bpe` of `zoo import`, if the model's files do not specify it."""
    languages: Languages
    texts: _ShortText | None = None
    """Kind of texts that the model was trained on, such as `news`."""
    licence: _ShortText | None = None
    """Licence of the weights: an SPDX identifier such as `CC-BY-4.0`, or a phrase."""
    trained_by: _ShortText | None = None
    training_data: _Text | None = None
    differences: _Texts = ()
    """For a model of the paper: how it differs from the paper's."""
    reference: Reference | None = None
    scores: Annotated[tuple[Score, ...], Field(strict=False, max_length=100)] = ()
    check: Annotated[tuple[Translation, ...], Field(strict=False, max_length=20)] = ()
    facts: Facts

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        fields = {"name": self.name, "source": self.source, **{"aliases": alias for alias in self.aliases}}
        for field, text in fields.items():
            placeholders = set(re.findall(r"\{[^}]*\}?|\}", text))
            if placeholders not in (set(), {"{source}", "{target}"}) or (field == "aliases" and placeholders and not self.is_pattern):
                hint = "write both of them, or neither"
                reject(field, problem=f"`{field}` may contain `{{source}}` and `{{target}}` only", hint=hint)
        return self

    @property
    def is_pattern(self) -> bool:
        """Whether the card describes a model for each language pair."""
        return "{" in self.name
