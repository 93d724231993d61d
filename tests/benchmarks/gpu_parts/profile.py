"""Times of the kernels of a GPU, from torch's profiler."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile

from tests.benchmarks.gpu_parts.setting import Figures, Setting

SHOWN = 8
"""Number of kernels in a row of figures. The file has all."""


def profiled(setting: Setting, name: str, work: Callable[[], object], count: int) -> Figures:
    """Run work, and write the microseconds of each kernel to kernels-NAME.json. Return the largest, and their sum.

    Args:
        setting: The setting.
        name: Name of the work.
        work: The work.
        count: Number of steps in the work, by which numbers are divided.
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
