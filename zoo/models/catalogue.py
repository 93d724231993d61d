"""Cards of public models, and functions that find them by name or by language pair.

The catalogue consists of the cards in this package and the user's cards, `catalogue/*.yaml` in the data folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import Field

from specs import ZooError
from specs.corpus import Direction
from specs.reader import read
from specs.section import Section, Size, reject
from specs.validation import validate
from zoo.files import storage
from zoo.files.reading import read_text
from zoo.models.registries.revision import is_name
from zoo.report import size
from zoo.text.language_codes import base_language, best_match

_SHORT, _LONG = 200, 2_000
_Text = Annotated[str, Field(min_length=1, max_length=_LONG)]
_ShortText = Annotated[str, Field(min_length=1, max_length=_SHORT)]
_Texts = Annotated[tuple[_Text, ...], Field(strict=False, max_length=100)]
_Url = Annotated[str, Field(pattern=r"^https?://[^\s/]+(/\S*)?$", max_length=_LONG)]
_Source = Annotated[str, Field(pattern=r"^(https?://[^\s/]+/\S+|hf:[\w.{}/@-]+)$", max_length=_LONG)]
_File = Annotated[str, Field(pattern=r"^[A-Za-z0-9_{][\w{}.-]*(/[A-Za-z0-9_{][\w{}.-]*)*$", max_length=_SHORT)]
_NamePattern = Annotated[str, Field(max_length=100)]
_PLACEHOLDER = re.compile(r"\{[^{}]*\}|[{}]")
_LANGUAGES = ["{source}", "{target}"]
CODE = r"[A-Za-z]{2,8}(?:_[A-Za-z0-9]+)*"
"""Regular expression for a language code."""
_PAIR = f"{CODE}-{CODE}"
_MANY = 100_000  # characters
_MAX_CODES = 1_000
"""Maximum number of languages in `languages.codes`. A thousand languages form almost a million language pairs."""
EVERYDAY = "everyday"
"""Name of the model that is included in the package. It was trained on short sentences."""
_EVERYDAY_WORDS = 15
"""Maximum median of words per sentence for the included model. For longer texts, another model is recommended."""
_CARDS = Path(__file__).with_name("cards")
_MAX_CARD_BYTES = 1_000_000
_UNKNOWN_BYTES = 1 << 60  # models of unknown size come last


class CardLanguages(Section):
    """Languages of a model: either language pairs, or languages for which the model supports all pairs."""

    pairs: Annotated[str, Field(pattern=rf"^\s*{_PAIR}(\s+{_PAIR})*\s*$", max_length=_MANY)] | None = None
    """Language pairs, separated by spaces, such as `en-de de-en`. Codes contain `_` instead of `-`."""
    codes: Annotated[str, Field(pattern=rf"^\s*{CODE}(\s+{CODE})*\s*$", max_length=_MANY)] | None = None
    """Language codes, separated by spaces (`en de fr`). The model translates from each language to all others."""

    def _check(self) -> None:
        if (self.pairs is None) == (self.codes is None):
            hint = "write `languages: {pairs: en-de}` for language pairs, or `languages: {codes: en de fr}`"
            reject(("pairs", "codes"), "`languages` must have either `pairs` or `codes`", hint=hint)
        if self.codes is not None and len(self.codes.split()) > _MAX_CODES:
            hint = "write the language pairs as `pairs`"
            reject("codes", f"`languages.codes` lists more than {_MAX_CODES:,} languages", hint)

    @property
    def directions(self) -> list[Direction]:
        """The language pairs as (source, target), in the model's own language codes."""
        if self.pairs is not None:
            return [(source, target) for source, _, target in (pair.partition("-") for pair in self.pairs.split())]
        codes = (self.codes or "").split()
        return [(source, target) for source in codes for target in codes if source != target]

    def direction(self, source: str, target: str) -> Direction | None:
        """Return a language pair in the model's own language codes, such as `deu_Latn` for `de`.

        Return None if the model does not support the pair.
        """
        if self.codes is not None:
            codes = self.codes.split()
            own_source, own_target = best_match(source, codes), best_match(target, codes)
            return (own_source, own_target) if own_source and own_target and own_source != own_target else None
        pairs, bases = self.directions, (base_language(source), base_language(target))
        if (source, target) in pairs:
            return source, target
        return next((pair for pair in pairs if (base_language(pair[0]), base_language(pair[1])) == bases), None)

    def summary(self, max_pairs: int) -> str:
        """Describe the languages in a few words: the language pairs, or only their number if it exceeds `max_pairs`.

        If the card lists languages instead of pairs, give the number of languages.
        """
        if self.codes is not None:
            return f"{len(self.codes.split())} languages"
        pairs = ["-".join(pair) for pair in self.directions]
        return f"{len(pairs):,} pairs" if len(pairs) > max_pairs else ", ".join(pairs)


