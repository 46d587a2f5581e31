"""The engine's version: part of every plan digest and of every cache key."""

__version__ = "0.1.0"
