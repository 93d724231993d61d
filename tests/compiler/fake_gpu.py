"""A GPU whose tensors have shapes but no values, so that code for GPUs runs on a machine without one.

torch's fake tensors compute the device, type and shape of each result. Nothing is ever computed, so an operation that
needs a value of a GPU tensor fails. On a real GPU, such an operation makes the host wait, and no CUDA graph can contain
it. Tensors on the CPU have values as usual.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from compiler.runtime.layers import _sinusoid_table

DEVICE = torch.device("cuda:0")
_GUARDS = "_ZN3c104impl26device_guard_impl_registryE"
"""Symbol of `c10::impl::device_guard_impl_registry`, an array with one pointer for each type of device."""


class HostWait(AssertionError):
    """Error for an operation that makes the host wait for the GPU."""


class FakeGpu(TorchDispatchMode):
    """Mode in which `cuda:0` exists. See `fake_gpu`."""

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()
        self._fake = fake
        self.capturing = False
        """Whether a CUDA graph is recorded. Copies from the CPU are errors then, because they make the host wait."""
        self.ignores_padding = False
        """Whether an index that is a mask selects all elements, instead of being an error."""

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given, target = tensors((args, kwargs)), kwargs.get("device")
        is_fake = [isinstance(tensor, FakeTensor) for tensor in given]
        if not any(is_fake) and (target is None or torch.device(target).type != "cuda"):
            with unset_fake_temporarily():
                return operation(*args, **kwargs)
        name = operation._schema.name.removeprefix("aten::")
        if self.ignores_padding and name == "index" and makes_host_wait(operation, args):
            values, (mask,) = args
            return values.flatten(0, mask.ndim - 1)
        if makes_host_wait(operation, args):
            raise HostWait(f"{name} needs values of a tensor on the GPU")
        on_cpu = [tensor for tensor in given if tensor.device.type == "cpu"]
        if name in ("_to_copy", "copy_") and on_cpu:
            if name == "copy_" and not isinstance(args[0], FakeTensor):
                raise HostWait("copy_ copies from the GPU to the CPU")
            if self.capturing:
                raise HostWait(f"{name} copies from the CPU while a CUDA graph is recorded")
        elif any(tensor.ndim for tensor in on_cpu):
            raise AssertionError(f"{name} reads tensors on the CPU and on the GPU")
        if not all(is_fake):
            args, kwargs = tree_map(self._to_fake, (args, kwargs))
        result = operation(*args, **kwargs)
        for tensor in tensors(result):
            if tensor.device != DEVICE:
                raise HostWait(f"{name} copies from the GPU to {tensor.device}")
        return result

    def _to_fake(self, value: Any) -> Any:
        is_real = isinstance(value, Tensor) and not isinstance(value, FakeTensor)
        return self._fake.from_tensor(value) if is_real else value


@contextmanager
def fake_gpu() -> Iterator[FakeGpu]:
    """Run a block of code as on a machine with the GPU `cuda:0`, whose tensors have no values."""
    fake = FakeTensorMode()
    with device_guard(), fake, FakeGpu(fake) as gpu:
        try:
            yield gpu
        finally:
            _sinusoid_table.cache_clear()  # it contains fake tensors


def makes_host_wait(operation: Any, args: Sequence[Any]) -> bool:
    """Return whether the host must read values of tensors to continue after an operation, or to size its result."""
    if operation._schema.name in ("aten::index", "aten::index_put", "aten::index_put_"):
        return any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors(args[1]))
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(operation.tags))


def tensors(values: object) -> list[Tensor]:
    """Return the tensors in arguments or results of an operation, including those in lists."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


@contextmanager
def device_guard() -> Iterator[None]:
    """Let tensors on `cuda` be indexed in a build of torch without CUDA.

    Indexing selects the device of the tensor first. A build without CUDA has nothing that could select a GPU, and
    raises an error. Use the functions for the CPU, which do nothing.
    """
    suffix = "dylib" if sys.platform == "darwin" else "so"
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / f"libc10.{suffix}"))
    cpu, cuda = 0, 1  # as in c10/core/DeviceType.h
    guards = (ctypes.c_void_p * 2).in_dll(library, _GUARDS)
    before = guards[cuda]
    guards[cuda] = before or guards[cpu]
    try:
        yield
    finally:
        guards[cuda] = before
