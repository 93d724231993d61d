"""The `corpus` section: training, dev and test data, and the filters for training pairs (section 5.1).

Each of the three sets is a list of parts. A part is one data source, such as two text files or an archive.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal, Self, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from specs.errors import nearest
from specs.section import Positive, Section, Size, Sparse, reject
from specs.sections import LanguageCode, Languages, suggest_language

Path = Annotated[str, Field(min_length=1, max_length=4_096)]
Column = Annotated[int, Field(ge=1, le=1_000)]
Language = Annotated[str, Field(pattern=r"^[a-z]{2,3}([-_][A-Za-z0-9]+)*$", max_length=35)]
Filter = Literal["copy", "markup", "language"]
SourceTag = Annotated[str, Field(pattern=r"^<[A-Z][A-Z0-9_]*>$", max_length=40)]
Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
_MAX_PARTS = 1_000
Direction = tuple[str, str]
"""Source and target language codes."""


def _check_url(url: str) -> str:
    """Return `url`, or raise a pydantic error if its brackets, host or port are malformed."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        valid = parts.scheme == "file" or bool(host.encode("idna"))
    except ValueError:
        valid = False
    if not valid or not url.isprintable():
        raise PydanticCustomError("string_pattern_mismatch", "not a valid URL")
    return url


class CorpusPart(Sparse):
    """Base class for corpus parts. To add a kind of part, list its class in `Part`, and add a reader in `zoo/data`."""

    supplies: ClassVar[Container[str]] = ("pairs", "sentences")
    """Data that a part of this kind can have: sentence `pairs`, `sentences`, `trees` or `features`. The task needs one
    of them."""
    path_fields: ClassVar[tuple[str, ...]] = ()
    """Fields with paths of local files, which are relative to `corpus.folder`."""
    credit: ClassVar[str] = ""
    """Description for the model card. `{part}` is the part, `{examples}` is the noun of the task for examples, and
    `{names}` are the `credited_names`."""

    @property
    def credited_names(self) -> Sequence[str | None]:
        """Data to credit in the model card: by default, the sorted names of the local files, without folders."""
        return sorted(PurePath(path).name for path in self.local_paths)

    @property
    def local_paths(self) -> list[str]:
        """Paths of the local files in this part, relative to `corpus.folder`."""
        return [path for field in self.path_fields if (path := getattr(self, field)) is not None]

    def expanded(self, corpus: "Corpus", codes: Sequence[str]) -> "Iterable[CorpusPart]":
        """Return the parts that replace this part in the loaded spec. `codes` are the languages of the model."""
        return (self,)

    def check_languages(self, name: str, corpus: "Corpus", languages: Languages | None, *, reads_text: bool) -> None:
        """Reject languages of this part that the model does not have. By default, a part has no languages to check.

        Args:
            name: Name of this part, such as `corpus.train[0]`.
            corpus: The corpus, with the default languages of its parts.
            languages: Languages of the model, or None if it is not multilingual.
            reads_text: Whether the model reads text.
        """


class Weighted(CorpusPart):
    """Base class for corpus parts that have a weight, such as `Files`."""

    weight: Positive = Field(default=1.0, le=1_000)
    """How often an epoch contains each sentence pair of this part of `corpus.train` (not in the paper). With 2, each
    epoch contains each pair twice. With 0.25, each epoch contains a different quarter of the pairs."""


class Directed(Weighted):
    """Base class for corpus parts, such as `Files`, that can set their own languages for multilingual models."""

    source_language: LanguageCode | None = None
    """Source language of these sentence pairs, one of `languages.codes`. Default: `corpus.source`."""
    target_language: LanguageCode | None = None
    """Target language of these sentence pairs, one of `languages.codes`. Default: `corpus.target`."""
    tag: SourceTag | None = None
    """Token that precedes each source sentence of this part of `corpus.train`, such as `<BT>` for back-translations
    (not in the paper; Caswell et al. 2019). It becomes one token in the vocabulary. Default: null."""

    def check_languages(self, name: str, corpus: "Corpus", languages: Languages | None, *, reads_text: bool) -> None:
        """Reject the source or the target language if the model does not have it."""
        for side, code in zip(("source", "target"), corpus.direction(self), strict=True):
            own = getattr(self, f"{side}_language") is not None
            field = f"{name}.{side}_language" if own else f"corpus.{side}"
            if languages is None and own:
                codes = ", ".join(dict.fromkeys((corpus.source, corpus.target, code)))
                tokens = "" if reads_text else ", source_token: null, target_token: target"
                problem = f"`{name}` sets its own language, but the spec has no `languages`"
                reject(field, problem, f"write `languages: {{codes: [{codes}]{tokens}}}`")
            if languages is not None and code not in languages.codes:
                problem = f"`languages.codes` does not contain `{code}`, the {side} language of `{name}`"
                reject((field, "languages.codes"), problem, suggest_language(code, languages))


