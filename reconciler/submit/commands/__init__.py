"""`reconciler init` and `reconciler new`."""
