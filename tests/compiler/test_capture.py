"""A failed recording of a CUDA graph leaves the process as it was."""

from __future__ import annotations

import gc
from unittest import mock

import pytest
import torch

from compiler.capture import CudaGraphRecorder


def test_a_recording_that_cannot_begin_does_not_stop_garbage_collection() -> None:
    names = ("device", "current_stream", "stream", "Stream", "CUDAGraph")
    with mock.patch.multiple(torch.cuda, **{name: mock.MagicMock() for name in names}):
        torch.cuda.CUDAGraph.return_value.capture_begin.side_effect = RuntimeError("out of memory")
        with pytest.raises(RuntimeError, match="out of memory"):
            CudaGraphRecorder(torch.device("cuda"))(mock.Mock())
    assert gc.isenabled()
