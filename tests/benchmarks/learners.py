"""Systems whose training speed `train.py` measures: zoo and other toolkits.

Calling a system with a batch runs one training step and returns the mean loss per target token. All systems train the
paper's architecture with label smoothing 0.1 and fused Adam on the same batches.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from compiler import build_module
from compiler.host import fast_float32, tune_process
from compiler.padded_batch import PaddedBatch
from compiler.runtime.layers import sinusoids
from specs import BOS, EOS, PAD, Spec
from tests.examples import changed
from zoo.data.batches import Batch
from zoo.report import Report
from zoo.training.distributed import Processes
from zoo.training.step import TrainStep

Learner = Callable[[Batch], float]


class Zoo:
    """zoo's training step, as in `zoo train`."""

    def __init__(self, spec: Spec, precision: str) -> None:
        tune_process()
        program = build_module(spec)
        self.switched = fast_float32()
        self.switched.__enter__()  # for the life of this process, which trains nothing else
        spec = changed(spec, "training", precision=precision, learning_rate_factor=0.005, warmup_steps=1)
        self.update = TrainStep(spec, program, Processes("cpu"), Report())
        self.done = 0

    def __call__(self, batch: Batch) -> float:
        self.done += 1
        result = self.update(self.done, batch)
        return float(result.smoothed) / batch.size.target_tokens


class Peer(ABC):
    """Base class for other toolkits: a training step with fused Adam for the toolkit's module."""

    def __init__(self, spec: Spec) -> None:
        torch.manual_seed(1)
        self.spec = spec
        self.module = self.build(spec).train()
        self.optimiser = torch.optim.Adam(self.module.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)

    @abstractmethod
    def build(self, spec: Spec) -> nn.Module:
        """Build the other toolkit's module for a spec."""

    @abstractmethod
    def losses(self, batch: Batch) -> Tensor:
        """Return the loss of a batch, summed over its target tokens."""

    def __call__(self, batch: Batch) -> float:
        self.optimiser.zero_grad()
        loss = self.losses(batch)
        torch.autograd.backward(loss / batch.size.target_tokens)
        self.optimiser.step()
        return float(loss.detach()) / batch.size.target_tokens

    @staticmethod
    def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
        options: dict[str, Any] = {"ignore_index": PAD, "label_smoothing": 0.1, "reduction": "sum"}
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), **options)


class _Plain(nn.Module):
    """nn.Transformer with one embedding matrix for the source, the target and the output."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        a = spec.architecture
        self.embedding = nn.Embedding(spec.vocabulary.size, a.d_model, padding_idx=PAD)
        nn.init.normal_(self.embedding.weight, std=a.d_model**-0.5)
        layers = (a.depths.encoder, a.depths.decoder)
        self.body = nn.Transformer(a.d_model, a.h, *layers, a.d_ff, a.dropout, batch_first=True)
        self.dropout = nn.Dropout(a.dropout)

    def placed(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * math.sqrt(self.embedding.embedding_dim)
        placed: Tensor = self.dropout(x + sinusoids(x))
        return placed

    def forward(self, stream: PaddedBatch, given: Tensor) -> Tensor:
        source = stream.values
        causal = nn.Transformer.generate_square_subsequent_mask(given.shape[1])
        is_padding = torch.arange(source.shape[1]) >= stream.lengths[:, None]
        padding = torch.zeros(source.shape).masked_fill(is_padding, -math.inf)
        masks: dict[str, Any] = {"tgt_mask": causal, "tgt_is_causal": True, "memory_key_padding_mask": padding}
        y: Tensor = self.body(self.placed(source), self.placed(given), src_key_padding_mask=padding, **masks)
        return functional.linear(y, self.embedding.weight)


class Torch(Peer):
    """Training step of PyTorch's nn.Transformer."""

    def build(self, spec: Spec) -> nn.Module:
        return _Plain(spec)

    def losses(self, batch: Batch) -> Tensor:
        logits: Tensor = self.module(batch.source, batch.target.values[:, :-1])
        return self.cross_entropy(logits, batch.target.values[:, 1:])


