"""Vocabulary of a model: the tokenizers for the source and the target."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Self, TypeVar, cast

import specs
from specs import EOS, UNK, Task, Translation, ZooError
from zoo.files.atomic import atomic_file
from zoo.files.reading import MAX_VOCABULARY_BYTES, file_exists, read_bytes
from zoo.text.lines import clean
from zoo.text.modality import Modality
from zoo.text.tokenizer import BYTE_TOKENS, Tokenizer
from zoo.text.trees.tokenizer import TreeTokenizer

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
Loaded = TypeVar("Loaded", bound=Modality)
ExampleSource = Callable[[], Iterable[Mapping[str, str]]]
MODALITIES: Mapping[str, type[Modality]] = {"text": Tokenizer, "trees": TreeTokenizer}
"""The class of each token modality. All other modalities consist of features (see `BaseTask.features`)."""

MAX_EXAMPLES = 1_000_000
"""Maximum number of examples to learn a vocabulary from. SentencePiece holds all of them in memory."""
_SHARED_FILE, _SIDE_FILE = "vocabulary.model", "vocabulary.{}{}"


def check_learnable(section: specs.Vocabulary, task: Task) -> None:
    """Check that a vocabulary with these settings can be learned from text.

    Raises:
        ZooError: The settings describe a vocabulary that can only be imported, or the size leaves no tokens for text.
    """
    if section.separate_models:
        hint = "set `separate_models: false`, or set `training.start_from` to the model that has this vocabulary"
        raise ZooError("a vocabulary with `vocabulary.separate_models` can only be imported, not learned", hint=hint)
    reserved = BYTE_TOKENS + EOS + 1 + section.copy_symbols
    sizes = dict(zip(("size", "target_size"), section.sizes, strict=True))
    if task.writes_trees:
        del sizes["target_size"]  # the target consists of brackets and has no byte tokens
    for field, size in sizes.items():
        if section.byte_fallback and size <= reserved:
            problem = f"`vocabulary.{field}` is {size:,}, but byte and special tokens alone need {reserved} IDs"
            raise ZooError(problem, hint=f"set a larger `vocabulary.{field}`, or `vocabulary.byte_fallback=false`")


class Vocabulary:
    """Tokenizers for the source and the target. Both sides may share one tokenizer.

    `specs` defines the IDs of PAD, UNK, BOS and EOS.

    Attributes:
        source: Tokenizer for source text.
        target: Tokenizer for the target, which is text or trees.
        shared: Whether both sides use the same tokenizer.
    """

    def __init__(self, source: Tokenizer, target: Modality | None = None) -> None:
        """Combine a source tokenizer with the modality of the target. If `target` is None, both sides use `source`."""
        self.shared = target is None
        self.source, self.target = source, source if target is None else target

    @property
    def sizes(self) -> tuple[int, int]:
        """Sizes of the source and target vocabularies, including the special tokens."""
        return self.source.size, self.target.size

    @property
    def source_suffix(self) -> tuple[int, ...]:
        """IDs to append to source tokens: EOS or, for imported models that do not read EOS, no IDs."""
        return (EOS,) if self.source.appends_eos else ()

    @property
    def same_on_both_sides(self) -> bool:
        """Whether the source and the target have the same tokens and IDs, even if they use separate tokenizers."""
        source, target = self._all_tokens()
        return source == target

    def has_same_tokens_as(self, other: Vocabulary) -> bool:
        """Return whether another vocabulary has the same tokens with the same IDs, even if its files differ."""
        return self.shared == other.shared and self._all_tokens() == other._all_tokens()

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a token are encoded as bytes, so no character is unknown."""
        return all(side.byte_fallback for side in (self.source, self.target) if isinstance(side, Tokenizer))

    @property
    def copy_symbols(self) -> tuple[str, ...]:
        """The copy symbols (see `zoo.text.copying`) that are in both the source and the target vocabulary."""
        sides = [side.copy_symbols if isinstance(side, Tokenizer) else () for side in (self.source, self.target)]
        return min(sides, key=len)

    @property
    def digest(self) -> str:
        """SHA-256 of the vocabulary files, in hexadecimal."""
        return hashlib.sha256(b"\0".join(self._files().values())).hexdigest()

    def encode(self, text: str, side: Side = "source") -> list[int]:
        """Return the token IDs of a line, without BOS and EOS. For a parser's target, the line is a bracketed tree."""
        return self.stream(side).encode(text)

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """Return the text that the tokens encode. The text of a parser's target is a linearised tree without words."""
        return self.stream(side).decode(ids)

    def token_strings(self, ids: Iterable[int], side: Side = "target") -> list[str]:
        """Return each token as a string. `▁` marks the beginning of a word, and `⁇` is UNK."""
        return self.stream(side).token_strings(ids)

    def unknown(self, text: str, side: Side = "source") -> list[str]:
        """Return the distinct characters (words, for a word-level vocabulary) in a text that have no token."""
        parts = clean(text).split(" ") if self.is_word_level(side) else clean(text)
        return [part for part in dict.fromkeys(parts) if UNK in self.encode(part, side)]

    def control_tokens(self, side: Side = "source") -> frozenset[int]:
        """Return the IDs of the tokens that do not stand for text, such as EOS and the language tokens."""
        tokenizer = self.stream(side)
        return tokenizer.control_tokens if isinstance(tokenizer, Tokenizer) else frozenset()

    def is_word_level(self, side: Side) -> bool:
        """Return whether all tokens on one side (source or target) are whole words."""
        tokenizer = self.stream(side)
        return isinstance(tokenizer, Tokenizer) and tokenizer.is_word_level

    def save(self, folder: Path) -> None:
        """Write the vocabulary files into a folder.

        A shared vocabulary is stored in `vocabulary.model`. Otherwise the files are `vocabulary.source.model` and
        `vocabulary.target.model`, or `vocabulary.target.json` for the brackets of trees.
        """
        for name, data in self._files().items():
            with atomic_file(folder / name) as partial:
                partial.write_bytes(data)

    @classmethod
    def load(cls, folder: Path, read: Callable[[Path, int], bytes] = read_bytes) -> Self:
        """Load a vocabulary from the files that `save` wrote.

        Args:
            folder: Folder that contains the files.
            read: Function that returns the content of a file. Its second argument is the maximum number of bytes.

        Raises:
            ZooError: A file is missing, unreadable or damaged.
        """

        def load(modality: type[Loaded], name: str) -> Loaded:
            return modality.from_content(read(folder / name, MAX_VOCABULARY_BYTES), str(folder / name))

        def of_side(side: Side) -> Modality:
            modality = next(iter(found[side]), Tokenizer)
            return load(modality, _SIDE_FILE.format(side, modality.suffix))

        found = {
            side: [each for each in MODALITIES.values() if file_exists(folder / _SIDE_FILE.format(side, each.suffix))]
            for side in SIDES
        }
        if not any(found.values()):
            return cls(load(Tokenizer, _SHARED_FILE))
        return cls(cast(Tokenizer, of_side("source")), of_side("target"))

    @classmethod
    def learn(
        cls,
        examples: ExampleSource,
        section: specs.Vocabulary,
        count: int = 0,
        task: Task | None = None,
        language_tokens: Sequence[str] = (),
    ) -> Self:
        """Learn a vocabulary from examples. The same examples in the same order give identical files.

        Args:
            examples: Function that returns an iterator over the examples. It is called once for a shared vocabulary,
                and otherwise once for the source and once for the target.
            section: Settings for the vocabulary.
            count: Number of examples, if known. If there are more than MAX_EXAMPLES, only every n-th example is used
                (see `learning_examples`). The brackets of trees are always collected from all examples.
            task: Task of the model, which determines the modality of each stream. Default: translation.
            language_tokens: Language tokens, which are added to both tokenizers.

        Raises:
            ZooError: The text has too few possible tokens or too many different characters for the vocabulary size, or
                the settings do not allow learning (see `check_learnable`).
        """
        task = task or Translation(kind="translation")
        check_learnable(section, task)
        step = _sampling_step(count)
        if section.shared:
            chosen = islice(examples(), 0, None, step)
            lines = (example[name] for example in chosen for name in task.token_streams)
            return cls(Tokenizer.learn(lines, section, "source", language_tokens, task.encoding))

        def learned(stream: str) -> Modality:
            modality = MODALITIES[task.streams[stream]]
            chosen = (example[stream] for example in islice(examples(), 0, None, step if modality.sampled else 1))
            return modality.learn(chosen, section, stream, language_tokens, task.encoding)

        source, target = map(learned, SIDES)
        return cls(cast(Tokenizer, source), target)

    def stream(self, name: str) -> Modality:
        """Return the modality of a stream (`source` or `target`)."""
        return self.source if name == "source" else self.target

    def _all_tokens(self) -> list[list[str]]:
        """Return the tokens of the source and of the target, in the order of their IDs."""
        return [self.token_strings(range(size), side) for side, size in zip(SIDES, self.sizes, strict=True)]

    def _files(self) -> dict[str, bytes]:
        if self.shared:
            return {_SHARED_FILE: self.source.content}
        return {_SIDE_FILE.format(side, self.stream(side).suffix): self.stream(side).content for side in SIDES}


def learning_examples(count: int) -> int:
    """Return the number of examples, out of `count`, that are used to learn a vocabulary."""
    return -(-count // _sampling_step(count))


def _sampling_step(count: int) -> int:
    return max(1, -(-count // MAX_EXAMPLES))
