"""Script that prints its peak memory before, while and after it uses 100 MB and 400 MB, and that of a new process."""

import json
import re
import subprocess
import sys
from pathlib import Path

import torch

from zoo.system.memory import peak_memory

CHILD = "from zoo.system.memory import peak_memory; print(peak_memory('cpu'))"
cpu, status = torch.device("cpu"), Path("/proc/self/status")
before = peak_memory(cpu)
tensor = torch.ones(25_000_000)
after = peak_memory(cpu)
larger = b"1" * 400_000_000
child = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True).stdout
del tensor, larger
linux = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
later = peak_memory(cpu)
print(json.dumps([before, after, later, 1024 * int(linux[1]) if linux else later, int(child)]))
