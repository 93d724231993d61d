"""Functions that emitted code calls: attention, other layers, and losses. `compiler.cuda` contains kernels for GPUs."""
