"""Program that runs the PyTorch code generated from graphs: a torch.nn.Module that trains, scores and translates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast
from zlib import crc32

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from compiler.decoder import CACHE_BLOCK, DecoderStates, State, top_k
from compiler.graph import Graphs, Purpose, origins, stored_tensors
from compiler.host import fast_float32, use_one_thread_after_fork
from compiler.padded_batch import PaddedBatch
from compiler.program import SearchingDecoder, TopK
from compiler.weights import check_weights
from specs import PAD, Spec, ZooError

Function = Callable[[nn.Module, Mapping[str, Tensor]], dict[str, Tensor]]
"""A backend's implementation of a graph. It takes parameters and inputs, and returns the outputs, keyed by name."""


class Loss(NamedTuple):
    """Loss of a batch, as sums over its target tokens. EOS is included, but padding is not."""

    smoothed: Float[Tensor, ""]
    """Cross entropy against smoothed labels, which training minimises."""
    plain: Float[Tensor, ""]
    """Cross entropy without smoothing, in nats: exp(plain / tokens) is the perplexity per token."""
    tokens: Int[Tensor, ""]
    """The number of target tokens."""


class _ParameterTree(nn.Module):
    """Module that only contains parameters and other parameter trees, such as `tree.encoder[0].self_attention`.

    Only whole layers are called, such as `tree.encoder[0]`. Hooks on other parameter trees do not run.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self.dropout_key = _dropout_key(path)

    def __getitem__(self, index: int) -> nn.Module:
        return cast(nn.Module, self._modules[str(index)])

    def forward(self, function: Callable[..., Any], *inputs: Any) -> Any:
        """Return `function(self, *inputs)`. The code of a layer is called this way, so that the layer's hooks run."""
        return function(self, *inputs)


def _dropout_key(path: str) -> int:
    """Return a number that identifies the module at a path, so that different modules have different dropout masks."""
    return crc32(path.encode()) >> 1  # a 32-bit integer for the kernels