class Grammar(Directed):
    """Sentence pairs from the built-in synthetic English-German corpus. The train, dev and test sets share no pairs."""

    supplies = ("pairs", "sentences", "trees")
    credit = "{part.grammar:,} {examples} from zoo's built-in grammar (no licence applies)"

    grammar: Size = Field(le=5_000_000)
    """Number of pairs to take from the built-in English-German corpus. It has 40,000 pairs for `train`, and 2,000 each
    for `dev` and `test`. Unit: sentence pairs."""


class Files(Directed):
    """Two local text files with one sentence per line. Line n of one file translates line n of the other file.

    For a language model, set only `target`.
    """

    supplies = ("pairs", "sentences", "features")
    path_fields = ("source", "target")
    credit = "files of the publisher: {names}"

    source: Path | None = None
    """Path of the file with the source sentences, relative to `corpus.folder`. It may be a .gz or .sgm file. Omit it
    for a language model."""
    target: Path
    """Path of the file with the target sentences, relative to `corpus.folder`. It may be a .gz or .sgm file."""


class Pairs(Weighted):
    """Text files of several language pairs, each of which is used in both directions.

    When a spec is loaded, such a part is replaced by a `Files` part for each direction.
    """

    supplies = ("pairs",)
    path_fields = ("pairs",)

    pairs: Path
    """Path of the files without their last suffix, which is the language code, relative to `corpus.folder`: `my` for
    `my.en` and `my.de`. `{pair}` stands for two languages in the order of `languages.codes`: `my.{pair}` for
    `my.en-de.en` and `my.en-de.de`. If each direction has its own files, write `my.{source}-{target}`."""
    languages: Annotated[tuple[LanguageCode, ...], Field(strict=False, min_length=2, max_length=1_000)] | None = None
    """Languages of the files: at least two of `languages.codes`. All pairs of these languages are used. Default: all
    of `languages.codes`."""
    tag: SourceTag | None = None
    """Token that precedes each source sentence of this part of `corpus.train`, such as `<BT>`. Default: null."""

    def _check(self) -> None:
        if re.search("[{}]", re.sub(r"\{(pair|source|target)\}", "", self.pairs)):
            problem = f"`pairs` is `{self.pairs}`, with braces other than `{{pair}}`, `{{source}}` and `{{target}}`"
            reject("pairs", problem, "write `{pair}` for both languages, or `{source}` and `{target}` for one each")
        if self.languages is not None and len(set(self.languages)) < len(self.languages):
            reject("languages", "`languages` of `pairs` contains a language twice", "list each language once")

    def check_languages(self, name: str, corpus: "Corpus", languages: Languages | None, *, reads_text: bool) -> None:
        """Reject the part if the model is not multilingual, or if it lacks a language of the part."""
        if languages is None:
            problem = f"`{name}` has files in several languages, but the spec has no `languages`"
            hint = "write `languages: {codes: [en, de]}`, with the codes of your files"
            reject(f"{name}.pairs", problem, hint)
        for code in self.languages or ():
            if code not in languages.codes:
                problem = f"`languages.codes` does not contain `{code}`, a language of `{name}`"
                reject((f"{name}.languages", "languages.codes"), problem, suggest_language(code, languages))

    def expanded(self, corpus: "Corpus", codes: Sequence[str]) -> Iterator[Files]:
        """Yield a `Files` part for each translation direction of this part. `codes` are the languages of the model."""
        for pair in combinations([code for code in codes if code in (self.languages or codes)], 2):
            for source, target in (pair, pair[::-1]):
                name = self.pairs.format(pair="-".join(pair), source=source, target=target)
                yield Files(
                    source=f"{name}.{source}",
                    target=f"{name}.{target}",
                    source_language=None if source == corpus.source else source,
                    target_language=None if target == corpus.target else target,
                    weight=self.weight,
                    tag=self.tag,
                )


