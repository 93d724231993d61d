"""Attention weights of every head in every layer, for one text and its translation (`zoo attend`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.lazy import torch
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS
from zoo.text.codes import SEPARATOR
from zoo.text.tokenizer import SPACE

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from jaxtyping import Float
    from torch import Tensor

    from compiler import EmittedProgram

BEGIN, END = "<s>", "</s>"
"""Strings that represent BOS and EOS in lists of tokens. No token in a text is equal to one of these strings."""
_SELF_ATTENTION = ("self_attention", "restricted_attention")
CROSS_ATTENTION = ("cross_attention",)
_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention weights of a model for a text and its translation (paper, section 3.2).

    Tensors are float32 on the CPU: [layers, h, queries, keys], first layer first. Each row sums to 1. If the model
    lacks one of the three kinds of attention (`encoder`, `decoder`, `cross`), the tensor for this kind has 0 layers.
    Tokens are SentencePiece tokens, with `▁` at the start of a word. For a parser, the target tokens are brackets and
    words.
    """

    text: str
    translation: str
    """The translation as text or, for a parser, as a bracketed tree."""
    forced: bool
    """Whether the caller provided the translation. Otherwise, the model generated it."""
    log_probability: float
    """Natural log-probability of the translation given the text, including EOS."""
    source: tuple[str, ...]
    """Tokens in the text, then `</s>`."""
    target_input: tuple[str, ...]
    """The token that the decoder reads at each position: `<s>`, then the tokens in the translation."""
    target: tuple[str, ...]
    """The token that the decoder predicts at each position: the tokens in the translation, then `</s>`."""
    encoder: Float[Tensor, "layers h source source"]
    """Self-attention of the encoder. Rows and columns correspond to `source`."""
    decoder: Float[Tensor, "layers h target target"]
    """Masked self-attention of the decoder. Rows correspond to `target`, columns to `target_input`."""
    cross: Float[Tensor, "layers h target source"]
    """Attention of the decoder to the encoder's output. Rows correspond to `target`, columns to `source`."""
    backend: str
    precision: str
    language_tokens: tuple[int, int] = (0, 0)
    """Number of language tokens at the start of `source`, and at the start of `target`."""
    picture: npt.NDArray[np.uint8] | None = None
    """Greyscale image of a source that is not text, such as a spectrogram, [height, width], from left to right."""

    def word_indices(self) -> tuple[list[int], list[int]]:
        """Return the indices of all tokens in `source` and `target` except language tokens and `</s>`."""
        source, target = (
            [index for index, token in enumerate(tokens) if index >= first and token != END]
            for tokens, first in zip((self.source, self.target), self.language_tokens, strict=True)
        )
        return source, target

    def by_words(self, *, reads: bool = False) -> Attention:
        """Return the attention between words instead of tokens.

        A word's row is the mean of its tokens' rows, and a word's column is the sum of its tokens' columns, so that
        rows still sum to 1. A text without spaces is one word.

        Args:
            reads: Whether a token's row in `cross` is the row of the decoder position that reads the token, as some
                alignment heads require (`AlignmentHead.reads`). If false, and always for EOS, it is the row of the
                position that predicts the token.
        """
        of_source, of_target = self.language_tokens
        source, target = list(_words(self.source, of_source)), list(_words(self.target, of_target))
        target_input = list(_words(self.target_input, 1 + of_target))
        source_mean, source_sum = _mean(source), _sum(source)
        target_mean, input_sum = _mean(target), _sum(target_input)
        cross_mean = torch.cat([_mean(target_input)[1:], target_mean[-1:]]) if reads else target_mean
        return replace(
            self,
            source=tuple(_join_tokens(self.source[word]) for word in source),
            target_input=tuple(_join_tokens(self.target_input[word]) for word in target_input),
            target=tuple(_join_tokens(self.target[word]) for word in target),
            encoder=source_mean @ self.encoder @ source_sum,
            decoder=target_mean @ self.decoder @ input_sum,
            cross=cross_mean @ self.cross @ source_sum,
        )


