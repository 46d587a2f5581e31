"""A reader of POSIX and bash scripts: which programs would be started, with which words. Runs nothing. Pure."""
