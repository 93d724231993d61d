"""A program of emitted code: a torch.nn.Module that is trained, scores and translates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from compiler.captured import Captured, Recorder, Results
from compiler.decoder import ALLOWED, Decoder, State
from compiler.forking import survive
from compiler.graph import Graphs, Purpose, stored_tensors
from compiler.switches import fast_float32
from compiler.top_k import TopK, top_k
from compiler.weights import Origin, check_weights
from specs import PAD, Spec

Function = Callable[[nn.Module, Mapping[str, Tensor]], dict[str, Tensor]]
"""What a backend makes of a graph: from the parameters and the inputs to what leaves it."""


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, EOS counted and padding not."""

    smoothed: Float[Tensor, ""]
    """What training lowers."""
    plain: Float[Tensor, ""]
    """Cross entropy without smoothing, in nats: exp(plain / tokens) is the perplexity per token."""
    tokens: Int[Tensor, ""]


class _Tree(nn.Module):
    """Modules that hold nothing but parameters and one another: `tree.encoder[0].self_attention.query`."""

    def __getitem__(self, index: int) -> nn.Module:
        return cast(nn.Module, self._modules[str(index)])

    def forward(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """What the function makes of these parameters and its inputs: hooks around a layer see it so."""
        return function(self, *inputs)


class EmittedProgram(nn.Module):
    """A torch.nn.Module whose parameters are those of the graphs. Made by `compiler.trainable` and `compiler.build`."""

    search: Literal["steps"] = "steps"
    concurrent = False

    def __init__(
        self,
        spec: Spec,
        graphs: Graphs,
        functions: Mapping[Purpose, Function],
        code: str,
        *,
        backend: str = "eager",
        precision: str = "float32",
    ) -> None:
        super().__init__()
        survive()
        self.spec, self.graphs, self.code, self.backend, self.precision = spec, graphs, code, backend, precision
        self._functions = functions
        self._captured: Captured | None = None
        for graph in graphs.values():
            for name, parameter in graph.parameters.items():
                empty = torch.empty(parameter.origin.shape, dtype=getattr(torch, parameter.type), device="meta")
                self._place(name, nn.Parameter(empty, requires_grad=empty.is_floating_point()))
            for node in graph.nodes:  # a layer may have none
                self._tree(node.layer)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def layers(self) -> list[nn.Module]:
        """Those of encoder and decoder, in the order in which they are computed."""
        names = dict.fromkeys(node.layer for graph in self.graphs.values() for node in graph.nodes if node.layer)
        return [self._tree(name) for name in names]

    # What it computes.

    def forward(self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]) -> Loss:
        """The loss of a batch: source rows end with EOS, target rows run from BOS to EOS, padded with PAD."""
        smoothed, plain = self.run(Purpose.TRAIN, source=source, target=target)["loss"].unbind()
        # Hooks around the program want no view.
        return Loss(smoothed.clone(), plain.detach(), (target[:, 1:] != PAD).sum())

    def score(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]
    ) -> Float[Tensor, "batch target"]:
        """The log-probability of each target token given those before it, in nats, and 0 at padding."""
        return self.run(Purpose.SCORE, source=source, target=target)["log_probabilities"]

    def attend(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]
    ) -> tuple[Float[Tensor, "batch target"], dict[str, Float[Tensor, "batch h queries keys"]]]:
        """As `score`; and how much each query looks at each key, of each attention by name: `encoder.0.self_attention`.

        Weights are float32, each row sums to 1, and is 0 at padding and, in the decoder's own, at later positions. The
        decoder's queries are the positions that read target[:, :-1], and write target[:, 1:].
        """
        weights = self.run(Purpose.ATTEND, source=source, target=target)
        return weights.pop("log_probabilities"), weights

    def encode(self, source: Int[Tensor, "sentences source"]) -> State:
        """The state before the first step, a row a sentence. Sources end with EOS and are padded with PAD."""
        return self._decoder.begin(source, self.run(Purpose.ENCODE, source=source))

    def decode_step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[Float[Tensor, "rows V"], State]:
        """Log-probabilities of the next token after `token` (BOS at first), in float32, and the state after it.

        The state that goes in is used up: its caches may be written in place.
        """
        results, state = self._after(state, token)
        return results["log_probabilities"], state

    def top_k(
        self, state: State, token: Int[Tensor, " rows"], count: int, allowed: Bool[Tensor, "#rows V"] | None = None
    ) -> tuple[TopK, State]:
        """As `decode_step`, but of each row only the `count` top_k tokens; where `allowed` says so, of those."""
        results, state = self._after(state, token, count, allowed)
        return TopK(*(results[name] for name in TopK._fields)), state

    def capture(self, record: Recorder) -> None:
        """Has steps recorded and replayed from now on (`compiler/captured.py`), unless caches grow in each of them."""
        if self._decoder.recordable:
            self._captured = Captured(self._decoder.recordable, record)

    def _after(
        self, state: State, token: Int[Tensor, " rows"], count: int | None = None, allowed: Tensor | None = None
    ) -> tuple[Results, State]:
        """What a step finds, and the state after it."""
        given = self._decoder.inputs(state, token, allowed)
        results = self._captured(self._computed, given, count) if self._captured else self._computed(given, count)
        return results, self._decoder.after(state, results)

    def _computed(self, inputs: Mapping[str, Tensor], count: int | None) -> Results:
        """A step, its results as `compiler.captured.Step` has them."""
        allowed = inputs.get(ALLOWED)
        results = self.run(Purpose.DECODE_STEP, **{name: inputs[name] for name in inputs if name != ALLOWED})
        log_probabilities = results["log_probabilities"].flatten(0, 1)
        if count is None:
            return {**results, "log_probabilities": log_probabilities}
        del results["log_probabilities"]
        allowed = None if allowed is None else allowed.flatten(0, 1)
        return {**results, **top_k(log_probabilities, count, allowed)._asdict()}

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> State:
        """Some of the sentences, in order, and for each row of theirs which row of the sentence it goes on from."""
        return self._decoder.select(state, sentences, parents)

    def join(self, first: State, second: State) -> State:
        """The sentences of both, which have the same number of beams."""
        return self._decoder.join(first, second)

    @cached_property
    def _decoder(self) -> Decoder:
        return Decoder(self.graphs[Purpose.DECODE_STEP])

    def run(self, purpose: Purpose, **inputs: Tensor) -> dict[str, Tensor]:
        """What leaves the graph of a purpose, by name."""
        if purpose not in self._functions:
            raise ValueError(f"this program was not built to {purpose}")
        with fast_float32():
            return self._functions[purpose](self, inputs)

    # Its weights.

    def weights(self) -> dict[str, Tensor]:
        """The tensors of a weights file, in its layout: one for each matrix of the paper, tied ones once."""
        return self.in_file_layout({name: parameter.detach() for name, parameter in self.named_parameters()})

    def in_file_layout(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors that are like the parameters (moments of an optimiser, say) in the layout of a weights file."""
        origins = self._origins()
        return {file: part for name, tensor in tensors.items() for file, part in origins[name].undo(tensor)}

    def in_program_layout(self, file: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The other way: what `in_file_layout` gave, as tensors like the parameters.

        Raises ZooError where names or shapes are not those of the spec.
        """
        check_weights(file, stored_tensors(self.graphs.values()), self.spec.name)
        return {name: origin.make(file) for name, origin in self._origins().items()}

    def load(self, file: Mapping[str, Tensor]) -> None:
        """Takes the weights from the tensors of a file, onto the program's own device and type.

        Raises ZooError where names or shapes are not those of the spec.
        """
        with torch.no_grad():
            for name, tensor in self.in_program_layout(file).items():
                self.get_parameter(name).copy_(tensor)

    def share(self, file: Mapping[str, Tensor]) -> None:
        """As `load`, but a tensor that is as the program wants it is not copied: the two then share their memory."""
        for name, tensor in self.in_program_layout(file).items():
            *parents, leaf = name.split(".")
            tree = self.get_submodule(".".join(parents))
            tree.register_parameter(leaf, nn.Parameter(tensor, requires_grad=False))

    def _origins(self) -> dict[str, Origin]:
        return {n: p.origin for graph in self.graphs.values() for n, p in graph.parameters.items()}

    def _place(self, path: str, parameter: nn.Parameter) -> None:
        parent, _, leaf = path.rpartition(".")
        module = self._tree(parent)
        if leaf not in module._parameters:
            _require_free(module, leaf, path)
            module.register_parameter(leaf, parameter)

    def _tree(self, path: str) -> nn.Module:
        """The module at a path, made where there is none."""
        module: nn.Module = self
        for name in filter(None, path.split(".")):
            if name not in module._modules:
                _require_free(module, name, path)
                module.add_module(name, _Tree())
            module = cast(nn.Module, module._modules[name])
        return module


def _require_free(module: nn.Module, name: str, path: str) -> None:
    """Emitted code reads parameters as attributes: `w.encoder[0].train` would be what it is of every module."""
    if hasattr(module, name):
        raise ValueError(f"`{path}` cannot be named so in a graph: a module of torch's has a `{name}` of its own")
