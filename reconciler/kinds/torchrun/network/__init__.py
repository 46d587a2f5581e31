"""Networks between the nodes of a job: published presets of vendors, and those that a queue defines itself."""
