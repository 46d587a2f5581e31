"""A config repository."""

from tests.cli.conftest import fleet, new_repository

__all__ = ["fleet", "new_repository"]
