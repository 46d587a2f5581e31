"""A config repository beside a cluster with operators."""

from tests.cli.conftest import fleet, new_repository

__all__ = ["fleet", "new_repository"]
