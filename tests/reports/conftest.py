"""A config repository, as the product makes it, and the real promtool."""

from tests.chart.conftest import promtool
from tests.cli.conftest import fleet, new_repository

__all__ = ["fleet", "new_repository", "promtool"]
