"""The registry of sizing engines: one module and one row for each.

To add an engine, add its module and its row here, its name and section to `schemas/gpureconciler.io/v1alpha1/`
(`reconcilerconfig.json`, `sizinganswers.json`), and the adapter that calls it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from reconciler.core.engines.analytic import ANALYTIC
from reconciler.core.engines.autoconf import AUTOCONF
from reconciler.core.engines.autoconf_table import AUTOCONF_TABLE
from reconciler.core.engines.engine import Engine, Outcome
from reconciler.core.engines.rest import REST, RestSettings
from reconciler.core.engines.wrapper import WRAPPER, WrapperSettings

ENGINES: Mapping[str, Engine] = MappingProxyType(
    {engine.name: engine for engine in (ANALYTIC, AUTOCONF, AUTOCONF_TABLE, WRAPPER, REST)}
)
"""Engines by name."""

__all__ = [
    "ANALYTIC",
    "AUTOCONF",
    "AUTOCONF_TABLE",
    "ENGINES",
    "REST",
    "WRAPPER",
    "Engine",
    "Outcome",
    "RestSettings",
    "WrapperSettings",
]
