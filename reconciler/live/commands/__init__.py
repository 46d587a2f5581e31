"""Commands that ask live clusters."""
