"""Checks of jobs before, during and after they run."""
