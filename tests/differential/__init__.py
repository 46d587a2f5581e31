"""Differential tests: generated admission policies and objects, judged by a real API server and by us.

`make differential` asks many of them and prints the figures of docs/correctness.md; tests ask a sample.
"""
