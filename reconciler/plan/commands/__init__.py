"""The commands about plans: each parses its flags, calls a use case and prints."""
