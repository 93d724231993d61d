"""A program of emitted code: a torch.nn.Module that is trained, scores and translates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from compiler.captured import Captured, Recorder, Results
from compiler.forking import survive
from compiler.graph import Graph, Graphs, Purpose, stored
from compiler.likeliest import Likeliest, likeliest
from compiler.operations.operation import Kind, Type
from compiler.size import BEAMS, ROOM, SOURCE
from compiler.switches import fast_float32
from compiler.weights import Origin, check
from specs import PAD, Spec

Function = Callable[[nn.Module, Mapping[str, Tensor]], dict[str, Tensor]]
"""What a backend makes of a graph: from the parameters and the inputs to what leaves it."""


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, EOS counted and padding not."""

    smoothed: Float[Tensor, ""]
    """What training lowers."""
    plain: Float[Tensor, ""]
    """Cross entropy without smoothing, in nats: exp(plain / tokens) is the perplexity per piece."""
    tokens: Int[Tensor, ""]


@dataclass(frozen=True)
class State:
    """What a decoder knows of its sentences. A row is a hypothesis; those of a sentence stand together."""

    source: Int[Tensor, "sentences source"]
    memory: Mapping[str, Tensor]
    """What the encoder made of the sources, a row a sentence."""
    carried: Mapping[str, Tensor]
    """What each step hands to the next, such as keys and values of the pieces read so far, a row a hypothesis."""
    position: Int[Tensor, "sentences beams"]
    """Pieces that each hypothesis has read."""
    read: tuple[int, ...]
    """The same for each sentence, known without asking the device."""


