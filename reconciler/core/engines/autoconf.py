"""The installed ado-autoconf, which gives a probability for each layout."""

from reconciler.core.engines.engine import Engine

AUTOCONF = Engine(name="autoconf")
