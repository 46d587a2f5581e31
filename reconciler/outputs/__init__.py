"""A plan in, one effect out: text, JSON, Markdown, SARIF, JUnit, annotations, or a commit."""
