"""Cost of a spec, known before anything runs: parameters, FLOPs, memory, disk space and time."""
