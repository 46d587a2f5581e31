"""Where sources come from, what they say, and where their status goes."""
