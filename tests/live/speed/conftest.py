"""A config repository beside a real API server."""

from tests.cli.conftest import fleet

__all__ = ["fleet"]
