"""One use case per module, callable from the command line, a controller and a test alike."""