class Publication(Section):
    """Publication or page that describes a model."""

    title: _ShortText
    url: _Url


class Score(Section):
    """Score that the authors of a model published."""

    test: _ShortText
    """Test set, such as `newstest2014 en-de`."""
    metric: _ShortText
    """Metric, such as `BLEU (tokenized, compound splitting)`."""
    value: float
    url: _Url
    """Page that publishes the score."""


class KnownTranslation(Section):
    """Example sentence with a documented translation, which zoo compares with the imported model's translation."""

    source: _Text
    target: _Text
    pair: Annotated[str, Field(pattern=rf"^{CODE}-{CODE}$")] | None = None
    """Language pair of the sentence. Required if the model has several language pairs."""


class FactSource(Section):
    """Page that documents the facts in a card, and the date on which the page was read."""

    url: _Url
    date: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class ModelCard(Section):
    """Card that describes a public model, or a group of models, one per language pair.

    Undocumented properties are None or empty.
    """

    name: _NamePattern
    """Name of the model. A name with `{source}` and `{target}` is a pattern: there is one model per language pair."""
    aliases: Annotated[tuple[_NamePattern, ...], Field(strict=False, max_length=20)] = ()
    """Other names of the model."""
    description: _ShortText
    """Description of the model, in one sentence."""
    source: _Source
    """URL of an archive (.tar.bz2, .tar.gz or .zip), URL of a folder (ending with `/`), or
    `hf:ORG/NAME@REVISION`. The URL may contain `{source}` and `{target}`."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the archive, if its authors publish it. Otherwise, the SHA-256 of the first download is recorded."""
    bytes: Size | None = None
    """Size of the download."""
    parameters: Size | None = None
    """Number of parameters."""
    files: Annotated[tuple[_File, ...], Field(strict=False, max_length=16)] = ()
    """Paths of the checkpoints in the archive, relative to the folder that contains all files. If the list is empty,
    the import finds the model. Several checkpoints form an ensemble. If the source is a folder, the list contains the
    names of all files of the model. Files that end with `.gz` are unpacked."""
    format: _ShortText | None = None
    """Name of the import format, if zoo cannot detect the format."""
    tokenizer: _ShortText | None = None
    """Value for `zoo import --tokenizer`, if the model's files do not specify the tokenizer."""
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

    def _check(self) -> None:
        both_or_none = "write `{source}` and `{target}` in the name, all aliases and the source, or in none of these"
        for field, text in (("name", self.name), *(("aliases", alias) for alias in self.aliases)):
            if not is_name(text.replace("{source}", "xx").replace("{target}", "xx")):
                hint = "use letters, digits and `-_.,`, and `{source}` and `{target}` in a pattern"
                reject(field, f"`{text}` is not a valid name for a model", hint)
            if sorted(_PLACEHOLDER.findall(text)) not in ([], _LANGUAGES):
                reject(field, f"`{text}` does not contain `{{source}}` and `{{target}}` once each", both_or_none)
        if len({frozenset(_PLACEHOLDER.findall(text)) for text in (self.name, *self.aliases, self.source)}) > 1:
            reject(("name", "source"), "the names and the source have different placeholders", both_or_none)
        if self.is_pattern and self.languages.pairs is None:
            hint = "write `languages: {pairs: en-de de-en}`"
            reject("languages", f"`{self.name}` is a pattern, but the card lists no language pairs", hint)
        if self.is_folder and not self.files:
            reject("source", "the source is a folder, but the card lists no files", "add `files: [...]`")
        if self.is_repository and self.files:
            reject("files", "the files of a repository are found automatically", "omit `files`")

    @property
    def is_pattern(self) -> bool:
        """Whether the card is a pattern, which describes a group of models, one per language pair."""
        return "{" in self.name

    @property
    def short_licence(self) -> str:
        """Name of the licence, without the explanations in the card. Empty if the licence is not documented."""
        return re.split(r"[.,;] ", self.licence or "")[0]

    @property
    def is_repository(self) -> bool:
        """Whether the model's source is a repository on the Hugging Face Hub, and not a URL."""
        return self.source.startswith("hf:")

    @property
    def is_folder(self) -> bool:
        """Whether the model's source is a folder of individual files instead of an archive or a repository."""
        return self.source.endswith("/")

    @property
    def addresses(self) -> tuple[str, ...]:
        """URLs of the files to download. Empty if the source is a repository on the Hugging Face Hub."""
        if self.is_repository:
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
        """Whether a single model translates several language pairs."""
        return self.languages.codes is not None or (not self.is_pattern and len(self.languages.directions) > 1)

    @property
    def summary(self) -> str:
        """Short description with the model's name, size and licence."""
        bytes = f"{size(self.bytes)}, " if self.bytes else ""
        return f"the public model `{self.name}` ({bytes}licence: {self.short_licence or 'not documented'})"

    def for_pair(self, source: str, target: str) -> ModelCard:
        """Return a copy of this pattern for one language pair, in which `{source}` and `{target}` are replaced."""

        def fill(text: str) -> str:
            return text.replace("{source}", source).replace("{target}", target)

        texts = {field: fill(getattr(self, field)) for field in ("name", "description", "source")}
        lists = {field: tuple(map(fill, getattr(self, field))) for field in ("aliases", "files")}
        return self.model_copy(update={**texts, **lists, "languages": CardLanguages(pairs=f"{source}-{target}")})


