"""Findings about nodes, for people and for programs."""
