"""Triton kernels that inductor generates for a GPU, compiled or interpreted on a machine without one.

Run as `python -m tests.compiler.gpu_kernels ARCHITECTURE train|translate CAPABILITY PRECISION`. It builds a program
with the backend `inductor`, and prints its kernels as JSON. It also prints how far the program's gradients differ from
those of `eager`, or its results from those of the interpreter. The program has the graphs for a GPU and its layers are
compiled for a GPU, but its tensors are on the CPU. With TRITON_INTERPRET=1, Triton's interpreter runs the kernels on
these tensors. Otherwise each kernel is compiled to PTX and to machine code, and PyTorch runs the layers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch._inductor import compile_fx
from torch._inductor.codecache import PyCodeCache
from torch._inductor.graph import GraphLowering
from torch._inductor.runtime.hints import DeviceProperties
from torch._inductor.runtime.triton_heuristics import CachingAutotuner, GridExpr
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_map
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import specs
from compiler import TRANSLATE, Purpose, graphs
from compiler.backends import BACKENDS
from compiler.backends.backend import BuildRequest
from compiler.backends.conformance import _expected, _random_batch
from compiler.initialization import initial_weights
from specs import PAD
from tests.compiler.fake_gpu import DEVICE, device_guard
from tests.compiler.test_conformance import ARCHITECTURES
from tests.conftest import SMALL

STEPS = 3
"""Number of decoder steps that are compared."""
INTERPRETED = triton.knobs.runtime.interpret
REPLACED = {
    "async_compile = AsyncCompile()": "async_compile = kernels",
    "from torch._C import _cuda_getCurrentRawStream as get_raw_stream": "get_raw_stream = int",
    "_guards._empty_strided_cuda": "_guards._empty_strided_cpu",
    "guards._empty_strided_cuda": "guards._empty_strided_cpu",
    "torch.cuda._DeviceGuard(0)": "torch.no_grad()",
    "torch.cuda.set_device(0)": "pass",
    "device(type='cuda', index=0)": "device(type='cpu')",
}
"""Parts of the code around the kernels that need a GPU, and what runs on the CPU instead."""
PROPERTIES = SimpleNamespace(
    multi_processor_count=108,
    regs_per_multiprocessor=65536,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    warp_size=32,
    total_memory=80 << 30,
    shared_memory_per_block=48 << 10,
    shared_memory_per_block_optin=163 << 10,
    L2_cache_size=40 << 20,
    name="GPU",
    gcnArchName="",
)
"""Sizes of an A100, by which inductor chooses block sizes. An H100 has at least as much of everything."""


@dataclass
class Kernel:
    """A kernel: its name, and its PTX and the bytes of its machine code, or how often it was interpreted."""

    name: str
    ptx: str = ""
    code_bytes: int = 0
    runs: int = 0


class Libdevice:
    """Functions of NVIDIA's libdevice, which Triton's interpreter cannot call, in terms of Triton's own functions."""

    def __getattr__(self, name: str) -> Any:
        return getattr(tl.math, name)

    def pow(self, x: Any, y: Any) -> Any:
        return tl.exp2(y * tl.log2(x))

    def tanh(self, x: Any) -> Any:
        return 2 * tl.sigmoid(2 * x) - 1


class GpuCompiler:
    """Backend of torch.compile for tensors on the CPU, which compiles for a GPU."""

    def __init__(self, capability: int) -> None:
        self.capability = capability
        self.kernels: dict[str, Kernel] = {}
        """The kernels by their source code."""

    def __call__(self, module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Any = None) -> Any:
        return compile_fx.compile_fx(module, inputs, inner_compile=self._compile)

    def _compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
        """Move the traced operations to the GPU, and compile them with inductor."""
        original = deepcopy(module)
        fake = torch._guards.detect_fake_mode(inputs)
        assert fake is not None
        with _inductor_for_gpu(self.capability), fake:
            moved = [_on_gpu(value) for value in inputs]
            for node in module.graph.nodes:
                node.args, node.kwargs = tree_map(
                    lambda value: DEVICE if isinstance(value, torch.device) else value, (node.args, node.kwargs)
                )
            FakeTensorProp(module, fake).propagate_dont_convert_inputs(*moved)
            load = partial(self._load, original)
            with mock.patch.object(GraphLowering, "compile_to_module", lambda lowering: load(lowering)):
                return compile_fx.compile_fx_inner(module, moved, **options)

    def _load(self, original: torch.fx.GraphModule, lowering: GraphLowering) -> Any:
        code = lowering.codegen()[0].value
        for old, new in REPLACED.items():
            code = code.replace(old, new)
        namespace: dict[str, Any] = {"__name__": "kernels", "__file__": "", "kernels": self, **lowering.constants}
        exec(code, namespace)
        call = namespace["call"] if INTERPRETED else lambda inputs: original(*inputs)
        return SimpleNamespace(call=call, __file__="")

    def triton(self, name: str, source: str, device_str: str) -> Any:
        """Return the kernel that the generated code runs."""
        module = PyCodeCache.load(source)
        tuner = getattr(module, name)
        if INTERPRETED:
            module.libdevice = Libdevice()
            kernel = self.kernels.setdefault(source, Kernel(name))
            return SimpleNamespace(run=partial(_interpret, tuner, kernel))
        if source not in self.kernels:
            self.kernels[source] = self._compile_kernel(name, tuner)
        return SimpleNamespace(run=None)

    def wait(self, namespace: dict[str, Any]) -> None:
        """Do nothing: `triton` has already compiled all kernels."""

    def _compile_kernel(self, name: str, tuner: CachingAutotuner) -> Kernel:
        config = tuner.configs[0]
        meta = tuner._create_compile_meta(config)
        source = ASTSource(tuner.fn, meta["signature"], meta["constants"], meta["configs"][0])
        options = tuner._create_compile_options(config, meta)
        compiled = triton.compile(source, target=GPUTarget("cuda", self.capability, 32), options=options)
        return Kernel(name, compiled.asm["ptx"], len(compiled.asm["cubin"]))


