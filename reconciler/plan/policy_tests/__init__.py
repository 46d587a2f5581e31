"""Use cases about rules."""
