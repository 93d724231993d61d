"""Attention weights of every head of every layer, for one text and one translation of it (`zoo attend`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from compiler import EmittedProgram, Program
from specs import BOS, EOS, ZooError
from zoo.generation.batching import Source
from zoo.generation.preprocessing import Preprocessor, SplitText
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory
from zoo.text.lines import clean
from zoo.text.sentences import checked_texts
from zoo.text.tokenizer import SPACE

if TYPE_CHECKING:
    from zoo.generation.translator import Translator

BEGIN, END = "<s>", "</s>"
"""Names of BOS and EOS among the tokens. No text has tokens with these names."""
_SELF_ATTENTION = ("self_attention", "restricted_attention")
_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention weights of a model over one text and one translation (paper, section 3.2).

    Tensors are float32 on the CPU: [layers, h, queries, keys], first layer first. Each row sums to 1. Tokens are those
    of SentencePiece, with `▁` at the start of a word. For a parser, the target tokens are brackets and words. If a
    stack has no attention of a kind, its tensor has 0 layers.
    """

    text: str
    translation: str
    """The translation as text; for a parser, a bracketed tree."""
    forced: bool
    """Whether the translation was given. If not, it is the model's own."""
    log_probability: float
    """Natural log-probability of the translation given the text, with EOS."""
    source: tuple[str, ...]
    """Tokens of the text, then `</s>`."""
    target_input: tuple[str, ...]
    """The token that each decoder position reads: `<s>`, then the tokens of the translation."""
    target: tuple[str, ...]
    """The token that each decoder position predicts: the tokens of the translation, then `</s>`."""
    encoder: Float[Tensor, "layers h source source"]
    """Self-attention of the encoder. Rows and columns are `source`."""
    decoder: Float[Tensor, "layers h target target"]
    """Masked self-attention of the decoder. Rows are `target`, columns are `target_input`."""
    cross: Float[Tensor, "layers h target source"]
    """Attention of the decoder to the encoder's output. Rows are `target`, columns are `source`."""
    backend: str
    precision: str

    def by_words(self) -> Attention:
        """Return the attention between words instead of tokens.

        A word's row is the mean of its tokens' rows, and a word's column is the sum of its tokens' columns, so that
        rows still sum to 1. A text without spaces is one word.
        """
        source, target_input, target = (list(_words(row)) for row in (self.source, self.target_input, self.target))
        source_mean, source_sum = _mean(source), _sum(source)
        target_mean, input_sum = _mean(target), _sum(target_input)
        return replace(
            self,
            source=tuple(_join_tokens(self.source[word]) for word in source),
            target_input=tuple(_join_tokens(self.target_input[word]) for word in target_input),
            target=tuple(_join_tokens(self.target[word]) for word in target),
            encoder=source_mean @ self.encoder @ source_sum,
            decoder=target_mean @ self.decoder @ input_sum,
            cross=target_mean @ self.cross @ source_sum,
        )


class AttentionRecorder:
    """Computes the attention of a model that was opened from a folder. The program is built at the first use."""

    def __init__(self, build: Callable[[], Program]) -> None:
        """Keep `build`, which returns a program that gives out its attention weights."""
        self._build = build

    @cached_property
    def _program(self) -> EmittedProgram:
        program = self._build()
        assert isinstance(program, EmittedProgram)
        return program

    def record(self, translator: Translator, source: str, target: str | None) -> Attention:
        """Return the attention over a text and its translation.

        Args:
            translator: Translator of the same model.
            source: The text.
            target: The translation. None for the translator's own.

        Raises:
            ZooError: The text is empty or too long to be translated whole, or there is not enough memory.
        """
        preprocessor = translator.preprocessor()
        (encoded,) = preprocessor.encode_sources(checked_texts([source]), [""], 0)
        _require_whole(encoded, preprocessor)
        if target is None:
            ((best, *_),) = translator.hypotheses([source])
            target_ids, text = [BOS, *best.tokens, EOS], best.text
        else:
            _, (text,) = translator.check_pairs([source], [target])
            (target_ids,) = preprocessor.encode_pairs_side([text], "target")
            with preprocessor.warnings:
                preprocessor.warnings.count([encoded])
        return compute_attention(
            self._program,
            EncodedText(clean(source), encoded.tokens, preprocessor.source_tokens(source)),
            EncodedText(text, target_ids, translator.vocabulary.token_strings(target_ids[1:-1])),
            forced=target is not None,
        )


