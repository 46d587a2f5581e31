"""Frameworks of pre-training: models by their sizes, and parallelism of every kind."""
