"""The command line: one module per command; flags in, exit code out."""
