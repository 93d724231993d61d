"""A checkpoint's tensors in our names and layout."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from specs import ZooError
from zoo.interop.layers import Layers, Linear
from zoo.interop.tables import Tables

PADDING = 1
"""The number of fairseq's padding token: positions are counted from the next one on."""
_WITHOUT_EFFECT = re.compile(r"(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))")
_OLD_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
_PARTS = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
_PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


class Network:
    """Takes the tensors one by one, so that none is left out unseen."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.found = _renewed(tensors)
        self.left = {name for name in self.found if not _WITHOUT_EFFECT.fullmatch(name)}
        self.layers = Layers()

    def read(self, architecture: Mapping[str, Any], *, learned: bool) -> dict[str, Any]:
        """All but the tables, and what the tensors say of `architecture`. Raises ZooError where one is missing."""
        for side, depth in architecture["N"].items():
            for number in range(depth):
                self.layer(side, number)
            if architecture["norm"] == "pre":
                self.norm(f"{side}.layer_norm", side)
        said = self.positions() if learned else {"positional_encoding": "sinusoidal_halves"}
        first = {} if learned else {"first_position": PADDING + 1}
        return {**said, **first, "projection_bias": self.layers.biased}

    def tables(self, *, shared_output: bool, scaled: bool) -> Tables:
        """Embeddings and the projection. Raises ZooError where a tensor is left that was not asked for."""
        source, target = (self.take(f"{side}.embed_tokens.weight") for side in ("encoder", "decoder"))
        names = ("decoder.output_projection.weight", "decoder.embed_out")
        written = [self.take(name) for name in names if name in self.left]
        if not written and not shared_output:
            raise ZooError(f"it has no `{names[0]}`, and does not share it with the embedding")
        if self.left:
            raise ZooError(f"it has `{min(self.left)}`, which is of no Transformer that a spec can say")
        scale = float(target.shape[1]) ** 0.5 if scaled else 1.0
        return Tables(source, target, written[0] if written else target, None, scale, scale)

    def positions(self) -> dict[str, Any]:
        """Of learned ones; the rows up to that of padding are no positions."""
        tables = [self.take(f"{side}.embed_positions.weight")[PADDING + 1 :] for side in ("encoder", "decoder")]
        rows = min(map(len, tables))
        for side, table in zip(("encoder", "decoder"), tables, strict=True):
            self.layers.tensors[f"{side}.positions"] = table[:rows].float().clone()
        return {"positional_encoding": "learned", "max_positions": rows}

    def layer(self, side: str, number: int) -> None:
        foreign, ours = f"{side}.layers.{number}", f"{side}.{number}"
        for part, kind in _PARTS.items():
            if part == "self_attn" or side == "decoder":
                maps = {name: self.linear(f"{foreign}.{part}.{of}") for name, of in _PROJECTIONS.items()}
                self.layers.attention(f"{ours}.{kind}", maps)
                self.norm(f"{foreign}.{part}_layer_norm", f"{ours}.{kind}")
        part = f"{ours}.feed_forward"
        self.layers.feed_forward(part, self.linear(f"{foreign}.fc1"), self.linear(f"{foreign}.fc2"))
        self.norm(f"{foreign}.final_layer_norm", part)

    def linear(self, name: str) -> Linear:
        return Linear(self.take(f"{name}.weight"), self.take(f"{name}.bias") if f"{name}.bias" in self.left else None)

    def norm(self, name: str, part: str) -> None:
        self.layers.norm(part, self.take(f"{name}.weight"), self.take(f"{name}.bias"))

    def take(self, name: str) -> Tensor:
        if name not in self.found:
            raise ZooError(f"it has no `{name}`, which a Transformer as its options say has")
        self.left.discard(name)
        if not self.found[name].is_floating_point() or not self.found[name].dim():
            raise ZooError(f"`{name}` is {list(self.found[name].shape)} of {self.found[name].dtype}", exit_code=1)
        return self.found[name].float()


def _renewed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """With the names of today, where fairseq called them otherwise before."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if norm := re.fullmatch(r"((encoder|decoder)\.layers\.\d+)\.layer_norms\.(\d)\.(weight|bias)", name):
            layer, side, number, kind = norm.groups()
            if int(number) < len(_OLD_NORMS[side]):
                name = f"{layer}.{_OLD_NORMS[side][int(number)]}.{kind}"
            found[name] = tensor
        elif several := re.fullmatch(r"(.+_attn)\.in_proj_(weight|bias)", name):
            for part, one in zip(("q", "k", "v"), tensor.chunk(3) if tensor.dim() else (), strict=False):
                found[f"{several[1]}.{part}_proj.{several[2]}"] = one
        else:
            found[name] = tensor
    return found
