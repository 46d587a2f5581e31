"""Node health: one use case per module."""
