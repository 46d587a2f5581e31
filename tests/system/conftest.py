"""Fixtures of tests that act as users, attackers and sceptics on whole repositories."""

from tests.cli.conftest import fleet, new_repository

__all__ = ["fleet", "new_repository"]
