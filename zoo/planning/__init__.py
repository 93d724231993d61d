"""Compute the cost of a spec before training: parameters, FLOPs, memory and disk space."""
