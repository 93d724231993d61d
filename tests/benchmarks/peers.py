"""The systems that `decode.py` measures: ours by backend and precision, CTranslate2, Hugging Face's Marian.

All have the same weights, those of before training, in which PAD, UNK, BOS and EOS never win (`speed.unending`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from compiler import Purpose, build, graphs
from compiler.backends.backend import BuildRequest
from compiler.backends.ctranslate2 import CTranslate2
from compiler.backends.ctranslate2_format import written
from compiler.initialization import initial_weights
from specs import BOS, EOS, PAD, Spec
from zoo.generation.batching import pad_sequences
from zoo.interop.huggingface.exporter import marian_config, marian_tensors, require_marian
from zoo.training.benchmarks import LENGTH, translations, weights_avoiding

Rows = list[list[int]]
CORES = len(os.sched_getaffinity(0))


class System(Protocol):
    """Something that translates with the beam and the length penalty of a spec."""

    def run(self, sources: Rows, batch: int) -> Rows:
        """What is timed: LENGTH steps for each source, by batches of this many sentences."""

    def best(self, sources: Rows) -> Rows:
        """The LENGTH tokens, EOS not among them, that it finds top_k for each source."""


class Zoo:
    """Ours has to take EOS at the limit: LENGTH - 1 tokens and EOS take LENGTH steps, as LENGTH tokens do elsewhere."""

    def __init__(self, spec: Spec, backend: str, precision: str, folder: Path) -> None:
        self.spec = spec
        self.program: Any = build(spec, weights=_weights(spec), backend=backend, precision=precision, folder=folder)

    def run(self, sources: Rows, batch: int) -> Rows:
        found = translations(self.program, sources, self.spec, batch=batch)
        return [[*best.tokens, EOS] for best, *_ in found]

    def best(self, sources: Rows) -> Rows:
        """With a limit of LENGTH. Others know no EOS, so its part of the log-probability is taken off again."""
        n_best = self.spec.decoding.beam
        found = translations(self.program, sources, self.spec, batch=32, n_best=n_best, length=LENGTH + 1)
        tokens = [[list(each.tokens) for each in every] for every in found]
        return [self._likeliest(source, each) for source, each in zip(sources, tokens, strict=True)]

    def _likeliest(self, source: list[int], hypotheses: Rows) -> list[int]:
        target = torch.tensor([[BOS, *tokens, EOS] for tokens in hypotheses])
        with torch.no_grad():
            scores = self.program.score(torch.tensor([source] * len(hypotheses)), target)
        return hypotheses[int(scores[:, :-1].sum(1).argmax())]


class Peer:
    """CTranslate2 with this many workers of so many threads each, its model written by our backend."""

    def __init__(self, spec: Spec, precision: str, workers: int, threads: int, folder: Path) -> None:
        order = BuildRequest(spec, graphs(spec, precision=precision), _weights(spec), "cpu", precision, folder)
        self.options = {"beam_size": spec.decoding.beam, "length_penalty": spec.decoding.alpha}
        self.engine = CTranslate2(order, written(order), workers, threads)

    def run(self, sources: Rows, batch: int) -> Rows:
        rows = [[self.engine.source[index] for index in source] for source in sources]
        lengths = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH, "max_input_length": 0}
        found = self.engine.translator.translate_batch(rows, max_batch_size=batch, **lengths, **self.options)
        return [[self.engine.index[word] for word in result.hypotheses[0]] for result in found]

    def best(self, sources: Rows) -> Rows:
        return self.run(sources, 32)


class Marian:
    """Hugging Face's generate, on as many threads as torch takes."""

    def __init__(self, spec: Spec) -> None:
        from transformers import MarianConfig, MarianMTModel

        require_marian(spec)
        self.model: Any = MarianMTModel(MarianConfig(**marian_config(spec))).eval()
        self._fill(spec)
        self.options = {"num_beams": spec.decoding.beam, "length_penalty": spec.decoding.alpha, "do_sample": False}

    @torch.inference_mode()
    def run(self, sources: Rows, batch: int) -> Rows:
        found: Rows = []
        for start in range(0, len(sources), batch):
            rows = pad_sequences(sources[start : start + batch], self.model.device)
            mask, lengths = (rows != PAD).long(), {"min_new_tokens": LENGTH, "max_new_tokens": LENGTH}
            made = self.model.generate(input_ids=rows, attention_mask=mask, **lengths, **self.options)
            found += made[:, 1:].tolist()
        return found

    def best(self, sources: Rows) -> Rows:
        return self.run(sources, 32)

    def _fill(self, spec: Spec) -> None:
        """Our weights in its places, our positions, the epsilon of our norms."""
        strange = self.model.load_state_dict(dict(marian_tensors(spec, _weights(spec))), strict=False).unexpected_keys
        if strange:
            raise SystemExit(f"Marian has no {', '.join(strange)}")
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = spec.architecture.norm_epsilon


def _weights(spec: Spec) -> dict[str, Tensor]:
    return weights_avoiding(spec, initial_weights(spec, graphs(spec, (Purpose.ENCODE, Purpose.DECODE_STEP))))


def names(backends: Sequence[str], precisions: Sequence[str]) -> list[str]:
    """Every system there is: `native-int8`, `ctranslate2-int8`, `marian-float32` ..."""
    return [f"{b}-{p}" for b in (*backends, "ctranslate2") for p in precisions] + ["marian-float32"]


def settings(system: str) -> list[str]:
    """CTranslate2 is measured at both of its thread settings; others find their own."""
    return [f"{system}-{CORES}x1", f"{system}-1x{CORES}"] if system.startswith("ctranslate2-") else [system]


def open_system(name: str, spec: Spec, folder: Path) -> System:
    """The system of this name, as `settings` has them."""
    kind, precision, *threads = name.split("-")
    if kind == "marian":
        return Marian(spec)
    if kind == "ctranslate2":
        workers, each = map(int, threads[0].split("x"))
        return Peer(spec, precision, workers, each, folder)
    return Zoo(spec, kind, precision, folder)
