"""Node health: readings of a node become findings, findings of a fleet become decisions. All of it is pure."""
