"""Cards of the catalogue. A card describes a public model: what it translates, where its files are, and who trained it.

A card is a YAML file. A card whose name contains `{source}` and `{target}` describes a model for each language pair.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator

from specs import ZooError, nearest
from specs.corpus import Direction
from specs.notation import quote
from specs.reader import read
from specs.section import Section, Size, reject
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


class Languages(Section):
    """Languages of a model: either language pairs, or languages that are all translated into each other."""

    pairs: Annotated[str, Field(pattern=rf"^\s*{_PAIR}(\s+{_PAIR})*\s*$", max_length=_MANY)] | None = None
    """Language pairs, separated by spaces, such as `en-de de-en`. Codes contain `_` instead of `-`."""
    codes: Annotated[str, Field(pattern=rf"^\s*{CODE}(\s+{CODE})*\s*$", max_length=_MANY)] | None = None
    """Codes of languages that the model translates in every direction, separated by spaces, such as `en de fr`."""

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        if (self.pairs is None) == (self.codes is None):
            hint = "write `languages: {pairs: en-de}` for language pairs, or `languages: {codes: en de fr}`"
            reject(("pairs", "codes"), problem="`languages` must have either `pairs` or `codes`", hint=hint)
        if self.codes is not None and len(self.codes.split()) > _MAX_CODES:
            hint = "write the language pairs as `pairs`"
            reject("codes", problem=f"`languages.codes` lists more than {_MAX_CODES:,} languages", hint=hint)
        return self

    @property
    def directions(self) -> list[Direction]:
        """The language pairs as source and target codes."""
        if self.pairs is not None:
            return [(source, target) for source, _, target in (pair.partition("-") for pair in self.pairs.split())]
        codes = (self.codes or "").split()
        return [(source, target) for source in codes for target in codes if source != target]

    def direction(self, source: str, target: str) -> Direction | None:
        """Return a language pair as the model spells it, such as `deu_Latn` for `de`. None if it has no such pair."""
        if self.codes is not None:
            codes = self.codes.split()
            found = _same_language(source, codes), _same_language(target, codes)
            return (found[0], found[1]) if found[0] and found[1] and found[0] != found[1] else None
        pairs, bases = self.directions, (base_language(source), base_language(target))
        if (source, target) in pairs:
            return source, target
        return next((pair for pair in pairs if (base_language(pair[0]), base_language(pair[1])) == bases), None)


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
    pair: Annotated[str, Field(pattern=rf"^{CODE}-{CODE}$")] | None = None
    """Language pair of the sentence. Required if the model has several."""


class Facts(Section):
    """Page on which the facts of a card were read, and when."""

    url: _Url
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class ModelCard(Section):
    """Public model, or a pattern for the models of many language pairs. An undocumented property is None or empty."""

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
    bpe: _File | None = None
    """File with the BPE codes in the archive, if the import does not find it."""
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
    def _check_placeholders(self) -> Self:
        for field, text in (("name", self.name), *(("aliases", alias) for alias in self.aliases)):
            if not _NAME.fullmatch(text.replace("{source}", "xx").replace("{target}", "xx")):
                hint = "use letters, digits and `-_.,`, and `{source}` and `{target}` in a pattern"
                reject(field, problem=f"`{text}` is not a valid name for a model", hint=hint)
            if sorted(_PLACEHOLDER.findall(text)) not in ([], _LANGUAGES):
                hint = "write both `{source}` and `{target}` once, or neither"
                reject(field, problem=f"`{text}` does not contain both languages once", hint=hint)
        if set(_PLACEHOLDER.findall(self.source)) not in (set(), set(_LANGUAGES)):
            hint = "write both `{source}` and `{target}`, or neither"
            reject("source", problem=f"`{self.source}` does not contain both languages", hint=hint)
        if any(self.is_pattern != ("{" in text) for text in (self.source, *self.aliases)):
            hint = "write the languages into the name, its aliases and the source, or into none of them"
            reject(("name", "source"), problem="only some of the names and the source contain languages", hint=hint)
        if self.is_pattern and self.languages.pairs is None:
            hint = "write `languages: {pairs: en-de de-en}`"
            reject("languages", problem=f"`{self.name}` is a pattern, but the card lists no language pairs", hint=hint)
        if self.is_folder and not self.files:
            reject("source", problem="the source is a folder, but the card lists no files", hint="add `files: [...]`")
        if self.source.startswith("hf:") and self.files:
            reject("files", problem="the files of a repository are found", hint="leave `files` out")
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

    def directions(self) -> list[Direction]:
        """Return the language pairs as source and target codes, spelled as the model spells them."""
        return self.languages.directions

    def direction(self, source: str, target: str) -> Direction | None:
        """Return a language pair as the model spells it, such as `deu_Latn` for `de`. None if it has no such pair."""
        return self.languages.direction(source, target)

    def translates(self, source: str, target: str) -> bool:
        """Return whether the model translates from one language to another."""
        return self.direction(source, target) is not None

    def of_pair(self, source: str, target: str) -> ModelCard:
        """Return the card of the model for one language pair. Only for patterns."""
        return self.model_copy(
            update={
                "name": _fill(self.name, source, target),
                "aliases": tuple(_fill(alias, source, target) for alias in self.aliases),
                "description": _fill(self.description, source, target),
                "source": _fill(self.source, source, target),
                "files": tuple(_fill(file, source, target) for file in self.files),
                "languages": Languages(pairs=f"{source}-{target}"),
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
    located = read(text, file, "card", "begin with `name: NAME`")
    try:
        return ModelCard.model_validate(located.plain())
    except ValidationError as invalid:
        # An unknown field may be the misspelt name of a missing one.
        error = min(invalid.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    path = error["loc"]
    problem, hint = _explain(error, ".".join(map(str, path)), _section_of(path))
    if error["type"] == "rule":
        path = (*path, error["ctx"]["fields"][0])
    raise ZooError(problem, where=located.at(path).where, hint=hint)


def _explain(error: Any, key: str, section: type[Section]) -> tuple[str, str | None]:
    """Return the problem and the hint for one of pydantic's errors."""
    name = str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] == "rule":
        return error["ctx"]["problem"], error["ctx"]["hint"]
    if error["type"] == "extra_forbidden":
        similar = nearest(name, section.model_fields)
        hint = f"did you mean `{similar}`?" if similar else f"the fields are {', '.join(section.model_fields)}"
        return f"`{key}` is not a field of a model card", hint
    if error["type"] == "missing":
        return f"`{key}` is missing", f"add `{name}` to the card"
    description = section.describe(name).rstrip(".") if name in section.model_fields else ""
    # pydantic's message about a pattern contains the regular expression
    reason = "" if error["type"] == "string_pattern_mismatch" else f": {error['msg'][:1].lower()}{error['msg'][1:]}"
    return f"`{key}` cannot be {quote(error['input'])}{reason}", f"`{key}`: {description}" if description else None


def _section_of(path: Sequence[str | int]) -> type[Section]:
    """Return the section that contains the field at a path."""
    inner: dict[str, type[Section]] = {
        "languages": Languages,
        "reference": Reference,
        "scores": Score,
        "check": Translation,
        "facts": Facts,
    }
    return inner.get(str(path[0]), ModelCard) if len(path) > 1 else ModelCard


def _same_language(code: str, codes: Sequence[str]) -> str | None:
    """Return the code itself, or else the first code of the same language, such as `deu_Latn` for `de`."""
    if code in codes:
        return code
    return next((each for each in codes if base_language(each) == base_language(code)), None)


def _fill(text: str, source: str, target: str) -> str:
    return text.replace("{source}", source).replace("{target}", target)
