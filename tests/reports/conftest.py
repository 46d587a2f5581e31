"""A config repository, as the product makes it."""

from tests.cli.conftest import fleet, new_repository

__all__ = ["fleet", "new_repository"]
