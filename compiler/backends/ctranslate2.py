"""CTranslate2: an engine of its own, to which a model is handed in its own format, written through its Python API.

It takes no graph, only weights of the Transformer that it knows, and it searches by itself: its program scores given
translations and looks for translations, but has no single step. That makes it an oracle for everything of ours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from compiler.backends.backend import Backend, BuildRequest
from compiler.backends.ctranslate2_format import POSITIONS, beyond, tokens, written
from compiler.graph import Graphs, Purpose
from compiler.host import cores
from compiler.program import Found
from specs import BOS, EOS, PAD, ZooError

Row = tuple[int, ...]


class CTranslate2:
    """A model in CTranslate2, with one worker of one thread for every core unless other counts are given."""

    search: Literal["own"] = "own"
    backend = "ctranslate2"
    concurrent = False  # it has threads of its own

    def __init__(self, order: BuildRequest, folder: Path, workers: int | None = None, threads: int = 1) -> None:
        import ctranslate2

        self.order, self.spec, self.device = order, order.spec, torch.device(order.device)
        self.precision = order.precision
        self.graphs: Graphs = {purpose: graph for purpose, graph in order.graphs.items() if purpose is Purpose.SCORE}
        self.workers = workers or cores()
        ours = torch.get_num_threads()
        self.translator: Any = ctranslate2.Translator(
            str(folder),
            device=self.device.type,
            device_index=self.device.index or 0,
            compute_type=order.precision,
            inter_threads=self.workers,
            intra_threads=threads,
        )
        # It sets OpenMP's threads in whoever loads it, and the order of torch's sums depends on them.
        torch.set_num_threads(ours)
        self.source, self.target = tokens(order.spec, "source"), tokens(order.spec, "target")
        self.index = {token: index for index, token in enumerate(self.target)}
        architecture = order.spec.architecture
        self.positions = architecture.max_positions if architecture.positional_encoding == "learned" else POSITIONS

    def score(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]
    ) -> Float[Tensor, "batch target"]:
        """The log-probability of each target token given those before it, in nats, and 0 at padding."""
        given = [_unpadded(row)[1:] for row in target.tolist()]
        scores = torch.zeros(target.shape[0], target.shape[1] - 1)
        # It puts BOS and EOS round a target by itself.
        bodies = [row[:-1] if row[-1:] == [EOS] else row for row in given]
        for row, wanted, found in zip(scores, given, self._scored(self._sources(source), bodies), strict=True):
            row[: len(wanted)] = torch.tensor(found[: len(wanted)])
        return scores.to(target.device)

    def hypotheses(
        self,
        source: Int[Tensor, "sentences source"],
        limits: Sequence[int],
        *,
        beam: int,
        alpha: float,
        suppressed_tokens: Sequence[int] = (),
        least: int = 0,
    ) -> list[list[Found]]:
        """What its own beam search finds for each source, in no order; `limits` as in ours.

        Its search stops otherwise than ours: with alpha = 0 where the best of a step has ended, else at `beam` ends,
        of which it keeps those that are best by log-probability / length^alpha. And it searches as if PAD, BOS and what
        is suppressed had no share of the probabilities. So what it found is scored anew.
        """
        rows = self._sources(source, max(limits, default=0) + 1)
        under_way: dict[int, Any] = {}
        for limit in sorted(set(limits)):
            chosen = [index for index, each in enumerate(limits) if each == limit]
            begun = self.translator.translate_batch(
                [rows[index] for index in chosen],
                beam_size=beam,
                length_penalty=alpha,
                num_hypotheses=beam,
                max_batch_size=-(-len(chosen) // self.workers),
                max_input_length=0,
                min_decoding_length=min(least, limit),
                max_decoding_length=limit + 1,
                suppress_sequences=[[self.target[token]] for token in sorted({PAD, BOS, *suppressed_tokens})],
                return_end_token=True,
                asynchronous=True,
            )
            under_way.update(zip(chosen, begun, strict=True))
        found = [self._rows(under_way[index].result(), limit) for index, limit in enumerate(limits)]
        several = [(source, row) for source, each in zip(rows, found, strict=True) for row in each]
        totals = iter(self._scored([source for source, _ in several], [row for _, row in several]))
        return [[Found(row, sum(next(totals))) for row in each] for each in found]

    def weights(self) -> dict[str, Tensor]:
        """The tensors of a weights file, in its layout."""
        return dict(self.order.weights)

    def _rows(self, result: Any, limit: int) -> list[Row]:
        """The tokens of each of its hypotheses but for EOS; one that was cut off has to end at the limit."""
        rows = [tuple(self.index[word] for word in words) for words in result.hypotheses]
        return list(dict.fromkeys(row[:-1] if row[-1:] == (EOS,) else row[:limit] for row in rows))

    def _sources(self, source: Tensor, target: int = 0) -> list[list[str]]:
        """Rows as it takes them. Raises ZooError where they, or `target` tokens, are longer than its positions."""
        rows = [[self.source[index] for index in _unpadded(row)] for row in source.tolist()]
        if (longest := max(target, *map(len, rows), 0)) > self.positions:
            raise ZooError(
                f"a sentence takes {longest:,} positions, and this model has {self.positions:,} in CTranslate2",
                hint="split the line into sentences, or take another backend",
            )
        return rows

    def _scored(self, sources: list[list[str]], targets: Sequence[Sequence[int]]) -> list[list[float]]:
        words = [[self.target[index] for index in row] for row in targets]
        if not words:
            return []
        share = -(-len(words) // self.workers)
        found = self.translator.score_batch(sources, words, max_batch_size=share, max_input_length=0)
        return [result.log_probs for result in found]


def _unpadded(row: list[int]) -> list[int]:
    return [index for index in row if index != PAD]


def _absent() -> str | None:
    if importlib.util.find_spec("ctranslate2"):
        return None
    return "CTranslate2 is not installed: `pip install -e '.[ctranslate2]'` in zoo's own folder"


def _refuses(order: BuildRequest) -> str | None:
    import ctranslate2

    if Purpose.TRAIN in order.graphs:
        return "it only translates: train with the backend `eager`"
    if Purpose.ATTEND in order.graphs:
        return "it gives out no attention weights: take the backend `eager`"
    device, precision = order.device.partition(":")[0], order.precision
    if device == "cuda" and not ctranslate2.get_cuda_device_count():
        return "this CTranslate2 was built without CUDA, or sees no GPU: say `--device cpu`"
    if precision not in (able := ctranslate2.get_supported_compute_types(device)):
        can = ", ".join(sorted({"float32", "bfloat16", "int8"} & able))
        return f"CTranslate2 does not compute in {precision} on this {device}: take {can}"
    why = beyond(order)
    return f"{why}: take another backend" if why else None


ctranslate2 = Backend(
    name="ctranslate2",
    summary="CTranslate2's engine and search, in its own format",
    absent=_absent,
    refuses=_refuses,
    build=lambda order: CTranslate2(order, written(order)),
)
