"""Measurements of placement: how many GPUs each strategy allocates on public traces, and how fast it decides."""
