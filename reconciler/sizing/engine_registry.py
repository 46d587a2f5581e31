"""The registry of sizing engines, and what an engine can answer.

To add an engine, add its row here, its name and section to `schemas/gpureconciler.io/v1alpha1/`
(`reconcilerconfig.json`, `sizinganswers.json`), and the adapter that calls it.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct


class Outcome(StrEnum):
    """The outcome of a question to an external engine. Evidence files use the same words."""

    CHANCES = "chances"  # a probability for each layout
    RECOMMENDATION = "recommendation"  # a number of GPUs and workers
    REFUSAL = "refusal"  # answered, without a recommendation
    ERROR = "error"  # the engine failed
    PENDING = "pending"  # accepted, but not answered yet


class Engine(Struct, frozen=True, kw_only=True):
    """A sizing engine. The built-in memory model always runs; an external engine adds its opinion.

    Answers of an external engine are evidence: `reconciler size record` writes them, plans read them. An engine that
    `recommends` answers with a number of GPUs; any other external engine gives a probability for each layout.

    `settings` is the type of the engine's own section of `spec.sizing`, which carries the engine's name; `required` is
    the field of that section without which the engine cannot run.
    """

    name: str
    is_external: bool = True
    recommends: bool = False
    settings: type[Struct] | None = None
    required: str = ""

    def __str__(self) -> str:
        """Return the name, as `spec.sizing.engine` spells it."""
        return self.name


class WrapperSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec.sizing.wrapper`: the path of the script, and how long one run may take."""

    script: str
    timeout_seconds: int = 120


class RestSettings(Struct, frozen=True, kw_only=True, rename="camel"):
    """`spec.sizing.rest`: the URL, the timeout of one HTTP call, and the deadline for an answer."""

    url: str
    timeout_seconds: int = 30
    deadline_seconds: int = 600


ANALYTIC = Engine(name="analytic", is_external=False)
"""The built-in memory model alone."""

AUTOCONF = Engine(name="autoconf")
"""The installed ado-autoconf, which gives a probability for each layout."""

WRAPPER = Engine(name="wrapper", recommends=True, settings=WrapperSettings, required="script")
"""A script of the user that recommends a number of GPUs."""

REST = Engine(name="rest", recommends=True, settings=RestSettings, required="url")
"""A service with ado's REST API that recommends a number of GPUs."""

ENGINES: Mapping[str, Engine] = MappingProxyType({one.name: one for one in (ANALYTIC, AUTOCONF, WRAPPER, REST)})
"""Engines by name."""
