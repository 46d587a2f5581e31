"""Use cases of `reconciler size`."""
