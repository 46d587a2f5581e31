"""The shipped rules, from short sources."""