class EmittedProgram(DecoderStates, nn.Module):
    """Compiled model that runs emitted PyTorch code. `compiler.build_module` and most backends return this class."""

    concurrent = False

    def __init__(
        self,
        spec: Spec,
        graphs: Graphs,
        functions: Mapping[Purpose, Function],
        parameters: Mapping[str, Tensor],
        *,
        backend: str = "eager",
        precision: str = "float32",
        max_new_tokens: int | None = None,
        make_searcher: Callable[[EmittedProgram], SearchingDecoder[Any]] | None = None,
    ) -> None:
        """Create the modules that contain the parameters.

        Args:
            spec: The model's spec.
            graphs: The graphs after all passes.
            functions: The implementation of each graph.
            parameters: The parameters of the graphs, keyed by name.
            backend: The name of the backend.
            precision: The type of the weights: float32, bfloat16 or int8.
            max_new_tokens: The largest number of tokens that one run of a decoder step can read. None for no limit.
            make_searcher: Function that returns the program's beam search on a GPU. If None, each step runs separately.
        """
        super().__init__()
        use_one_thread_after_fork()
        self.spec, self.graphs, self.backend, self.precision = spec, graphs, backend, precision
        self.max_new_tokens, self.dropout_key, self._functions = max_new_tokens, _dropout_key(""), functions
        for graph in graphs.values():
            for name in graph.parameters:
                path, _, leaf = name.rpartition(".")
                self._subtree(path)._parameters[leaf] = cast(nn.Parameter, parameters[name])
            for node in graph.nodes:  # a layer may have no parameters
                self._subtree(node.layer)
        self.searcher = make_searcher(self) if make_searcher else None
        """Beam search of the program on a GPU (see `SearchingProgram`)."""

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.parameters()).device

    @property
    def layers(self) -> list[nn.Module]:
        """The encoder and decoder layers, in order of computation."""
        names = dict.fromkeys(node.layer for graph in self.graphs.values() for node in graph.nodes if node.layer)
        return [self._subtree(name) for name in names]

    def forward(
        self,
        source: PaddedBatch | None,
        target: Int[Tensor, "batch target+1"],
        alignment: Float[Tensor, "batch target source"] | None = None,
    ) -> Loss:
        """Return the loss of a batch.

        Args:
            source: Sources that end with EOS. None if the model has no encoder.
            target: Targets that start with BOS and end with EOS, padded with PAD. Labels that are PAD are ignored.
            alignment: The probability that each target token is aligned with each source token. It is ignored unless
                the spec has `training.guided_alignment`. For a token without alignment links, all values are 0. None:
                no token has links.
        """
        if not (isinstance(source, PaddedBatch | None) and isinstance(target, torch.Tensor)):
            raise TypeError("`source` must be a `zoo.PaddedBatch`, and `target` a tensor (`batch.target.values`)")
        if source is not None and len(source.values) != len(target):
            raise ValueError(f"the batch has {len(source.values)} sources, but {len(target)} targets")
        inputs = {**self._inputs(source), "target": target}
        if source is not None and self.spec.training.guided_alignment is not None:
            empty = torch.zeros(len(target), target.shape[1] - 1, source.values.shape[1], device=target.device)
            inputs["alignment"] = empty if alignment is None else alignment
        smoothed, plain = self.run(Purpose.TRAIN, **inputs)["loss"].unbind()
        # Clone, because full backward hooks do not accept views.
        return Loss(smoothed.clone(), plain.detach(), (target[:, 1:] != PAD).sum())

    def score(self, source: PaddedBatch | None, target: Int[Tensor, "batch target+1"]) -> Float[Tensor, "batch target"]:
        """Return the log-probability, in nats, of each token in target[:, 1:], given the tokens before it.

        The value is 0 at PAD.
        """
        return self.run(Purpose.SCORE, **self._inputs(source), target=target)["log_probabilities"]

    def attend(
        self, source: PaddedBatch, target: Int[Tensor, "batch target+1"]
    ) -> tuple[Float[Tensor, "batch target"], dict[str, Float[Tensor, "batch h queries keys"]]]:
        """Return the log-probabilities that `score` returns, and the attention weights of each sub-layer.

        The attention weights are float32 tensors, keyed by sub-layer name, such as `encoder.0.self_attention`. The
        weights of a query sum to 1. They are 0 at padding and, in the decoder's self-attention, at later positions. The
        decoder's queries are the positions that read target[:, :-1] and predict target[:, 1:].
        """
        weights = self.run(Purpose.ATTEND, **self._inputs(source), target=target)
        return weights.pop("log_probabilities"), weights

    def encode(self, source: PaddedBatch) -> State:
        """Encode sources that end with EOS. Return the state before the first step, with one row per sentence."""
        return self._begin(source.lengths.shape[0], self.run(Purpose.ENCODE, **self._inputs(source)))

    def begin(self, rows: int) -> State:
        """Return the state before the first step of a model without an encoder (see `DecoderOnly`)."""
        return self._begin(rows, {})

    def _begin(self, sentences: int, outputs: Mapping[str, Tensor]) -> State:
        """Return the state before the first step, with one hypothesis per sentence, given the encoder's outputs."""
        step = self._graph
        memory = {name: value for name, value in outputs.items() if name in step.inputs}
        sizes = {"batch": sentences, "beams": 1, "past": 0, "capacity": CACHE_BLOCK}
        dtype = next((value.dtype for value in memory.values() if value.is_floating_point()), self._dtype)
        shapes = {name: step.inputs[name].concrete(**sizes) for name in step.states}
        carried = {name: torch.zeros(shape, dtype=dtype, device=self.device) for name, shape in shapes.items()}
        return State(memory, carried, (0,) * sentences)

    def advance(self, state: State, tokens: Int[Tensor, "rows k"]) -> tuple[Float[Tensor, "rows k V"], State]:
        """Read `tokens`. Return the log-probabilities (float32) of the next token after each token, and the next state.

        See `StepwiseDecoder.advance`. The state that is passed in becomes invalid, because its caches may be
        overwritten.
        """
        log_probabilities, state = self._step(state, tokens)
        return log_probabilities.view(*tokens.shape, -1), state

    def top_k(
        self, state: State, tokens: Int[Tensor, "rows k"], count: int, allowed: Bool[Tensor, "#rows·k V"] | None = None
    ) -> tuple[TopK, State]:
        """Read `tokens`. Return the `count` most probable allowed tokens after each token, and the next state.

        See `StepwiseDecoder.top_k`.
        """
        log_probabilities, state = self._step(state, tokens)
        return top_k(log_probabilities, count, allowed), state

    def _inputs(self, source: PaddedBatch | None) -> dict[str, Tensor]:
        """Return the graph inputs `source` and `source_length`. Convert features to the type of the activations."""
        if source is None:
            return {}
        if source.values.is_floating_point():
            source = source._replace(values=source.values.to(self._dtype))
        return source.inputs

    @property
    def _dtype(self) -> torch.dtype:
        """The data type of activations."""
        return torch.bfloat16 if self.precision == "bfloat16" else torch.float32

    def run(self, purpose: Purpose, **inputs: Tensor) -> dict[str, Tensor]:
        """Run the graph for a purpose, such as training, and return its outputs, keyed by name."""
        if purpose not in self._functions:
            raise ValueError(
                f"this program was not built for the purpose `{purpose}`: also pass the purpose to `build`"
            )
        with fast_float32():
            return self._functions[purpose](self, inputs)

    def _step(self, state: State, tokens: Int[Tensor, "rows k"]) -> tuple[Float[Tensor, "rows·k V"], State]:
        """Read `tokens` in one or more steps. Return log-probabilities, one row per token, and the next state."""
        found = []
        for part in torch.split(tokens, self.max_new_tokens or tokens.shape[1], 1):
            results = self.run(Purpose.DECODE_STEP, **self._step_inputs(state, part))
            state = self._after(state, results, part.shape[1])
            found.append(results["log_probabilities"])
        return (torch.cat(found, 1) if len(found) > 1 else found[0]).flatten(0, 1), state

    # Weights.

    def weights(self) -> dict[str, Tensor]:
        """Return the weights in the layout of a weights file.

        Each matrix of the paper has its own tensor, except that tied matrices share one tensor.
        """
        return self.in_file_layout({name: parameter.detach() for name, parameter in self.named_parameters()})

    def in_file_layout(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors with the parameters' shapes, such as Adam's moments, to the layout of a weights file.

        Raises:
            ZooError: A tensor has the name of a parameter that was added to the module, for example by a
                parametrization.
        """
        known = origins(self.graphs.values())
        if added := tensors.keys() - known.keys():
            hint = "first merge adapters into the original parameters (`torch.nn.utils.parametrize` can do this)"
            raise ZooError(f"the model has the parameter `{min(added)}`, which its spec does not define", hint=hint)
        return {file: part for name, tensor in tensors.items() for file, part in known[name].undo(tensor)}

    def in_program_layout(self, file: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Convert tensors in the layout of a weights file to tensors with the names and shapes of the parameters.

        Raises:
            ZooError: The names or shapes of the tensors do not fit the spec.
        """
        check_weights(file, stored_tensors(self.graphs.values()), self.spec.name)
        return {name: origin.make(file) for name, origin in origins(self.graphs.values()).items()}

    def with_parameters(self, parameters: Mapping[str, Tensor]) -> EmittedProgram:
        """Return a copy of this model in which the given parameters replace the parameters with the same names.

        The copy shares all other parameters with this model. It has no beam search on a GPU.
        """
        given = {**dict(self.named_parameters()), **parameters}
        how: Any = {name: getattr(self, name) for name in ("backend", "precision", "max_new_tokens")}
        return EmittedProgram(self.spec, self.graphs, self._functions, given, **how).train(self.training)

    def _subtree(self, path: str) -> nn.Module:
        """Return the module at a path. Create it if necessary."""
        if not path:
            return self
        parent, _, name = path.rpartition(".")
        module = self._subtree(parent)
        if name not in module._modules:
            module.add_module(name, _ParameterTree(path))
        return cast(nn.Module, module._modules[name])
