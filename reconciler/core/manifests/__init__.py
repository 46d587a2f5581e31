"""`Manifest`: one rendered object, its path, owner and limits."""