class EncodedText(NamedTuple):
    """A text with its token IDs and the tokens as strings."""

    text: str
    ids: Sequence[int]
    """Token IDs, EOS last; those of a target start with BOS."""
    tokens: Sequence[str]
    """The tokens as strings, without BOS and EOS."""


@torch.no_grad()
def compute_attention(program: EmittedProgram, source: EncodedText, target: EncodedText, *, forced: bool) -> Attention:
    """Run a program that gives out its attention weights on one sentence pair.

    Raises:
        ZooError: There is not enough memory.
    """
    source_length, target_length = len(source.ids), len(target.ids) - 1
    inputs = (torch.tensor([list(row.ids)], device=program.device) for row in (source, target))
    try:
        log_probabilities, weights = program.attend(*inputs)
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error):
            raise
        raise ZooError(
            f"there is not enough memory for the attention of {source_length - 1:,} source tokens and "
            f"{target_length - 1:,} target tokens",
            hint="use a shorter sentence",
            exit_code=1,
        ) from None
    return Attention(
        text=source.text,
        translation=target.text,
        forced=forced,
        log_probability=float(log_probabilities.double().sum()),
        source=(*source.tokens, END),
        target_input=(BEGIN, *target.tokens),
        target=(*target.tokens, END),
        encoder=_stack_layers(weights, "encoder", _SELF_ATTENTION, (source_length, source_length)),
        decoder=_stack_layers(weights, "decoder", _SELF_ATTENTION, (target_length, target_length)),
        cross=_stack_layers(weights, "decoder", ("cross_attention",), (target_length, source_length)),
        backend=program.backend,
        precision=program.precision,
    )


def _require_whole(encoded: Source | SplitText, preprocessor: Preprocessor) -> None:
    if encoded.tokens == preprocessor.empty_source:
        raise ZooError("there is no attention over an empty text", hint="give a sentence")
    if isinstance(encoded, SplitText):
        raise ZooError(
            f"the text has {len(encoded.tokens) - 1:,} tokens, but the model takes at most "
            f"{preprocessor.max_source_length:,} (`decoding.max_source_length`) and translates it in parts",
            hint="give one of its sentences",
        )


def _stack_layers(weights: dict[str, Tensor], stack: str, kinds: tuple[str, ...], shape: tuple[int, int]) -> Tensor:
    """Return the attention weights of these kinds as one tensor: [layers, h, queries, keys]."""
    names = [name for name in weights if name.startswith(f"{stack}.") and name.rpartition(".")[2] in kinds]
    layers = [weights[name][0].cpu() for name in sorted(names, key=lambda name: int(name.split(".")[1]))]
    return torch.stack(layers) if layers else torch.empty(0, 1, *shape)


def _words(tokens: Sequence[str]) -> Iterator[slice]:
    """Yield the range of tokens of each word."""
    start = 0
    for position, token in enumerate(tokens):
        begins = token.startswith(SPACE) or token in (BEGIN, END) or tokens[position - 1] == BEGIN
        if begins and position:
            yield slice(start, position)
            start = position
    yield slice(start, len(tokens))


def _join_tokens(tokens: Sequence[str]) -> str:
    """Return the word that these tokens spell."""
    word = b"".join(
        bytes([int(match[1], 16)]) if (match := _BYTE.fullmatch(token)) else token.replace(SPACE, " ").encode()
        for token in tokens
    )
    return word.decode(errors="replace").strip() or SPACE


def _sum(words: Sequence[slice]) -> Float[Tensor, "tokens words"]:
    """Return the matrix that sums columns of tokens to columns of words."""
    matrix = torch.zeros(words[-1].stop, len(words))
    for number, word in enumerate(words):
        matrix[word, number] = 1.0
    return matrix


def _mean(words: Sequence[slice]) -> Float[Tensor, "words tokens"]:
    """Return the matrix that averages rows of tokens to rows of words."""
    matrix = _sum(words).T
    return matrix / matrix.sum(1, keepdim=True)
