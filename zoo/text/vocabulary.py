"""Word pieces: text to ids and back, learned by SentencePiece (paper, section 5.1)."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal, Self

import sentencepiece

import specs
from specs import BOS, EOS, PAD, UNK, ZooError
from zoo.storage.content import content, stands
from zoo.storage.files import writing
from zoo.text.lines import clean, without_control

Side = Literal["source", "target"]
Pairs = Callable[[], Iterable[tuple[str, str]]]

MOST_PAIRS = 1_000_000
"""What a vocabulary is learned from at most: SentencePiece holds all of it in memory."""
_QUIET = 2
_SPECIAL = (PAD, UNK, BOS, EOS)
_BYTES = 256
_COVERAGE = 0.9999
"""Of a text's letters and signs have pieces of their own where there are bytes: rarer ones teach a model its bytes."""


class Vocabulary:
    """Pieces of the source and of the target language, which may be the same ones.

    Text is given as it is: it is cleaned as all text is, and the model files hold the rest of its normalisation
    (NFKC, runs of white space). Ids of PAD, UNK, BOS and EOS are those of `specs`; both sides have as many pieces.
    """

    def __init__(self, source: bytes, target: bytes | None = None, *, name: str = "vocabulary.model") -> None:
        """From the content of SentencePiece models; one for both sides where `target` is None.

        Raises ZooError, calling the models `name`, where one is damaged.
        """
        self._models = [source] if target is None else [source, target]
        opened = [_opened(model, name) for model in self._models]
        self.source, self.target = opened[0], opened[-1]
        if self.source.get_piece_size() != self.target.get_piece_size():
            raise _damaged(name, "its sides have different sizes")

    @property
    def shared(self) -> bool:
        """Whether both sides have the same pieces."""
        return len(self._models) == 1

    @property
    def size(self) -> int:
        """Number of pieces of a side, the special ones included."""
        return int(self.source.get_piece_size())

    @property
    def byte_fallback(self) -> bool:
        """Whether characters without a piece are spelled in bytes, so that none is unknown."""
        return bool(self.source.is_byte(EOS + 1) and self.target.is_byte(EOS + 1))

    @property
    def digest(self) -> str:
        """Tells it from any other."""
        return hashlib.sha256(b"\0".join(self._models)).hexdigest()

    def encode(self, text: str, side: Side = "source") -> list[int]:
        """The ids of a line's pieces, without BOS and EOS."""
        return list(self._of(side).encode(clean(text)))

    def encode_all(self, texts: Sequence[str], side: Side = "source") -> list[list[int]]:
        """`encode` of many lines, on all cores."""
        return list(self._of(side).encode(list(map(clean, texts)))) if texts else []

    def decode(self, ids: Iterable[int], side: Side = "target") -> str:
        """The text of pieces, one line. PAD, BOS and EOS are nothing; UNK is shown as ⁇, bytes that are none as �."""
        return without_control(str(self._of(side).decode([int(id) for id in ids if id not in (PAD, BOS, EOS)])))

    def unknown(self, text: str, side: Side = "source") -> list[str]:
        """The characters of a text that have no piece, each once."""
        return [character for character in dict.fromkeys(clean(text)) if UNK in self.encode(character, side)]

    def sample(self, ids: list[int], alpha: float, side: Side = "source") -> list[int]:
        """Other pieces of the same text, drawn at random; these where one of them is unknown, as the text then is."""
        if UNK in ids:
            return ids
        model = self._of(side)
        return list(model.encode(model.decode(ids), enable_sampling=True, alpha=alpha, nbest_size=-1))

    def save(self, folder: Path) -> None:
        """Writes `vocabulary.model`, or `vocabulary.source.model` and `vocabulary.target.model`."""
        for name, model in zip(_names(self.shared), self._models, strict=True):
            with writing(folder / name) as partial:
                partial.write_bytes(model)

    @classmethod
    def load(cls, folder: Path, read: Callable[[Path], bytes] | None = None) -> Self:
        """From the files that `save` writes, by `read` if that is given.

        Raises ZooError where there are none, where they may not be read, or are damaged.
        """
        shared = not any(stands(folder / name) for name in _names(shared=False))
        models = [(read or content)(folder / name) for name in _names(shared)]
        return cls(*models, name=str(folder / _pattern(shared)))

    @classmethod
    def learn(cls, pairs: Pairs, section: specs.Vocabulary, count: int = 0) -> Self:
        """Learns pieces from the lines of pairs; `pairs` is called once for a shared vocabulary, else twice.

        Where they are told to be a `count` of more than MOST_PAIRS, from every second pair, or every third, and so
        on (see `learned_from`). The same pairs in the same order give the same bytes. Raises ZooError where the text
        has too little variety for `vocabulary.size` pieces, or too many letters.
        """
        step = _step(count)
        if section.shared:
            return cls(_learned((line for pair in islice(pairs(), 0, None, step) for line in pair), section))
        return cls(*(_learned((pair[side] for pair in islice(pairs(), 0, None, step)), section) for side in (0, 1)))

    def _of(self, side: Side) -> sentencepiece.SentencePieceProcessor:
        return self.source if side == "source" else self.target


