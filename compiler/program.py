"""A program: graphs made to run, with weights. What training and search call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from compiler.graph import Graphs, Purpose, stored
from compiler.seeds import stream
from compiler.weights import Initial, Origin, Stored
from specs import PAD, Spec, ZooError
from specs.errors import nearest

Function = Callable[[nn.Module, Mapping[str, Tensor | int]], dict[str, Tensor]]
"""What a backend makes of a graph: from the parameters and the inputs to the outputs."""


class Loss(NamedTuple):
    """Sums over the target tokens of a batch, EOS counted and padding not."""

    smoothed: Float[Tensor, ""]
    """What training lowers."""
    plain: Float[Tensor, ""]
    """Cross entropy without smoothing, in nats: exp(plain / tokens) is the perplexity per piece."""
    tokens: Int[Tensor, ""]


@dataclass(frozen=True)
class State:
    """What a decoder knows of its rows: the sources, what the encoder made of them, the caches, the position."""

    source: Int[Tensor, "rows source"]
    memory: Mapping[str, Tensor]
    cache: Mapping[str, Tensor]
    position: int = 0


class _Tree(nn.Module):
    """Modules that hold nothing but parameters and one another: `tree.encoder[0].self_attention.query`."""

    def __getitem__(self, index: int) -> nn.Module:
        return cast(nn.Module, self._modules[str(index)])


class Program(nn.Module):
    """A torch.nn.Module whose parameters are those of the graphs. Made by `compiler.build`."""

    def __init__(self, spec: Spec, graphs: Graphs, functions: Mapping[Purpose, Function], code: str) -> None:
        super().__init__()
        self.spec, self.graphs, self.code = spec, graphs, code
        self._functions = functions
        for graph in graphs.values():
            for name, parameter in graph.parameters.items():
                self._place(name, nn.Parameter(torch.empty(parameter.origin.shape, device="meta")))

    # What it computes.

    def forward(self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]) -> Loss:
        """The loss of a batch: source rows end with EOS, target rows run from BOS to EOS, padded with PAD."""
        smoothed, plain = self._run(Purpose.TRAIN, source=source, target=target)["loss"].unbind()
        return Loss(smoothed, plain.detach(), (target[:, 1:] != PAD).sum())

    def score(
        self, source: Int[Tensor, "batch source"], target: Int[Tensor, "batch target+1"]
    ) -> Float[Tensor, "batch target"]:
        """The log-probability of each target token given those before it, in nats, and 0 at padding."""
        return self._run(Purpose.SCORE, source=source, target=target)["log_probabilities"]

    def encode(self, source: Int[Tensor, "rows source"]) -> State:
        """The state before the first step. Source rows end with EOS and are padded with PAD."""
        memory = self._run(Purpose.ENCODE, source=source)
        step = self.graphs[Purpose.DECODE_STEP]
        some = next(iter(memory.values()))
        shapes = {name: step.inputs[name].shape for name in step.carried}
        cache = {
            name: some.new_empty([size(batch=source.shape[0], target=1) for size in shape])
            for name, shape in shapes.items()
        }
        return State(source, memory, cache)

    def decode_step(self, state: State, token: Int[Tensor, " rows"]) -> tuple[Float[Tensor, "rows V"], State]:
        """Log-probabilities of the next piece after `token` (BOS at first), in float32, and the state after it."""
        carried = {**state.memory, **state.cache}
        outputs = self._run(
            Purpose.DECODE_STEP, token=token[:, None], position=state.position, source=state.source, **carried
        )
        log_probabilities = outputs.pop("log_probabilities")[:, 0]
        return log_probabilities, replace(state, cache=outputs, position=state.position + 1)

    def select(self, state: State, rows: Int[Tensor, " n"], *, within_sentences: bool = False) -> State:
        """The state of these rows, in this order, repeated where an index is.

        With `within_sentences` each row is followed by one of the same sentence, so that sources and memory stay
        as they are and only the caches move: what a beam search wants after each step.
        """
        cache = {name: value.index_select(0, rows) for name, value in state.cache.items()}
        if within_sentences:
            return replace(state, cache=cache)
        memory = {name: value.index_select(0, rows) for name, value in state.memory.items()}
        return replace(state, source=state.source.index_select(0, rows), memory=memory, cache=cache)

    def _run(self, purpose: Purpose, **inputs: Tensor | int) -> dict[str, Tensor]:
        if purpose not in self._functions:
            raise ValueError(f"this program was not built to {purpose}")
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
        """The other way: what `in_file_layout` gave, as tensors like the parameters."""
        return {name: origin.make(file) for name, origin in self._origins().items()}

    def load(self, file: Mapping[str, Tensor]) -> None:
        """Takes the weights from the tensors of a file, onto the program's own device and type.

        Raises ZooError where names or shapes are not those of the spec.
        """
        self.check(file)
        with torch.no_grad():
            for name, tensor in self.in_program_layout(file).items():
                self.get_parameter(name).copy_(tensor)

    def check(self, file: Mapping[str, Tensor]) -> None:
        """Raises ZooError unless the tensors are exactly those that the spec asks for."""
        wanted = stored(self.graphs.values())
        hint = f"these weights belong to another spec than `{self.spec.name}`"
        for name, tensor in wanted.items():
            if name not in file:
                raise ZooError(f"the weights have no tensor `{name}`", hint=hint)
            if tuple(file[name].shape) != tensor.shape:
                problem = f"the weights' `{name}` is {list(file[name].shape)}, not {list(tensor.shape)}"
                raise ZooError(problem, hint=hint)
        for name in file:
            if name not in wanted:
                near = nearest(name, list(wanted))
                problem = f"the weights' tensor `{name}` is not one of this spec"
                raise ZooError(problem + (f" (the nearest is `{near}`)" if near else ""), hint=hint)

    def initialise(self, seed: int) -> None:
        """Weights as before training (see `Initial`), each tensor from a random stream of its own, on any device."""
        file = {
            tensor.name: _initial(tensor, self.spec, stream(seed, "weights", tensor.name))
            for tensor in stored(self.graphs.values()).values()
        }
        self.load(file)

    def _origins(self) -> dict[str, Origin]:
        return {n: p.origin for graph in self.graphs.values() for n, p in graph.parameters.items()}

    def _place(self, path: str, parameter: nn.Parameter) -> None:
        *parents, leaf = path.split(".")
        module: nn.Module = self
        for name in parents:
            if name not in module._modules:
                module.add_module(name, _Tree())
            module = cast(nn.Module, module._modules[name])
        if leaf not in module._parameters:
            module.register_parameter(leaf, parameter)


def _initial(tensor: Stored, spec: Spec, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    value = torch.empty(tensor.shape)
    match tensor.initial:
        case Initial.ONE:
            return value.fill_(1.0)
        case Initial.ZERO:
            return value.zero_()
        case Initial.EMBEDDING:
            return value.normal_(0.0, spec.architecture.d_model**-0.5, generator=generator)
        case Initial.MATRIX:
            variance = 2.0 / (tensor.shape[0] + tensor.shape[1])
            if spec.architecture.initial_weights == "glorot_uniform":
                bound = (3.0 * variance) ** 0.5
                return value.uniform_(-bound, bound, generator=generator)
            return value.normal_(0.0, variance**0.5, generator=generator)
