"""The reports of rules: tested examples, and results for other tools."""
