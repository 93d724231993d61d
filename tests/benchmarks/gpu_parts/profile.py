"""Measure the times of GPU kernels with torch's profiler."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from tests.benchmarks.gpu_parts.setting import Figures, Setting

SHOWN = 8
"""Number of kernels in a row of results. The file contains all kernels."""


def profiled(setting: Setting, name: str, work: Callable[[], object], count: int) -> Figures:
    """Call a function, and write the time of each GPU kernel to `kernels-NAME.json`.

    Args:
        setting: The device and the output folder.
        name: Name of the measurement, for the file name.
        work: The function to call.
        count: Number of steps that the function runs. All results are per step.

    Returns:
        The total time of all kernels in microseconds, their number, and the times of the slowest kernels. Empty if the
        device is not a GPU; the function is then not called.
    """
    if not setting.cuda:
        return {}
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        work()
        torch.cuda.synchronize(setting.device)
    events = [event for event in recorded.key_averages() if event.self_device_time_total]
    kernels = [(event.key, event.count / count, event.self_device_time_total / count) for event in events]
    kernels.sort(key=lambda kernel: -kernel[2])
    file = setting.folder / f"kernels-{name.replace(' ', '-').replace(',', '')}.json"
    file.write_text(json.dumps(kernels, indent=0))
    return {
        "busy, us": sum(kernel[2] for kernel in kernels),
        "kernels": sum(kernel[1] for kernel in kernels),
        "longest, us": {re.sub(r"[^\w ].*", "", key)[:40] or key[:40]: round(time) for key, _, time in kernels[:SHOWN]},
    }
