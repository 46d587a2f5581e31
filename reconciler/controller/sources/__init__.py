"""The sources: where they come from, what they say, and where their status goes."""
