"""Output about live clusters."""
