"""Programs that bring a whole search of their own and no single step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch

from compiler.program import Searching
from specs import ZooError
from zoo.generation.groups import groups, padded
from zoo.generation.hypothesis import Hypothesis, length_penalty, require_usable
from zoo.generation.loop import Found
from zoo.generation.request import Request
from zoo.generation.source import Source, too_long
from zoo.system.device_memory import MEMORY_ERRORS, is_out_of_memory


def searched_by_program(
    program: Searching, windows: Iterable[Sequence[Source]], request: Request, device: torch.device
) -> Iterator[Found]:
    """What `search` would find, as far as their search finds it.

    Raises ZooError for what such a search cannot do, for a sentence that does not fit the memory alone, and for a
    program whose probabilities are not usable.
    """
    name = type(program).__name__
    if request.search != "beam":
        raise ZooError(f"{name} searches by itself, and does not sample", hint="take another backend, such as `auto`")
    if request.constraint is not None:
        problem = f"{name} searches by itself, and what it may produce cannot be constrained"
        raise ZooError(problem, hint="take another backend, such as `auto`")
    if request.stopping_rule == "shrinking":
        problem = (
            f"{name} searches by itself, and its beam does not shrink (`decoding.stopping_rule` of the model's spec)"
        )
        raise ZooError(problem, hint="take another backend, such as `auto`")
    for window in windows:
        if any(source.prefix for source in window):
            problem = f"{name} searches by itself, and cannot be given the beginning of a translation"
            raise ZooError(problem, hint="take another backend, such as `auto`")
        for group in groups([len(source.tokens) for source in window], request.tokens):
            yield from _found(program, [window[place] for place in group], request, device)


def _found(program: Searching, sources: Sequence[Source], request: Request, device: torch.device) -> Iterator[Found]:
    several = None
    try:
        several = program.hypotheses(
            padded([source.tokens for source in sources], device),
            [source.limit for source in sources],
            beam=request.beam,
            alpha=request.alpha,
            suppressed_tokens=() if request.suppressed_tokens is None else request.suppressed_tokens.tokens,
            least=0 if request.suppressed_tokens is None else request.suppressed_tokens.least,
        )
    except MEMORY_ERRORS as error:
        if not is_out_of_memory(error):
            raise
    if several is None:
        if len(sources) == 1:
            raise too_long(sources[0])
        half = len(sources) // 2
        yield from _found(program, sources[:half], request, device)
        yield from _found(program, sources[half:], request, device)
        return
    for source, found in zip(sources, several, strict=True):
        scored = [_scored(*each, request) for each in found]
        require_usable([each.score for each in scored])
        yield source.index, sorted(scored, key=lambda hypothesis: -hypothesis.score)[: request.n_best]


def _scored(tokens: tuple[int, ...], log_probability: float, request: Request) -> Hypothesis:
    penalty = length_penalty(len(tokens) + 1, request.alpha, request.length_penalty)
    return Hypothesis(tokens, log_probability, log_probability / penalty)