class Table(Directed):
    """Text file with tab-separated columns (TSV, without quotes or header). Each line is a sentence pair."""

    supplies = ("pairs", "sentences", "features")
    path_fields = ("tsv",)
    credit = "a file of the publisher: {names}"

    tsv: Path
    """Path of the TSV file, relative to `corpus.folder`. It may be a .gz file."""
    source_column: Column = 1
    """Number of the column with the source sentences, counted from 1."""
    target_column: Column = 2
    """Number of the column with the target sentences, counted from 1."""


class Archive(Directed):
    """Two text files in an archive (.tgz, .tar.gz, .tar or .zip), which is downloaded once and cached."""

    credit = "<{part.archive}>: {names}"

    archive: Annotated[str, Field(pattern=r"^(https?|file)://\S+$", max_length=4_096), AfterValidator(_check_url)]
    """URL of the archive: http://, https:// or file://."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None
    """SHA-256 of the archive, in lower-case hexadecimal. null: the hash of the first download is stored in the file
    `corpus.lock`, and later downloads must match it."""
    source: Path | None = None
    """Path of the file with the source sentences inside the archive. It may be a .gz or .sgm file. Omit it for a
    language model."""
    target: Path
    """Path of the file with the target sentences inside the archive. It may be a .gz or .sgm file."""

    @property
    def credited_names(self) -> Sequence[str | None]:
        """Data to credit in the model card: the paths of the text files inside the archive."""
        return self.source, self.target


class SearchOptions(Sparse):
    """Options that override a trained model's search options."""

    search: Literal["beam", "sample"] | None = None
    """Decoding method, as in the `decoding` section. Default: the model's method."""
    beam: Annotated[int, Field(ge=1, le=1_024)] | None = None
    """Beam size. Default: the model's value. Unit: hypotheses."""
    alpha: Annotated[float, Field(ge=0, le=10)] | None = None
    """Exponent of the length penalty. Default: the model's value."""
    temperature: Annotated[float, Field(gt=0, le=1e6)] | None = None
    """Divisor of the logits for sampling. Default: the model's value."""
    top_k: Annotated[int, Field(ge=0, le=1_048_576)] | None = None
    """Sample only from the k most probable tokens. Default: the model's value. Unit: tokens."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample only from the most probable tokens whose total probability reaches this value. Default: the
    model's value. Unit: probability."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Random seed for sampling. Default: `training.seed` of the model."""


class Synthetic(Directed):
    """Sentence pairs whose source or target is generated by trained models: back-translation or distillation.

    If `target` is given, the models translate it back into the source (Sennrich et al. 2016). If `source` is given,
    they translate it into the target (Kim and Rush 2016). Several models translate as an ensemble.
    """

    path_fields = ("source", "target", "reference")
    credit = "a file of the publisher, `{part.text}`, and its translations by {names}"

    models: Annotated[tuple[Path, ...], Field(strict=False, min_length=1, max_length=64)]
    """Models that translate: names of published models, or folders of runs. The probabilities of several models are
    averaged."""
    source: Path | None = None
    """Path of the text file that the models translate into the target, relative to `corpus.folder`. It may be a .gz or
    .sgm file."""
    target: Path | None = None
    """Path of the text file that the models translate back into the source, relative to `corpus.folder`. It may be a
    .gz or .sgm file."""
    reference: Path | None = None
    """Path of the file with human translations of `source`, relative to `corpus.folder`. If the path is given, only
    one of the `n_best` translations of each sentence is kept: the one with the highest chrF. Default: null."""
    n_best: Size = Field(default=1, le=1_024)
    """Number of translations of each sentence. Each distinct translation forms a pair. Default: 1.
    Unit: translations."""
    decoding: SearchOptions = SearchOptions()
    """Search options, such as `{beam: 8}` or `{search: sample, top_k: 10}`. Other options come from the spec of
    the first model."""

    def _check(self) -> None:
        if (self.source is None) is (self.target is None):
            reject(
                "models",
                "models must translate either a `source` or a `target`",
                "write `source` for distillation, or `target` for back-translation; `reference` has human translations",
            )
        if self.reference is not None and (self.source is None or self.n_best == 1):
            problem = "`reference` selects one of several translations, so it needs `source` and an `n_best` above 1"
            reject("reference", problem, "write `source` and `n_best: 4`, or remove `reference`")

    @property
    def credited_names(self) -> Sequence[str | None]:
        """Models to credit in the model card: the last component of each model's path or name."""
        return [PurePath(model).name for model in self.models]

    @property
    def text(self) -> str:
        """Path of the text file that the models translate, relative to `corpus.folder`."""
        return self.source or self.target or ""

    @property
    def summary(self) -> str:
        """Description of this corpus part for messages: its models, the file to translate, and the generated side."""
        names = " and ".join(f"`{name}`" for name in self.models)
        verb = "translates" if len(self.models) == 1 else "translate"
        return f"{names} {verb} `{self.text}` into the {'target' if self.source else 'source'} sentences"


