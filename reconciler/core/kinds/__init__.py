"""The registry of kinds, and one folder per family with everything particular to it."""
