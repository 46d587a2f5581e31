"""The built-in memory model alone."""

from reconciler.core.engines.engine import Engine

ANALYTIC = Engine(name="analytic", is_external=False)
