"""Rows of specs, trained for several seeds each: a folder of runs, and what their scores say of one another."""
