"""Commands of node health."""
