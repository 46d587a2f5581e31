"""`Manifest`: one rendered object, its owner and limits."""
