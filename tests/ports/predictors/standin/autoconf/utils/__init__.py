"""As in the library: names that are other names."""
