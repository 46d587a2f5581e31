"""Evaluate rules: admission policies in CEL, and reference rules over all objects."""