class Marian(Peer):
    """Training step of Hugging Face's MarianMTModel."""

    def build(self, spec: Spec) -> nn.Module:
        from transformers import MarianConfig, MarianMTModel

        a, size = spec.architecture, spec.vocabulary.size
        side = {"layers": a.N, "attention_heads": a.h, "ffn_dim": a.d_ff}
        sizes: Any = {f"{prefix}_{key}": value for prefix in ("encoder", "decoder") for key, value in side.items()}
        sizes |= {"d_model": a.d_model, "max_position_embeddings": 512, "vocab_size": size, "decoder_vocab_size": size}
        ids: Any = {"pad_token_id": PAD, "bos_token_id": BOS, "eos_token_id": EOS, "decoder_start_token_id": BOS}
        how: Any = {"dropout": a.dropout, "activation_function": "relu", "scale_embedding": True}
        return MarianMTModel(MarianConfig(**sizes, **ids, **how, forced_eos_token_id=None))

    def losses(self, batch: Batch) -> Tensor:
        source, target = batch.source.values, batch.target.values
        real, given = (torch.arange(source.shape[1]) < batch.source.lengths[:, None]).long(), target[:, :-1]
        found = self.module(input_ids=source, attention_mask=real, decoder_input_ids=given, use_cache=False)
        return self.cross_entropy(found.logits, target[:, 1:])


class Sockeye(Peer):
    """Training step of Sockeye 3.1, whose model is traced as in Sockeye's trainer."""

    def build(self, spec: Spec) -> nn.Module:
        logging.disable(logging.INFO)
        from sockeye.data_io import DataConfig
        from sockeye.encoder import EmbeddingConfig
        from sockeye.loss import CrossEntropyLoss
        from sockeye.model import ModelConfig, SockeyeModel
        from sockeye.transformer import TransformerConfig

        a, size = spec.architecture, spec.vocabulary.size
        sides, longest = ("source", "target"), {"max_seq_len_source": 512, "max_seq_len_target": 512}
        sizes = {"model_size": a.d_model, "num_layers": a.N, "attention_heads": a.h, "feed_forward_num_hidden": a.d_ff}
        dropout = {"dropout_attention": 0.0, "dropout_act": 0.0, "dropout_prepost": a.dropout}
        how = {"act_type": "relu", "positional_embedding_type": "fixed"}
        how |= {"preprocess_sequence": "n", "postprocess_sequence": "dr"}
        encoder, decoder = (TransformerConfig(**sizes, **longest, **dropout, **how) for _ in sides)
        decoder.depth_key_value = a.d_model
        data = DataConfig(data_statistics=None, num_source_factors=1, num_target_factors=1, **longest)
        tables: Any = {f"config_embed_{side}": EmbeddingConfig(size, a.d_model, a.dropout) for side in sides}
        tables |= {f"vocab_{side}_size": size for side in sides}
        model = SockeyeModel(ModelConfig(config_data=data, config_encoder=encoder, config_decoder=decoder, **tables))
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        nn.init.normal_(model.embedding_source.embedding.weight, std=a.d_model**-0.5)
        self.criterion = CrossEntropyLoss(label_smoothing=0.1)
        self.traced: Any = None
        assert isinstance(model, nn.Module)
        return model

    def losses(self, batch: Batch) -> Tensor:
        from sockeye import constants

        given, labels = batch.target.values[:, :-1], batch.target.values[:, 1:]
        lengths = batch.source.lengths
        inputs = (
            batch.source.values.int()[:, :, None],
            torch.stack([lengths, torch.zeros_like(lengths)], 1).int(),
            given.masked_fill(given == EOS, PAD).int()[:, :, None],
            (labels != PAD).sum(1).int(),
        )
        if self.traced is None:
            self.traced = torch.jit.trace(self.module, inputs, strict=False)  # type: ignore[no-untyped-call]
        outputs = self.criterion(self.traced(*inputs), {constants.TARGET_LABEL_NAME: labels})
        # A mean over the tokens, and the number of tokens.
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        every = [getattr(each, "value", each) for each in outputs]
        mean = sum(each for each in every if torch.is_tensor(each) and each.requires_grad)
        return mean * batch.size.target_tokens  # type: ignore[return-value]


SYSTEMS: Mapping[str, Callable[[Spec], Learner]] = {
    "zoo-bfloat16": lambda spec: Zoo(spec, "bfloat16"),
    "zoo-float32": lambda spec: Zoo(spec, "float32"),
    "nn.Transformer": Torch,
    "marian": Marian,
    "sockeye": Sockeye,
}
