"""The model of ado-autoconf, compiled to a table."""

from reconciler.core.engines.engine import Engine

AUTOCONF_TABLE = Engine(name="autoconf-table")
