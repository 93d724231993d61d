"""CTranslate2: an engine of its own, to which a model is handed in its own format, written through its Python API.

It takes no graph, only weights of the Transformer that it knows, and it searches by itself: its program scores given
translations and looks for translations, but has no single step. That makes it an oracle for everything of ours.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from compiler.artefact import Artefact
from compiler.backends.backend import Backend, Order, digest
from compiler.graph import Graphs, Purpose, stored
from compiler.host import cores
from compiler.lower import lower
from compiler.lower.attention import scale
from compiler.operations.attention import Attention
from compiler.operations.embedding import Embed, Position
from compiler.operations.mask import CausalMask, PaddingMask
from compiler.operations.probability import LogSoftmax, Pick
from compiler.operations.projection import Linear, Logits
from compiler.operations.residual import Add, Dropout, Gelu, Norm, Relu, Silu
from compiler.operations.views import MergeHeads, Slice, SplitHeads
from compiler.program import Found
from compiler.runtime import sinusoids
from specs import BOS, EOS, PAD, UNK, Spec, ZooError

POSITIONS = 4096
"""Rows of the table that sinusoids become there: it has others of its own, so ours are written out."""

KNOWN = {
    *(Add, Attention, CausalMask, Dropout, Embed, Gelu, Linear, LogSoftmax, Logits),
    *(MergeHeads, Norm, PaddingMask, Pick, Position, Relu, Silu, Slice, SplitHeads),
}
"""What the Transformer that it knows is made of."""
LAYERS = {
    "encoder": ["self_attention", "feed_forward"],
    "decoder": ["self_attention", "memory_attention", "feed_forward"],
}
"""The sub-layers of each of its layers, in order."""
ACTIVATIONS = {"relu": "RELU", "silu": "SWISH", "gelu": "GELU"}
"""What it calls each curve."""

Row = tuple[int, ...]


class CTranslate2:
    """A model in CTranslate2, with one worker of one thread for every core unless other counts are given."""

    search: Literal["own"] = "own"
    backend = "ctranslate2"
    concurrent = False  # it has threads of its own

    def __init__(self, order: Order, folder: Path, workers: int | None = None, threads: int = 1) -> None:
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
        self.source, self.target = pieces(order.spec, "source"), pieces(order.spec, "target")
        self.index = {piece: index for index, piece in enumerate(self.target)}
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
        barred: Sequence[int] = (),
        least: int = 0,
    ) -> list[list[Found]]:
        """What its own beam search finds for each source, in no order; `limits` as in ours.

        Its search stops otherwise than ours: with alpha = 0 where the best of a step has ended, else at `beam` ends,
        of which it keeps those that are best by log-probability / length^alpha. And it searches as if PAD, BOS and what
        is barred had no share of the probabilities. So what it found is scored anew.
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
                suppress_sequences=[[self.target[piece]] for piece in sorted({PAD, BOS, *barred})],
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
        """The pieces of each of its hypotheses but for EOS; one that was cut off has to end at the limit."""
        rows = [tuple(self.index[word] for word in words) for words in result.hypotheses]
        return list(dict.fromkeys(row[:-1] if row[-1:] == (EOS,) else row[:limit] for row in rows))

    def _sources(self, source: Tensor, target: int = 0) -> list[list[str]]:
        """Rows as it takes them. Raises ZooError where they, or `target` pieces, are longer than its positions."""
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


def pieces(spec: Spec, side: str) -> list[str]:
    """Made-up names of the pieces of a side: it speaks in words, we in numbers.

    They differ from side to side, so that a source of nothing but EOS is not taken for an empty one.
    """
    size = spec.vocabulary.sizes[side == "target"]
    return ["unknown" if index == UNK else f"{side} {index}" for index in range(size)]


