"""The row of a sizing engine, and what an engine can answer."""

from enum import StrEnum

from msgspec import Struct


class Outcome(StrEnum):
    """What became of a question to an external engine. Evidence files use the same words."""

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
