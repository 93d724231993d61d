"""Hostile cases: each is generated from a kind and a seed, run in a process of its own folder, and judged.

A case must end with the right result or with a ZooError, within the limits of `judge.py`, and must not write outside
its folder. `PYTHONPATH=tests python -m hostile KIND SEED` repeats one and prints its traceback.
"""
