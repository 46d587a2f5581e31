"""A config repository beside a real API server."""

from tests.cli.conftest import fleet, new_repository

__all__ = ["fleet", "new_repository"]