class Treebank(Weighted):
    """Bracketed constituency trees. Each tree is the target, and its words are the source."""

    supplies = ("trees",)
    path_fields = ("trees",)
    credit = "trees of the publisher: {names}"

    trees: Path
    """Path of the trees in Penn Treebank notation, relative to `corpus.folder` (section 6.3: WSJ). It is a file, a .gz
    file, or a folder whose files are read in alphabetical order."""


class Digits(Weighted):
    """Spoken or handwritten digit strings with their transcripts, for the `recognition` task.

    If the task reads audio, espeak-ng speaks strings such as `3 1 4` with many voices, and noise and echoes
    are added. If the task reads images, each image shows a string such as `314`, composed of handwritten digits from
    scikit-learn. The train, dev and test sets share no voices and no handwritten digits.
    """

    supplies = ("features",)
    credit = "{part.digits:,} strings of digits that zoo generated"

    digits: Size = Field(le=1_000_000)
    """Number of strings. Each string has 1 to 8 digits. The strings are generated before training. Unit: strings."""


class HeldOut(CorpusPart):
    """Pairs that are moved from the training set to the dev or test set.

    The pairs are selected by a hash of the source line, so the selection is always the same.
    """

    supplies = ("pairs", "sentences", "trees", "features")

    held_out: Size = Field(le=1_000_000)
    """Number of pairs to move from `train` to this set. Unit: sentence pairs."""


def kind_of_part(part: Any) -> type[CorpusPart] | None:
    """Return the class of a corpus part, given the part or its keys.

    Return None if the keys match no class or several classes.

    A class is identified by its first required field. A misspelt key also identifies a class, so that the error message
    can suggest the right key. `source` and `target` identify `Files`, although other classes also have these fields.
    """
    if isinstance(part, CorpusPart):
        return type(part)
    keys = set(part) if isinstance(part, Mapping) else set()
    found = {_KEYS[key] for key in keys if key in _KEYS}
    found = found or {_KEYS[near] for key in keys if (near := nearest(key, _KEYS))}
    if keys & {"source", "target"} and not any("source" in kind.model_fields for kind in found):
        found.add(Files)
    return found.pop() if len(found) == 1 else None


Part = Annotated[
    Annotated[Grammar, Tag("Grammar")]
    | Annotated[Files, Tag("Files")]
    | Annotated[Pairs, Tag("Pairs")]
    | Annotated[Table, Tag("Table")]
    | Annotated[Archive, Tag("Archive")]
    | Annotated[Synthetic, Tag("Synthetic")]
    | Annotated[Treebank, Tag("Treebank")]
    | Annotated[Digits, Tag("Digits")]
    | Annotated[HeldOut, Tag("HeldOut")],
    Discriminator(lambda part: getattr(kind_of_part(part), "__name__", None)),
]
_KINDS: tuple[type[CorpusPart], ...] = tuple(get_args(tagged)[0] for tagged in get_args(get_args(Part)[0]))
_KEYS = {next(field for field, info in kind.model_fields.items() if info.is_required()): kind for kind in _KINDS}
del _KEYS["target"]  # `kind_of_part` also identifies `Files` by `source`
# Not strict, because YAML has lists and a frozen spec needs tuples.
Parts = Annotated[tuple[Part, ...], Field(strict=False, max_length=_MAX_PARTS)]


