"""Carrying out a plan on a cluster, as values: steps and their order, the inventory, results. Nothing here calls it."""