def compute_attention(
    program: EmittedProgram,
    source: tuple[str, Sequence[int] | Tensor, Sequence[str]],
    target: tuple[str, Sequence[int], Sequence[str]],
    *,
    forced: bool,
    language_tokens: tuple[int, int],
) -> Attention:
    """Compute the attention weights of one sentence pair.

    Args:
        program: A compiled model that was built with `Purpose.ATTEND`.
        source: Tuple of the text, its token IDs (including EOS if the model reads EOS) or frames, and a string for
            each encoder position.
        target: Tuple of the translation, its token IDs, and its tokens as strings, without BOS and EOS.
        forced: Whether the caller provided the translation. Otherwise, the model generated it.
        language_tokens: Number of language tokens at the start of the source, and at the start of the target.
    """
    text, source_values, source_tokens = source
    translation, target_ids, target_tokens = target
    device = program.device
    stream = PaddedBatch.pad([source_values], device)
    log_probabilities, weights = program.attend(stream, torch.tensor([[BOS, *target_ids, EOS]], device=device))
    lengths = len(source_tokens), len(target_ids) + 1
    return Attention(
        text=text,
        translation=translation,
        forced=forced,
        log_probability=float(log_probabilities.double().sum()),
        source=tuple(source_tokens),
        target_input=(BEGIN, *target_tokens),
        target=(*target_tokens, END),
        encoder=_stack_layers(weights, "encoder", _SELF_ATTENTION, (lengths[0], lengths[0])),
        decoder=_stack_layers(weights, "decoder", _SELF_ATTENTION, (lengths[1], lengths[1])),
        cross=_stack_layers(weights, "decoder", CROSS_ATTENTION, (lengths[1], lengths[0])),
        backend=program.backend,
        precision=program.precision,
        language_tokens=language_tokens,
    )


def _stack_layers(weights: Mapping[str, Tensor], stack: str, kinds: tuple[str, ...], shape: tuple[int, int]) -> Tensor:
    """Stack the attention weights of all encoder or decoder layers, for the given kinds of sub-layers.

    Args:
        weights: Weights by name, such as `encoder.0.self_attention`, each [1, h, queries, keys].
        stack: `encoder` or `decoder`.
        kinds: Kinds of the sub-layers. A layer has at most one sub-layer of these kinds.
        shape: Numbers of queries and keys. They are only used for the empty result if there are no such sub-layers.

    Returns:
        The weights, [layers, h, queries, keys].
    """
    layers = layers_of(weights, stack, kinds)
    return torch.stack([layers[layer][0] for layer in sorted(layers)]) if layers else torch.empty(0, 1, *shape)


def layers_of(weights: Mapping[str, Tensor], stack: str, kinds: Sequence[str]) -> dict[int, Tensor]:
    """Return the attention weights of encoder or decoder sub-layers, on the CPU, keyed by layer index."""
    pattern = re.compile(rf"{stack}\.(\d+)\.({'|'.join(kinds)})")
    matches = {name: pattern.fullmatch(name) for name in weights}
    return {int(match[1]): weights[name].float().cpu() for name, match in matches.items() if match}


def _words(tokens: Sequence[str], single: int) -> Iterator[slice]:
    """Yield the token positions of each word as a slice. Each of the first `single` tokens is a word by itself."""
    start = 0
    for position, token in enumerate(tokens):
        continues = position > single and (tokens[position - 1].endswith(SEPARATOR) or not token.startswith(SPACE))
        if position and (token == END or not continues):
            yield slice(start, position)
            start = position
    yield slice(start, len(tokens))


def _join_tokens(tokens: Sequence[str]) -> str:
    """Join the tokens in a word, including tokens for single bytes, into a string."""
    word = b"".join(
        bytes([int(match[1], 16)]) if (match := _BYTE.fullmatch(token)) else token.replace(SPACE, " ").encode()
        for token in tokens
    )
    return word.decode(errors="replace").replace(f"{SEPARATOR} ", "").strip() or SPACE


def _sum(words: Sequence[slice]) -> Float[Tensor, "tokens words"]:
    """Return a matrix such that `x @ matrix` adds up the columns of each word's tokens."""
    return torch.eye(len(words)).repeat_interleave(torch.tensor([word.stop - word.start for word in words]), 0)


def _mean(words: Sequence[slice]) -> Float[Tensor, "words tokens"]:
    """Return a matrix such that `matrix @ x` averages the rows of each word's tokens."""
    matrix = _sum(words).T
    return matrix / matrix.sum(1, keepdim=True)
