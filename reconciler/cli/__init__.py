"""The command line: one module per verb; flags in, exit code out, no decisions."""
