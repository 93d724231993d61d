"""What this machine is called, for people who read what was measured on it."""

from __future__ import annotations

import platform

import torch

from compiler.host import cpuinfo


def called(device: str) -> str:
    """A GPU by its name; a processor by its own, with the threads that torch computes on."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(torch.device(device))
    threads = torch.get_num_threads()
    return f"{processor()}, {threads} thread{'s' * (threads > 1)}"


def processor() -> str:
    """Its model, as far as the system tells."""
    return cpuinfo().get("model name") or platform.processor() or platform.machine()
