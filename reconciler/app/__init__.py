"""Use cases: one module each. They take values and ports, return values, and raise errors of `reconciler.errors`.

The command line, a controller and a test call the same functions. Nothing here prints, reads the environment or
changes the process.
"""