class Corpus(Section):
    """Sentence pairs for training, development and test (section 5.1)."""

    source: Language
    """Source language (section 5.1), as a code such as en."""
    target: Language
    """Target language (section 5.1), as a code such as de. For a parser, the same as `source`. For a language
    model, the language of the text."""
    folder: Path
    """Folder to which the paths in `train`, `dev` and `test` are relative. `folder` itself can be relative to the
    folder of the spec file or, in a shipped spec or an override, to the current folder. If your spec file lists
    paths without setting `folder`, the paths are relative to the folder of your file."""
    train: Parts
    """Training set (section 5.1): a list of data sources, which are concatenated. Each is two text files (`source` and
    `target`), the text files of several language `pairs`, a table (`tsv`), an `archive`, a treebank (`trees`), the
    built-in corpus (`grammar`), or a text that `models` translate before training. Empty for an imported model."""
    dev: Parts
    """Development set (section 6.2: newstest2013): a list of data sources, as in `train`. `held_out` moves pairs from
    the training set to this set."""
    test: Parts
    """Test set (section 6.1: newstest2014): a list of data sources, as in `train`. `held_out` moves pairs from the
    training set to this set."""
    max_length: Size = Field(le=1_048_576)
    """Maximum source length and maximum target length of a training pair, excluding EOS. Longer pairs are dropped (not
    in the paper; 256 in tensor2tensor, the code of the paper's authors). Unit: tokens."""
    max_ratio: Annotated[float, Field(ge=1, le=1_048_576)] | None
    """Maximum length ratio of a training pair: the length of the longer side divided by the length of the shorter side,
    in tokens. Pairs with a larger ratio are dropped (not in the paper). null: no limit."""
    deduplicate: bool
    """Whether repeated training pairs are dropped, so that each pair occurs only once (not in the paper)."""
    filters: Annotated[tuple[Filter, ...], Field(strict=False, max_length=3)] = ()
    """Filters that drop training pairs (not in the paper). copy: both sides are equal. markup: a side contains HTML
    tags or character references. language: a side with at least 20 letters is clearly in another language."""
    temperature: Annotated[float, Field(ge=1, le=1_000)]
    """T, the temperature for sampling translation directions (not in the paper; Arivazhagan et al. 2019). If a
    direction has the share p of all training pairs, its share in training is proportional to p^(1/T). 1 keeps the
    original shares. A large T makes all shares equal."""

    def _check(self) -> None:
        for name, part in self.named_parts:
            split, _, _ = name.partition("[")
            fields = [field for field in ("weight", "models", "tag") if field in part.model_dump()]
            if split != "train" and fields:
                reject(
                    f"{name}.{fields[0]}",
                    f"only parts of `corpus.train` can have `weight`, `models` or `tag`, not parts of `corpus.{split}`",
                    "write this part in `corpus.train`, or remove these keys",
                )
            if isinstance(part, HeldOut):
                if split == "train":
                    problem = "`corpus.train` cannot contain `held_out`, which takes pairs out of the training set"
                    reject(name, problem, "write `held_out` in `corpus.dev` or `corpus.test`")
                if any(isinstance(each, Synthetic) for each in self.train):
                    problem = f"`held_out` would also move pairs with machine translations to the {split} set"
                    reject(name, problem, f"write the files of the {split} set instead of `held_out`")

    def expanded(self, codes: Sequence[str]) -> Self:
        """Return the corpus with `Files` parts in place of its `Pairs` parts. `codes` are the model's languages."""
        splits: dict[str, tuple[Part, ...]] = {}
        for split in SPLITS:
            parts = (each for part in getattr(self, split) for each in part.expanded(self, codes))
            splits[split] = tuple(islice(parts, _MAX_PARTS + 1))
            if len(splits[split]) > _MAX_PARTS:
                problem = f"`pairs` stands for so many directions that `corpus.{split}` exceeds {_MAX_PARTS:,} parts"
                reject(f"corpus.{split}", problem, "list fewer `languages` in this part")
        return self.model_copy(update=splits)

    @property
    def named_parts(self) -> Iterator[tuple[str, Part]]:
        """The parts of the training, dev and test sets, with names such as `train[0]`."""
        for split in SPLITS:
            yield from ((f"{split}[{index}]", part) for index, part in enumerate(getattr(self, split)))

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the training, dev and test sets."""
        return (*self.train, *self.dev, *self.test)

    def direction(self, part: Section) -> Direction:
        """Return the source and target language codes of a corpus part."""
        if not isinstance(part, Directed):
            return self.source, self.target
        return part.source_language or self.source, part.target_language or self.target
