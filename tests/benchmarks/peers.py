"""Systems whose translation speed `decode.py` measures: zoo, CTranslate2 and Hugging Face's transformers.

All systems use the same random weights, which make PAD, UNK, BOS and EOS so improbable that no search chooses them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from compiler import Purpose, build, graphs
from compiler.assemble import initial_weights
from compiler.padded_batch import PaddedBatch
from specs import BOS, EOS, PAD, UNK, Spec
from zoo.generation.translation import pad_sequences
from zoo.interop.ctranslate2.exporter import transformer
from zoo.interop.huggingface.family import Family
from zoo.interop.huggingface.marian import HuggingFaceMarian
from zoo.interop.huggingface.multilingual import Multilingual
from zoo.interop.huggingface.tokenizer import WrittenIds
from zoo.training.benchmarks import LENGTH, translations, weights_avoiding

Rows = list[list[int]]
CORES = len(os.sched_getaffinity(0))


class System(Protocol):
    """System that translates with the beam size and length penalty of a spec."""

    def run(self, sources: Rows, batch: int) -> Rows:
        """Translate token IDs in batches of `batch` sentences, in LENGTH steps each. Only this method is timed."""

    def best(self, sources: Rows) -> Rows:
        """Return the best translation of each source, which has LENGTH tokens without EOS."""
        return self.run(sources, 32)


class Zoo:
    """zoo's search. It must end with EOS, so that a translation of LENGTH - 1 tokens and EOS takes LENGTH steps."""

    def __init__(self, spec: Spec, backend: str, precision: str, folder: Path) -> None:
        self.spec = spec
        self.program: Any = build(spec, weights=_weights(spec), backend=backend, precision=precision, folder=folder)

    def run(self, sources: Rows, batch: int) -> Rows:
        found = translations(self.program, sources, self.spec, batch=batch)
        return [[*best.tokens, EOS] for best, *_ in found]

    def best(self, sources: Rows) -> Rows:
        """Return the best translation of LENGTH tokens. Ignore the log-probability of EOS, as the other systems do."""
        n_best = self.spec.decoding.beam
        found = translations(self.program, sources, self.spec, batch=32, n_best=n_best, length=LENGTH + 1)
        tokens = [[list(each.tokens) for each in every] for every in found]
        return [self._most_probable(source, each) for source, each in zip(sources, tokens, strict=True)]

    def _most_probable(self, source: list[int], hypotheses: Rows) -> list[int]:
        target = torch.tensor([[BOS, *tokens, EOS] for tokens in hypotheses])
        with torch.no_grad():
            scores = self.program.score(PaddedBatch.pad([source] * len(hypotheses)), target)
        return hypotheses[int(scores[:, :-1].sum(1).argmax())]


class CTranslate2(System):
    """CTranslate2 with `workers` workers, which have `threads` threads each."""

    def __init__(self, spec: Spec, precision: str, workers: int, threads: int, folder: Path) -> None:
        import ctranslate2

        self.names = [f"token{number}" for number in range(max(spec.vocabulary.sizes))]
        self.index = {name: number for number, name in enumerate(self.names)}
        self.options = {"beam_size": spec.decoding.beam, "length_penalty": spec.decoding.alpha}
        model = folder / f"ctranslate2-{precision}-{workers}x{threads}"
        self._write(spec, precision, model)
        counts = {"inter_threads": workers, "intra_threads": threads}
        self.translator: Any = ctranslate2.Translator(str(model), compute_type=precision, **counts)

    def run(self, sources: Rows, batch: int) -> Rows:
        rows = [[self.names[token] for token in source] for source in sources]
        lengths = {"min_decoding_length": LENGTH, "max_decoding_length": LENGTH, "max_input_length": 0}
        results = self.translator.translate_batch(rows, max_batch_size=batch, **lengths, **self.options)
        return [[self.index[name] for name in result.hypotheses[0]] for result in results]

    def _write(self, spec: Spec, precision: str, folder: Path) -> None:
        model = transformer(spec, _weights(spec))
        source, target = (self.names[:size] for size in spec.vocabulary.sizes)
        model.register_source_vocabulary(source)
        model.register_target_vocabulary(target)
        model.config.unk_token, model.config.bos_token, model.config.eos_token = target[UNK], target[BOS], target[EOS]
        model.config.decoder_start_token = target[BOS]
        model.config.add_source_eos = False  # the sources end with EOS
        model.config.layer_norm_epsilon = spec.architecture.norm.epsilon
        model.validate()
        model.optimize(precision)
        folder.mkdir(parents=True, exist_ok=True)
        model.save(str(folder))


class Transformers(System):
    """Hugging Face's `generate` with torch's default thread count: M2M-100 for pre-norm specs, otherwise Marian."""

    def __init__(self, spec: Spec) -> None:
        import transformers

        size = spec.vocabulary.size
        ids = WrittenIds(range(size), size, pad=PAD, end=EOS)
        family: Family = Multilingual() if spec.architecture.norm.placement == "pre" else HuggingFaceMarian()
        config = {**family.config(spec, ids), "bos_token_id": BOS}
        if isinstance(family, Multilingual):
            self.model: Any = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(**config))
        else:
            self.model = transformers.MarianMTModel(transformers.MarianConfig(**config))
        a = spec.architecture.model_copy(update={"projection_bias": True})
        self._fill(spec, dict(family.tensors_of(a, spec, _weights(spec), ids)))
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

    def _fill(self, spec: Spec, tensors: dict[str, Tensor]) -> None:
        """Load zoo's weights and positional encodings into the model, and set the epsilon of the layer norms."""
        self.model.eval()
        if strange := self.model.load_state_dict(tensors, strict=False).unexpected_keys:
            raise SystemExit(f"transformers has no {', '.join(strange)}")
        for module in self.model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = spec.architecture.norm.epsilon


def _weights(spec: Spec) -> dict[str, Tensor]:
    return weights_avoiding(spec, initial_weights(spec, graphs(spec, (Purpose.ENCODE, Purpose.DECODE_STEP))))


def names(backends: Sequence[str], precisions: Sequence[str]) -> list[str]:
    """Return the names of all systems, such as `native-int8`, `ctranslate2-int8` and `transformers-float32`."""
    return [f"{b}-{p}" for b in (*backends, "ctranslate2") for p in precisions] + ["transformers-float32"]


def settings(system: str) -> list[str]:
    """Return the name of a system with each of its thread settings. Only CTranslate2 has several thread settings."""
    return [f"{system}-{CORES}x1", f"{system}-1x{CORES}"] if system.startswith("ctranslate2-") else [system]


def open_system(name: str, spec: Spec, folder: Path) -> System:
    """Create the system with a name that `settings` returned."""
    kind, precision, *threads = name.split("-")
    if kind == "transformers":
        return Transformers(spec)
    if kind == "ctranslate2":
        workers, each = map(int, threads[0].split("x"))
        return CTranslate2(spec, precision, workers, each, folder)
    return Zoo(spec, kind, precision, folder)
