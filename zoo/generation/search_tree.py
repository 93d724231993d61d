"""Record the beam search of one sentence as a tree that shows why each hypothesis was kept or lost (`zoo search`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, Unpack

import torch
from torch import Tensor

from compiler.program import TopK
from specs import EOS, ZooError
from zoo.generation.attention import BEGIN, END
from zoo.generation.beam_search import BeamSearch
from zoo.generation.config import GenerationOptions
from zoo.generation.hypotheses import SearchHistory, Selection
from zoo.generation.translation import Translation
from zoo.generation.translator import Translator
from zoo.text.lines import clean
from zoo.text.sentences import check_text

if TYPE_CHECKING:
    from jaxtyping import Float32

Fate = Literal["kept", "result", "worse", "pruned", "stopped"]
"""Outcome of a hypothesis: it was continued; it was returned; it finished with a worse score than the result; it was
removed from the beam; or it was unfinished when the search stopped."""
FATE_TITLES: Mapping[Fate, str] = {
    "kept": "kept",
    "result": "result",
    "worse": "finished, but worse",
    "pruned": "pruned",
    "stopped": "unfinished",
}


@dataclass(eq=False)
class Expansion:
    """A candidate of a step: a hypothesis of the beam, and one more token."""

    parent: Expansion | None
    """The hypothesis without the last token. None for the root."""
    token: str
    """The last token. `</s>` finishes the hypothesis."""
    token_id: int
    log_probability: float
    """Natural log-probability of the last token."""
    total: float
    """Natural log-probability of the hypothesis: the sum over its tokens."""
    length: int
    """Number of tokens, with `</s>`."""
    penalty: float
    """Length penalty for this length."""
    fate: Fate = "kept"
    reason: str = ""
    """Why the hypothesis was lost. Empty if it was kept or is the result."""
    best: bool = False
    """Whether the hypothesis is the best result or its beginning."""
    children: list[Expansion] = field(default_factory=list)
    """The continuations that were among the candidates of the next step, most probable first."""

    @property
    def score(self) -> float:
        """Log-probability divided by the length penalty (paper, section 6.1)."""
        return self.total / self.penalty

    @property
    def path(self) -> tuple[Expansion, ...]:
        """The hypotheses from the first token to this one."""
        reversed_path = []
        each = self
        while each.parent is not None:
            reversed_path.append(each)
            each = each.parent
        return tuple(reversed(reversed_path))

    @property
    def outcome(self) -> str:
        """The fate and its reason, such as "pruned: its total -2.81 is below -2.51, ..."."""
        title = "best" if self.best and self.fate == "kept" else FATE_TITLES[self.fate]
        return f"{title}: {self.reason}" if self.reason else title


@dataclass(frozen=True, eq=False)
class SearchTree:
    """The beam search of one sentence."""

    text: str
    result: Translation
    """The best hypothesis, as `zoo decode` prints it."""
    root: Expansion
    """The hypothesis before the first step: BOS, and the tokens that the translation must start with."""
    steps: tuple[tuple[Expansion, ...], ...]
    """The candidates of each step, most probable first."""
    considered: int
    """Number of continuations from which the candidates were chosen."""
    beam: BeamSearch
    stop: str
    """Why the search has stopped, as a sentence."""
    backend: str

    def __iter__(self) -> Iterator[Expansion]:
        """Yield the candidates of all steps."""
        for step in self.steps:
            yield from step

    @property
    def settings(self) -> str:
        """The options of the search, for people."""
        penalty = {"gnmt": "((5 + length) / 6)", "power": "length"}[self.beam.length_penalty]
        return (
            f"beam size {self.beam.size}, length penalty {penalty}^{self.beam.alpha:g}, stopping rule "
            f"“{self.beam.stopping_rule}”, backend {self.backend or 'unknown'}"
        )

    @property
    def summary(self) -> str:
        """Why the search has stopped, and how many hypotheses it has considered, for people."""
        others = self.considered - sum(map(len, self.steps))
        if not others:
            return f"{self.stop} It considered {self.considered:,} hypotheses."
        return (
            f"{self.stop} It considered {self.considered:,} hypotheses. {others:,} of them were not among the "
            f"{self.beam.candidates} candidates of their step, and are not shown."
        )


class _Candidate(NamedTuple):
    row: int
    token: int
    log_probability: float
    total: float
    excluded: bool
    """Whether a stopping rule has excluded the candidate."""


class _Step(NamedTuple):
    """Copy of one decoding step of one sentence."""

    start: float
    """Log-probability of the first row before the step."""
    considered: int
    """Number of possible continuations of all rows."""
    candidates: dict[int, _Candidate]
    """The candidates by their index in the selection. Unused indices are left out."""
    live: dict[int, int]
    """For each candidate that becomes a row of the next step, this row."""


class SearchRecorder:
    """Observer that copies the steps of the beam search of one sentence."""

    def __init__(self) -> None:
        self.history: SearchHistory | None = None
        self.steps: list[_Step] = []

    def record_step(
        self,
        histories: Sequence[SearchHistory],
        continuations: TopK,
        totals: Float32[Tensor, "sentences rows"],
        selection: Selection,
    ) -> None:
        """Copy a step to the host. Raise ValueError if the batch has several sentences."""
        (history,) = histories
        self.history = history
        values, tokens = continuations.values, continuations.tokens
        if history.must_end:
            values = continuations.ends.unsqueeze(1)
            tokens = torch.full_like(values, EOS, dtype=torch.long)
        new_totals = totals[0].unsqueeze(1) + values
        values, tokens, new_totals = values.cpu(), tokens.cpu(), new_totals.cpu()
        chosen = zip(
            selection.totals[0].tolist(), selection.parents[0].tolist(), selection.tokens[0].tolist(), strict=True
        )
        candidates: dict[int, _Candidate] = {}
        known: set[tuple[int, int]] = set()
        for index, (total, row, token) in enumerate(chosen):
            column = (tokens[row] == token).nonzero().flatten().tolist()[:1]
            own_total = float(new_totals[row, column[0]]) if column else -math.inf
            if own_total == -math.inf or (row, token) in known:  # an unused entry of the selection
                continue
            known.add((row, token))
            value = float(values[row, column[0]])
            candidates[index] = _Candidate(row, token, value, own_total, total == -math.inf)
        live = zip(selection.live[0].tolist(), selection.live_totals[0].tolist(), strict=True)
        rows = {candidate: row for row, (candidate, total) in enumerate(live) if total != -math.inf}
        self.steps.append(_Step(float(totals[0, 0]), int(new_totals.isfinite().sum()), candidates, rows))


def record_search(
    translator: Translator,
    text: str,
    *,
    source: str | None = None,
    target: str | None = None,
    split: bool = True,
    **options: Unpack[GenerationOptions],
) -> SearchTree:
    """Translate or parse one sentence by beam search, and return the search as a tree.

    Args:
        translator: The model. It can be an ensemble.
        text: The sentence.
        source: Code of the language of the text (see `Translator.translate`).
        target: Code of the language to translate into.
        split: Whether to split the text into sentences, as `translate` does. A text of several sentences is then
            refused.
        **options: Options of the search. Defaults come from the spec.

    Raises:
        ZooError: The text is empty, or would be translated in several parts; or an option is out of range.
    """
    check_text(text, 1, "text")
    config = translator.config(None, {**options, "search": "beam"})
    preprocessor = translator.preprocessor(source, target, split=split)
    encoded = preprocessor.encode(text, "", 0)
    if not encoded.parts:
        raise ZooError("there is no search for an empty text", hint="give a sentence")
    if len(encoded.parts) > 1:
        hint = (
            "give one of them" if encoded.too_long else "give one of them, or translate the text whole (`--no-split`)"
        )
        raise ZooError(f"the text is translated in {len(encoded.parts)} parts, each with its own search", hint=hint)
    recorder = SearchRecorder()
    with preprocessor.warnings:
        ((_, (result, *_)),) = translator.translate_chunks([[(text, "")]], config, preprocessor, observer=recorder)
    beam = config.strategy(translator.constraint)
    assert isinstance(beam, BeamSearch)
    history = recorder.history
    assert history is not None
    builder = _TreeBuilder(beam, history, recorder.steps, translator)
    root, steps = builder.build()
    considered, stop = sum(step.considered for step in builder.steps), _describe_stop(history, beam)
    return SearchTree(clean(text), result, root, steps, considered, beam, stop, translator.backend)


class _TreeBuilder:
    """Builder of the tree from the recorded steps, and from the history that has decided about them."""

    def __init__(
        self, beam: BeamSearch, history: SearchHistory, steps: Sequence[_Step], translator: Translator
    ) -> None:
        self.beam, self.history = beam, history
        # On a GPU, one more step runs before the host knows that the search is done.
        self.steps = steps[: history.steps]
        ids = sorted(
            {each.token for step in self.steps for each in step.candidates.values()} | {*history.source.prefix}
        )
        self.strings = {**dict(zip(ids, translator.vocabulary.token_strings(ids), strict=True)), EOS: END}
        self.results = {(each.step, each.candidate): rank for rank, each in enumerate(history.finished)}

    def build(self) -> tuple[Expansion, tuple[tuple[Expansion, ...], ...]]:
        """Return the root, and the candidates of each step."""
        prefix, total = self.history.source.prefix, self.steps[0].start
        name = " ".join([BEGIN, *(self.strings[token] for token in prefix)])
        penalty = self.history.penalty(len(prefix)) if prefix else 1.0
        root = Expansion(None, name, 0, total, total, len(prefix), penalty, best=True)
        rows = {0: root}
        steps = []
        for number, step in enumerate(self.steps):
            expansions = {
                index: self._expansion(number, index, rows[candidate.row])
                for index, candidate in step.candidates.items()
            }
            for each in expansions.values():
                assert each.parent is not None
                each.parent.children.append(each)
            rows = {row: expansions[index] for index, row in step.live.items()}
            steps.append(tuple(expansions.values()))
        for each in (each for step in steps for each in step if each.fate == "kept"):
            if all(child.fate == "pruned" for child in each.children):
                each.reason = "none of its continuations stayed in the beam"
        return root, tuple(steps)

    def _expansion(self, number: int, index: int, parent: Expansion) -> Expansion:
        """Return candidate `index` of a step with its fate."""
        step, history = self.steps[number], self.history
        _, token, value, total, excluded = step.candidates[index]
        length = len(history.source.prefix) + number + 1
        new = Expansion(parent, self.strings[token], token, value, total, length, history.penalty(length))
        ends = token == EOS or (history.truncate and length > history.source.max_length)
        if excluded or not (ends or index in step.live):
            new.fate, new.reason = "pruned", self._pruning_reason(step, index)
        elif (number, index) in self.results:
            new.fate = "result"
            ancestor: Expansion | None = new if self.results[number, index] == 0 else None
            while ancestor is not None:
                ancestor.best, ancestor = True, ancestor.parent
        elif ends:
            best = history.finished[-1].score
            new.fate, new.reason = "worse", f"its score {_compare(new.score, best)}, the score of the result"
        elif number == len(self.steps) - 1:
            new.fate, new.reason = "stopped", self._stopping_reason(new)
        return new

    def _pruning_reason(self, step: _Step, index: int) -> str:
        pruned = step.candidates[index]
        if pruned.excluded and self.beam.stopping_rule == "full":
            return f"only the first {self.beam.size} candidates of a step may finish, and it is number {index + 1}"
        if pruned.excluded:
            return f"finished hypotheses have reduced the beam to {len(step.live)}"
        worst = min(step.candidates[candidate].total for candidate in step.live)
        return f"its total {_compare(pruned.total, worst)}, the worst total in the beam"

    def _stopping_reason(self, live: Expansion) -> str:
        if self.history.stop_reason == "full":
            return f"the search stopped, because {self.history.max_finished} hypotheses had finished"
        limit = _compare(live.total / self.history.max_penalty, self.history.finished[-1].score)
        return f"its best possible score {limit}, the score of the result"


def _describe_stop(history: SearchHistory, beam: BeamSearch) -> str:
    match history.stop_reason:
        case "decided":
            return "The search stopped because no unfinished hypothesis could still reach the score of the result."
        case "full":
            return f"The search stopped because {beam.size} hypotheses had finished (stopping rule “full”)."
        case "exhausted":
            return "The search stopped because no unfinished hypothesis was left in the beam."
        case _:
            return f"The search stopped at the maximum length of {history.source.max_length} tokens."


def _compare(value: float, other: float) -> str:
    """Format "VALUE is below OTHER" with as many decimals as are needed to show the difference."""
    for decimals in range(2, 8):
        texts = f"{value:.{decimals}f}", f"{other:.{decimals}f}"
        if texts[0] != texts[1]:
            return " is below ".join(texts)
    return f"{value:.2f} equals {other:.2f}"
