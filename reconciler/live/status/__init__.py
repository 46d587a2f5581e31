"""The status of jobs in a live cluster: phase, workers, and in words why a job waits. Pure functions."""
