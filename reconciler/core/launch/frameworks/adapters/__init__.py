"""Frameworks that train adapters."""