def learned_from(count: int) -> int:
    """How many of so many pairs a vocabulary is learned from."""
    return -(-count // _step(count))


def _step(count: int) -> int:
    return max(1, -(-count // MOST_PAIRS))


def _names(shared: bool) -> tuple[str, ...]:
    return ("vocabulary.model",) if shared else ("vocabulary.source.model", "vocabulary.target.model")


def _pattern(shared: bool) -> str:
    return "vocabulary.model" if shared else "vocabulary.*.model"


def _opened(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    sentencepiece.set_min_log_level(_QUIET)
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
        # What is no text in it would be found out by the sentence that needs it.
        processor.id_to_piece(list(range(processor.get_piece_size())))
        processor.decode([UNK])
    except (RuntimeError, ValueError, IndexError):
        raise _damaged(name, "it is not a SentencePiece model") from None
    found = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if found != _SPECIAL or processor.get_piece_size() <= EOS + 1:
        raise _damaged(name, f"its PAD, UNK, BOS, EOS are {found}, not {_SPECIAL}")
    return processor


def _damaged(name: str, reason: str) -> ZooError:
    return ZooError(f"`{name}` is damaged: {reason}", hint="restore it from where it came from", exit_code=1)


def _learned(lines: Iterable[str], section: specs.Vocabulary) -> bytes:
    model = io.BytesIO()
    failures: list[BaseException] = []
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_watched(lines, failures),
            model_writer=model,
            model_type=section.kind,
            vocab_size=section.size,
            character_coverage=_COVERAGE if section.byte_fallback else 1.0,
            byte_fallback=section.byte_fallback,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            minloglevel=_QUIET,
        )
    except RuntimeError as error:
        if not failures:
            raise _refused(str(error), section) from None
    if failures:
        raise failures[0]
    return model.getvalue()


def _watched(lines: Iterable[str], failures: list[BaseException]) -> Iterator[str]:
    """The lines; SentencePiece swallows what is raised between them (Ctrl-C, too), so it is kept here."""
    try:
        yield from lines
    except GeneratorExit:
        raise
    except BaseException as error:
        failures.append(error)
        raise


def _refused(told: str, section: specs.Vocabulary) -> ZooError:
    """SentencePiece's refusal in our words."""
    if found := re.search(r"value <= (\d+)", told):
        most = int(found[1])
        return ZooError(
            f"`vocabulary.size` is {section.size:,}, and this text gives {most:,} pieces at most",
            hint=f"write `vocabulary.size={most}` or less",
        )
    if found := re.search(r"(\d+) vs (\d+)\. Increase vocab_size", told):
        least, size = int(found[2]), section.size
        given = len(_SPECIAL) + (_BYTES if section.byte_fallback else 0)
        bytes = f", and the bytes {_BYTES}" if section.byte_fallback else ""
        return ZooError(
            f"`vocabulary.size` is {size:,}, and this text has {least - given:,} "
            f"different letters and signs, which need a piece each{bytes}",
            hint=f"write `vocabulary.size={least}` or more",
        )
    if "sentences_.empty()" in told:
        return ZooError("there is no text to learn a vocabulary from")
    return ZooError(f"no vocabulary could be learned: {told}", exit_code=1)