class _Writer:
    """Fills in CTranslate2's description of a Transformer from the tensors of a weights file."""

    def __init__(self, spec: Spec, weights: Mapping[str, Tensor]) -> None:
        self.spec, self.a, self.weights = spec, spec.architecture, weights
        self.width = max(self.a.d_k, self.a.d_v)
        self.written: set[str] = set()

    def model(self) -> Any:
        from ctranslate2.specs import TransformerDecoderSpec, TransformerEncoderSpec, TransformerSpec
        from ctranslate2.specs.common_spec import Activation

        a = self.a
        activation = Activation[ACTIVATIONS[a.activation]]
        encoder, decoder = (
            side(depth, a.h, pre_norm=a.norm == "pre", activation=activation, head_dim=self.width)
            for side, depth in (
                (TransformerEncoderSpec, a.depths.encoder),
                (TransformerDecoderSpec, a.depths.decoder),
            )
        )
        model = TransformerSpec(encoder, decoder)
        model.encoder.embeddings[0].weight = self.table("source")
        model.decoder.embeddings.weight = self.table("target")
        model.decoder.projection.weight = self.table("output")
        if a.output_bias:
            model.decoder.projection.bias = self.tensor("output_bias")
        for name, side in (("encoder", model.encoder), ("decoder", model.decoder)):
            side.position_encodings.encodings = self.positions(name)
            if a.norm == "pre":
                self.norm(side.layer_norm, name)
            for i, layer in enumerate(side.layer):
                self.layer(layer, f"{name}.{i}")
        model.register_source_vocabulary(pieces(self.spec, "source"))
        model.register_target_vocabulary(target := pieces(self.spec, "target"))
        model.config.unk_token, model.config.bos_token, model.config.eos_token = target[UNK], target[BOS], target[EOS]
        model.config.decoder_start_token = target[BOS]
        model.config.layer_norm_epsilon = a.norm_epsilon
        return model

    def layer(self, layer: Any, name: str) -> None:
        self.attention(layer.self_attention, f"{name}.self_attention", (("query", "key", "value"),))
        if hasattr(layer, "attention"):
            self.attention(layer.attention, f"{name}.memory_attention", (("query",), ("key", "value")))
        inner, outer, part = layer.ffn.linear_0, layer.ffn.linear_1, f"{name}.feed_forward"
        inner.weight, inner.bias = self.tensor(f"{part}.w1").T, self.tensor(f"{part}.b1")
        outer.weight, outer.bias = self.tensor(f"{part}.w2").T, self.tensor(f"{part}.b2")
        self.norm(layer.ffn.layer_norm, part)

    def attention(self, attention: Any, part: str, products: Iterable[tuple[str, ...]]) -> None:
        """Queries, keys and values have to be equally wide there: the narrower ones get features of zeros."""
        a = self.a
        widths = {"query": a.d_k, "key": a.d_k, "value": a.d_v}
        for linear, names in zip(attention.linear, products, strict=False):
            linear.weight = torch.cat([self.widened(self.tensor(f"{part}.{n}"), widths[n]) for n in names], -1).T
            if a.projection_bias:
                linear.bias = torch.cat([self.widened(self.tensor(f"{part}.{n}_bias"), widths[n]) for n in names])
        output = attention.linear[-1]
        output.weight = self.widened(self.tensor(f"{part}.output").T.contiguous(), a.d_v)
        if a.projection_bias:
            output.bias = self.tensor(f"{part}.output_bias")
        attention.queries_scale = scale(a)
        self.norm(attention.layer_norm, part)

    def widened(self, heads: Tensor, width: int) -> Tensor:
        """Each head's features, of which there are `width`, filled up with zeros. [..., h·width] -> [..., h·widest]"""
        parted = heads.view(*heads.shape[:-1], self.a.h, width)
        return torch.nn.functional.pad(parted, (0, self.width - width)).flatten(-2)

    def norm(self, norm: Any, part: str) -> None:
        norm.gamma, norm.beta = self.tensor(f"{part}.norm_gain"), self.tensor(f"{part}.norm_bias")

    def table(self, side: str) -> Tensor:
        names = {
            "all": "embedding",
            "target": "source_embedding" if side == "source" else "target_embedding",
            "none": f"{side}_embedding" if side != "output" else "output_projection",
        }
        return self.tensor(names[self.a.tied_embeddings])

    def positions(self, part: str) -> Tensor:
        if self.a.positional_encoding == "learned":
            return self.tensor(f"{part}.positions")
        halves, rows = self.a.positional_encoding == "sinusoidal_halves", torch.empty(1, POSITIONS, self.a.d_model)
        return sinusoids(rows, halves=halves, first=self.a.first_position).clone()

    def tensor(self, name: str) -> Tensor:
        """A copy: it rounds to 8 bits in place."""
        self.written.add(name)
        return self.weights[name].detach().float().clone()


def written(order: Order) -> Path:
    """The folder of the model in CTranslate2's format, written unless it is there."""
    import ctranslate2

    def write(folder: Path) -> None:
        model = _Writer(order.spec, order.weights).model()
        model.validate()
        model.optimize(order.precision)
        model.save(str(folder))

    spec = order.spec
    key = {
        "architecture": spec.architecture.model_dump_json(),
        "vocabulary": "/".join(map(str, dict.fromkeys(spec.vocabulary.sizes))),
        "precision": order.precision,
        "positions": str(POSITIONS),
        "weights": digest(order.weights),
        "ctranslate2": ctranslate2.__version__,
        "writer": Path(__file__).read_text(encoding="utf-8"),
    }
    return Artefact(order.folder, "ctranslate2", key).make(write)


def _absent() -> str | None:
    if importlib.util.find_spec("ctranslate2"):
        return None
    return "CTranslate2 is not installed: `pip install -e '.[ctranslate2]'` in zoo's own folder"


def _refuses(order: Order) -> str | None:
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


def beyond(order: Order) -> str | None:
    """What CTranslate2 has not that a model has, if there is something. It has to be installed."""
    sides = {"encoder": order.spec.architecture.encoder, "decoder": order.spec.architecture.decoder}
    for side, sublayers in sides.items():
        if (found := [each.kind for each in sublayers]) != LAYERS[side]:
            return f"its {side} has layers of {', '.join(found)}, and CTranslate2's of {', '.join(LAYERS[side])}"
    used = {type(node.operation) for node in lower(order.spec, Purpose.SCORE).nodes}
    if strange := sorted(each.__name__ for each in used - KNOWN):
        return f"CTranslate2 has no word for {strange[0]}"
    wanted = stored(order.graphs.values())
    writer = _Writer(order.spec, {name: torch.empty(each.shape, device="meta") for name, each in wanted.items()})
    writer.model()
    if left := sorted(set(wanted) - writer.written):
        return f"CTranslate2's format has no place for `{left[0]}`"
    return None


ctranslate2 = Backend(
    name="ctranslate2",
    summary="CTranslate2's engine and search, in its own format",
    absent=_absent,
    refuses=_refuses,
    build=lambda order: CTranslate2(order, written(order)),
)
