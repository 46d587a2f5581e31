"""Comments on pull requests: Markdown that is escaped, folded and bounded."""
