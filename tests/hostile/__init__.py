"""Hostile cases: made from a kind and a seed, run, and judged.

A case ends in the right result or in an error of the house, within SECONDS and BYTES (`judge.py`), and writes nothing
outside its folder. One that fails is repeated, with its traceback, by `PYTHONPATH=tests python -m hostile KIND SEED`.
"""