ALLOWED = "allowed"
"""Beside the inputs of a step's graph: which pieces may be chosen."""
ROOMS = 16
"""Positions by which a planned cache grows."""


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
        step, sentences = self._step, source.shape[0]
        memory = {name: value for name, value in self.run(Purpose.ENCODE, source=source).items() if name in step.inputs}
        sizes = {"batch": sentences, "source": source.shape[1], "beams": 1, "read": 0, "room": ROOMS}
        number = next((value.dtype for value in memory.values() if value.is_floating_point()), torch.float32)
        carried = {
            name: source.new_zeros(
                [size(**sizes) for size in type_.shape], dtype=torch.long if type_.kind is Kind.INTEGER else number
            )
            for name, type_ in step.inputs.items()
            if name in step.carried
        }
        position = torch.zeros(sentences, 1, dtype=torch.long, device=source.device)
        return State(source, memory, carried, position, (0,) * sentences)

    def decode_step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[Float[Tensor, "rows V"], State]:
        """Log-probabilities of the next piece after `token` (BOS at first), in float32, and the state after it.

        The state that goes in is used up: its caches may be written in place.
        """
        results, state = self._after(state, token)
        return results["log_probabilities"], state

    def likeliest(
        self, state: State, token: Int[Tensor, " rows"], count: int, allowed: Bool[Tensor, "#rows V"] | None = None
    ) -> tuple[Likeliest, State]:
        """As `decode_step`, but of each row only the `count` likeliest pieces; where `allowed` says so, of those."""
        results, state = self._after(state, token, count, allowed)
        return Likeliest(*(results[name] for name in Likeliest._fields)), state

    def capture(self, record: Recorder) -> None:
        """Has steps recorded and replayed from now on (`compiler/captured.py`), unless caches grow in each of them."""
        if all(each.grows is None or self._is_planned(name) for name, each in self._step.carried.items()):
            found = self._step.types[self._step.outputs["log_probabilities"]]
            asked = {**self._step.inputs, ALLOWED: replace(found, kind=Kind.MASK)}
            self._captured = Captured(replace(self._step, inputs=asked), record)

    def _after(
        self, state: State, token: Int[Tensor, " rows"], count: int | None = None, allowed: Tensor | None = None
    ) -> tuple[Results, State]:
        """What a step finds, and the state after it."""
        position, memory = state.position, {"source": state.source, **state.memory}
        carried = {name: self._with_room(name, value, max(state.read)) for name, value in state.carried.items()}
        if not self._by_sentence and position.shape[1] > 1:
            memory = {name: value.repeat_interleave(position.shape[1], 0) for name, value in memory.items()}
        shape = position.shape if self._by_sentence else (token.shape[0], 1)
        given = {"token": token.view(shape), "position": position.reshape(shape), **memory, **carried}
        if allowed is not None:
            given[ALLOWED] = allowed.expand(token.shape[0], -1).view(*shape, -1)
        results = self._captured(self._computed, given, count) if self._captured else self._computed(given, count)
        read = tuple(each + 1 for each in state.read)
        carried = {name: results[name] for name in carried}
        return results, replace(state, carried=carried, position=position + 1, read=read)

    def _computed(self, inputs: Mapping[str, Tensor], count: int | None) -> Results:
        """A step, its results as `compiler.captured.Step` has them."""
        allowed = inputs.get(ALLOWED)
        results = self.run(Purpose.DECODE_STEP, **{name: inputs[name] for name in inputs if name != ALLOWED})
        log_probabilities = results["log_probabilities"].flatten(0, 1)
        if count is None:
            return {**results, "log_probabilities": log_probabilities}
        del results["log_probabilities"]
        allowed = None if allowed is None else allowed.flatten(0, 1)
        return {**results, **likeliest(log_probabilities, count, allowed)._asdict()}

    def select(self, state: State, sentences: Int[Tensor, " kept"], parents: Int[Tensor, "kept beams"]) -> State:
        """Some of the sentences, in order, and for each row of theirs which row of the sentence it goes on from."""
        at, carried = sentences.to(parents.device, non_blocking=True), self._step.carried
        rows = (at[:, None] * state.position.shape[1] + parents).flatten()
        position = state.position.index_select(0, at)[:, :1].expand(parents.shape)
        if sentences.shape[0] == state.source.shape[0]:
            moved = {name: value.index_select(carried[name].rows, rows) for name, value in state.carried.items()}
            return replace(state, carried=moved, position=position)
        read = tuple(state.read[sentence] for sentence in sentences.tolist())
        memory = {name: value.index_select(0, at) for name, value in state.memory.items()}
        moved = {
            name: self._shortened(name, value, max(read)).index_select(carried[name].rows, rows)
            for name, value in state.carried.items()
        }
        return State(state.source.index_select(0, at), memory, moved, position, read)

    def join(self, first: State, second: State) -> State:
        """The sentences of both, which have the same number of beams. The shorter ones are padded: that is masked."""
        source = _joined(first.source, second.source, 0, 1)
        memory = {
            name: _joined(value, second.memory[name], 0, _axis(self._step.inputs[name]))
            for name, value in first.memory.items()
        }
        carried = {
            name: _joined(value, second.carried[name], each.rows, each.grows, at_end=self._is_planned(name))
            for name, value in first.carried.items()
            if (each := self._step.carried[name])
        }
        return State(source, memory, carried, torch.cat([first.position, second.position]), first.read + second.read)

    @property
    def _step(self) -> Graph:
        return self.graphs[Purpose.DECODE_STEP]

    @cached_property
    def _by_sentence(self) -> bool:
        """Whether a step takes a row a sentence, its beams side by side."""
        return self._step.inputs["token"].shape[1] == BEAMS

    def _is_planned(self, name: str) -> bool:
        """Whether what is carried has room for more than was read; else it grows in each step, or never."""
        grows = self._step.carried[name].grows
        return grows is not None and self._step.inputs[name].shape[grows] == ROOM

    def _with_room(self, name: str, value: Tensor, read: int) -> Tensor:
        """With room for another position."""
        grows = self._step.carried[name].grows
        if grows is None or not self._is_planned(name) or read < value.shape[grows]:
            return value
        return _padded(value, grows, value.shape[grows] + ROOMS)

    def _shortened(self, name: str, value: Tensor, read: int) -> Tensor:
        """Without positions that no row has reached."""
        grows = self._step.carried[name].grows
        if grows is None:
            return value
        if not self._is_planned(name):
            return value.narrow(grows, value.shape[grows] - read, read)
        return value.narrow(grows, 0, min(value.shape[grows], max(ROOMS, -(-read // ROOMS) * ROOMS)))

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
        check(file, stored(self.graphs.values()), self.spec.name)
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


def _axis(memory: Type) -> int | None:
    """Of what the encoder made: where the source's positions are."""
    return next((axis for axis, size in enumerate(memory.shape) if size == SOURCE), None)


def _padded(tensor: Tensor, axis: int, length: int, *, at_end: bool = True) -> Tensor:
    """With zeros up to this many positions; of sources that is PAD."""
    more = length - tensor.shape[axis]
    sides = [0, more] if at_end else [more, 0]
    return functional.pad(tensor, [0, 0] * (tensor.ndim - 1 - axis) + sides) if more else tensor


def _joined(first: Tensor, second: Tensor, rows: int, axis: int | None, *, at_end: bool = True) -> Tensor:
    """The rows of one after those of the other; the shorter ones are padded along an axis."""
    if axis is not None:
        length = max(first.shape[axis], second.shape[axis])
        first, second = (_padded(each, axis, length, at_end=at_end) for each in (first, second))
    return torch.cat([first, second], rows)