def parse(text: str, file: str) -> ModelCard:
    """Parse a model card.

    Args:
        text: The YAML text.
        file: The name of the file, for error messages.

    Raises:
        ZooError: The card is invalid. The error contains the file and the line.
    """
    return validate(ModelCard, read(text, file, "name: NAME"))


def cards() -> list[ModelCard]:
    """Return all cards, sorted by name. The user's cards replace zoo's cards of the same name.

    Raises:
        ZooError: One of the user's cards is invalid.
    """
    own = _read(storage.home() / "catalogue")
    return [card for _, card in sorted({**_packaged(), **own}.items())]


def packaged() -> list[ModelCard]:
    """Return the cards in this package, sorted by name."""
    return [card for _, card in sorted(_packaged().items())]


def models() -> list[ModelCard]:
    """Return the cards of all models. A card that is a pattern is replaced by one card per language pair."""
    found = []
    for card in cards():
        found += [card.for_pair(*pair) for pair in card.languages.directions] if card.is_pattern else [card]
    return found


def names() -> list[str]:
    """Return the names of all models."""
    return [card.name for card in models()]


def find(name: str) -> ModelCard | None:
    """Return the card of the model with this name or alias. Return None if the catalogue does not have the model.

    The name of a member, such as `NAME.1`, selects the card of its ensemble. A name that matches a pattern selects the
    card for one language pair, unless another card has this name.
    """

    def first(found: Iterable[ModelCard]) -> ModelCard | None:
        return next((card for card in found if name in (card.name, *card.aliases, *card.members)), None)

    return first(card for card in cards() if not card.is_pattern) or first(models())


def for_pair(source: str, target: str) -> list[ModelCard]:
    """Return the cards of all models for a language pair, with the recommended model first.

    Bilingual models come before multilingual models. Within each group, smaller models come before larger models.
    """
    pairs = ((card, card.languages.direction(source, target)) for card in cards())
    return sorted((card.for_pair(*pair) if card.is_pattern else card for card, pair in pairs if pair), key=_rank)


def recommended(source: str, target: str) -> ModelCard | None:
    """Return the card of the recommended model for a language pair, or None if there is no model for this pair."""
    with suppress(ZooError):  # an invalid user card must not hide the message that contains the recommendation
        return next(iter(for_pair(source, target)), None)
    return None


def better_for(sentences: Sequence[str], source: str, target: str) -> tuple[ModelCard, str] | None:
    """Recommend a public model for a text with long sentences, for which the included model was not trained.

    Returns:
        The card of the public model, and a message that names it. None if most sentences are short, or if the catalogue
        has no model for the language pair.
    """
    if not sentences or median(len(sentence.split()) for sentence in sentences) <= _EVERYDAY_WORDS:
        return None
    if (card := recommended(source, target)) is None:
        return None
    problem = f"`{EVERYDAY}` is made for short sentences, but most of these sentences are longer"
    return card, f"{problem}; {card.summary} may translate them better"


def _rank(card: ModelCard) -> tuple[bool, int, str]:
    size = card.bytes or 4 * (card.parameters or 0) or _UNKNOWN_BYTES
    return card.is_multilingual, size, card.name


@cache
def _packaged() -> dict[str, ModelCard]:
    return _read(_CARDS)


def _read(folder: Path) -> dict[str, ModelCard]:
    """Return the model cards in a folder, keyed by name. Return an empty dictionary if the folder does not exist."""
    found: dict[str, ModelCard] = {}
    for file in sorted(folder.glob("*.yaml")):
        card = parse(read_text(file, _MAX_CARD_BYTES), str(file))
        if card.name in found:
            hint = "rename or remove one of them"
            raise ZooError(f"two cards have the name `{card.name}`", where=str(file), hint=hint)
        found[card.name] = card
    return found
