"""Outputs of a plan: text, JSON, Markdown, SARIF, JUnit, GitHub annotations, names, and commits."""
