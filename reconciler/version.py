"""The engine's version: part of every plan digest and of every cache key."""

__version__ = "0.1.0"


def engine_version(bundle_digest: str) -> str:
    """Return the version of everything that decides on output: the package, its data, and installed kind families."""
    return f"{__version__}+{bundle_digest[:12]}"
