"""The command of this capability."""
