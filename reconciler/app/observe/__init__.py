"""Use cases that look at live clusters: evidence from them, and the status of their jobs."""
