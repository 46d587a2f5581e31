"""Jobs whose rendered objects depend on `rendered/` itself: new generations, and jobs that have ended."""