def _interpret(tuner: CachingAutotuner, kernel: Kernel, *arguments: Any, stream: int) -> None:
    """Run a kernel in Triton's interpreter, with the block sizes that inductor tries first."""
    config = tuner.configs[0]
    names = [name for name in tuner.fn.arg_names if name not in config.kwargs]
    named = {**dict(zip(names, arguments, strict=True)), **config.kwargs}
    tuner.fn[GridExpr.from_meta(tuner.inductor_meta, config).eval_slow(named)](**named)
    kernel.runs += 1


def _on_gpu(value: Any) -> Any:
    """Return a fake tensor on the GPU with the shape, strides and type of a fake tensor on the CPU."""
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=DEVICE)


@contextmanager
def _inductor_for_gpu(capability: int) -> Iterator[None]:
    """Let inductor generate code for a GPU that this machine does not have."""
    properties = SimpleNamespace(**vars(PROPERTIES), major=capability // 10, minor=capability % 10)
    target = GPUTarget("cuda", capability, 32)
    interface = "torch._dynamo.device_interface.CudaInterface"
    replaced: dict[str, Any] = {
        "torch.cuda.is_available": True,
        "torch.cuda.device_count": 1,
        "torch.cuda.current_device": 0,
        "torch.cuda.get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "torch.cuda.set_rng_state": None,
        "torch._inductor.scheduler.has_triton": True,
        "torch._inductor.runtime.triton_helpers.set_driver_to_gpu": None,
        "torch.cuda._exchange_device": 0,
        "torch.cuda._maybe_exchange_device": 0,
        "torch.cuda.get_device_capability": (properties.major, properties.minor),
        "torch.cuda.get_device_properties": properties,
        f"{interface}.get_device_properties": properties,
        f"{interface}.Worker.get_device_properties": properties,
        f"{interface}.get_compute_capability": capability,
        f"{interface}.is_triton_capable": True,
        f"{interface}.raise_if_triton_unavailable": None,
        f"{interface}.get_raw_stream": 0,
    }
    DeviceProperties.create.cache_clear()
    with ExitStack() as stack:
        stack.enter_context(device_guard())
        for name, value in replaced.items():
            stack.enter_context(mock.patch(name, lambda *_, value=value: value))
        driver = SimpleNamespace(get_current_target=lambda: target)
        stack.enter_context(mock.patch.object(triton.runtime.driver, "_active", driver))
        stack.enter_context(torch._inductor.config.patch(force_disable_caches=True))
        yield


def _gradient_error(made: Any, expected: Any) -> float:
    """Return the largest difference between two programs' gradients, relative to the largest gradient."""
    batch = _random_batch(made.spec, 0)
    for each in (made, expected):
        each(*batch).smoothed.backward()
    pairs = [(made.get_parameter(name).grad, parameter.grad) for name, parameter in expected.named_parameters()]
    return max(float((a - b).abs().max()) for a, b in pairs) / max(float(b.abs().max()) for _, b in pairs)


def _result_errors(made: Any, weights: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the largest differences of scores and of decoder steps from the interpreter, in nats."""
    source, target = _random_batch(made.spec, 0)
    expected = _expected(made.spec, Purpose.SCORE, source, target, weights)
    with torch.no_grad():
        score, state, steps = made.score(source, target), made.encode(source), []
        for token in target[:, :STEPS].split(1, dim=1):
            log_probabilities, state = made.advance(state, token)
            steps.append(log_probabilities[:, 0])
    labels = target[:, 1 : STEPS + 1]
    decoded = torch.stack(steps, 1).gather(2, labels[..., None])[..., 0] * (labels != PAD)
    pairs = {"score": (score, expected), "steps": (decoded, expected[:, :STEPS])}
    return {name: float((actual - wanted).abs().max()) for name, (actual, wanted) in pairs.items()}


def main() -> None:
    name, purpose, capability, precision = sys.argv[1:]
    # The interpreter draws other random numbers than PyTorch.
    architecture = {**SMALL["architecture"], **ARCHITECTURES[name], "N": 1, "dropout": 0.0 if INTERPRETED else 0.1}
    spec = specs.load("tiny", {**SMALL, "architecture": architecture})
    compiler, compile_layer = GpuCompiler(int(capability)), torch.compile
    purposes = TRANSLATE if purpose == "translate" else (Purpose.TRAIN,)
    optimised = graphs(spec, purposes, "cuda", precision)
    weights = initial_weights(spec, optimised)
    request = BuildRequest(spec, optimised, weights, "cpu", precision)

    def compile_for_gpu(layer: Any, *, options: Any, **others: Any) -> Any:
        return compile_layer(layer, backend=compiler, **others)

    with mock.patch("torch.compile", compile_for_gpu):
        made: Any = BACKENDS["inductor"].build(request)
    if purpose == "translate":
        differences = _result_errors(made, weights)
    else:
        differences = {"gradients": _gradient_error(made, BACKENDS["eager"].build(request))}
    print(json.dumps({"differences": differences, "kernels": [asdict(k) for k in compiler.kernels.values()]}))


if __name__ == "__main__":
    main()
