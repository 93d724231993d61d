"""What a model looked at: the attention of every head of every layer, over one text and one translation of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from compiler import EmittedProgram
from specs import ZooError
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory
from zoo.text.tokenizer import SPACE

BEGIN, END = "<s>", "</s>"
"""How BOS and EOS are called among tokens; no text has a token that is called so."""
_OWN = ("self_attention", "restricted_attention")
"""Those to a side's own positions."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")


@dataclass(frozen=True, eq=False)
class Attention:
    """Who looked at what, layer by layer from the first, head by head; float32, on the CPU (paper, section 3.2).

    A row is a query: it sums to 1 over what it looks at. Tokens are as SentencePiece has them, `▁` where a word begins;
    those of a parser's target are brackets. A stack without such an attention has no layers of it.
    """

    text: str
    translation: str
    """A tree in brackets, of a parser."""
    forced: bool
    """Whether the translation was given; else it is the model's own."""
    log_probability: float
    """Of the whole translation given the text: the natural logarithm, EOS counted."""
    source: tuple[str, ...]
    """Tokens of the text, `</s>` last."""
    read: tuple[str, ...]
    """What each position of the decoder reads: `<s>`, then the tokens of the translation."""
    written: tuple[str, ...]
    """What each position of the decoder writes: those tokens, then `</s>`."""
    encoder: Float[Tensor, "layers h source source"]
    """The encoder's self-attention: rows and columns are `source`."""
    decoder: Float[Tensor, "layers h target target"]
    """The decoder's self-attention: rows `written`, columns `read`, of which a row sees those before what it writes."""
    memory: Float[Tensor, "layers h target source"]
    """The decoder's attention to the encoder's output: rows `written`, columns `source`."""
    backend: str
    precision: str

    def by_words(self) -> Attention:
        """The same over words: what a word looks at is the mean of its tokens; it is looked at as all of them are.

        Rows sum to 1 still. What has no spaces is one word.
        """
        source, read, written = (list(_words(tokens)) for tokens in (self.source, self.read, self.written))
        rows, columns, keys = _mean(written), _sum(read), _sum(source)
        return replace(
            self,
            source=tuple(_spelled(self.source[word]) for word in source),
            read=tuple(_spelled(self.read[word]) for word in read),
            written=tuple(_spelled(self.written[word]) for word in written),
            encoder=_mean(source) @ self.encoder @ keys,
            decoder=rows @ self.decoder @ columns,
            memory=rows @ self.memory @ keys,
        )


class Row(NamedTuple):
    """A text as the model takes it."""

    text: str
    ids: Sequence[int]
    """Its tokens and EOS; of a target, BOS before them."""
    tokens: Sequence[str]
    """What they are called, BOS and EOS not."""


@torch.no_grad()
def attention(program: EmittedProgram, source: Row, target: Row, *, forced: bool) -> Attention:
    """What a program that was built to attend gives out of these two.

    Raises ZooError where the memory does not suffice.
    """
    lengths = len(source.ids), len(target.ids) - 1
    given = (torch.tensor([list(row.ids)], device=program.device) for row in (source, target))
    try:
        log_probabilities, found = program.attend(*given)
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error):
            raise
        raise ZooError(
            f"there is not enough memory for the attention of {lengths[0] - 1:,} tokens of source and "
            f"{lengths[1] - 1:,} of target",
            hint="attend to a shorter sentence",
            exit_code=1,
        ) from None
    return Attention(
        text=source.text,
        translation=target.text,
        forced=forced,
        log_probability=float(log_probabilities.double().sum()),
        source=(*source.tokens, END),
        read=(BEGIN, *target.tokens),
        written=(*target.tokens, END),
        encoder=_stacked(found, "encoder", _OWN, (lengths[0], lengths[0])),
        decoder=_stacked(found, "decoder", _OWN, (lengths[1], lengths[1])),
        memory=_stacked(found, "decoder", ("cross_attention",), (lengths[1], lengths[0])),
        backend=program.backend,
        precision=program.precision,
    )


def _stacked(found: dict[str, Tensor], stack: str, kinds: tuple[str, ...], shape: tuple[int, int]) -> Tensor:
    """The attentions of these kinds, a layer after another: [layers, h, queries, keys]"""
    names = [name for name in found if name.startswith(f"{stack}.") and name.rpartition(".")[2] in kinds]
    layers = [found[name][0].cpu() for name in sorted(names, key=lambda name: int(name.split(".")[1]))]
    return torch.stack(layers) if layers else torch.empty(0, 1, *shape)


def _words(tokens: Sequence[str]) -> Iterator[slice]:
    """Where each word stands among the tokens."""
    begin = 0
    for place, token in enumerate(tokens):
        begins = token.startswith(SPACE) or token in (BEGIN, END) or tokens[place - 1] == BEGIN
        if begins and place:
            yield slice(begin, place)
            begin = place
    yield slice(begin, len(tokens))


def _spelled(tokens: Sequence[str]) -> str:
    """A word of these tokens, as it is read."""
    spelled = b"".join(
        bytes([int(found[1], 16)]) if (found := _BYTE.fullmatch(token)) else token.replace(SPACE, " ").encode()
        for token in tokens
    )
    return spelled.decode(errors="replace").strip() or SPACE


def _sum(words: Sequence[slice]) -> Float[Tensor, "tokens words"]:
    together = torch.zeros(words[-1].stop, len(words))
    for number, word in enumerate(words):
        together[word, number] = 1.0
    return together


def _mean(words: Sequence[slice]) -> Float[Tensor, "words tokens"]:
    together = _sum(words).T
    return together / together.sum(1, keepdim=True)
