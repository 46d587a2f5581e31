"""`spec.placement` of `reconciler.yaml`: how jobs are placed, and how priorities of 0 to 10 become classes."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.problems import Violation

PRIORITY_MAX = 10


class StrategyName(StrEnum):
    """The order in which nodes are tried for a job."""

    LEAST_UTILIZED = "least_utilized"
    BEST_FIT = "best_fit"
    PRIORITY = "priority"
    ROUND_ROBIN = "round_robin"
    FRAGMENTATION = "fragmentation"


class PriorityClass(Struct, frozen=True, order=True, array_like=True):
    """The class of a range of priorities, both ends included: a WorkloadPriorityClass of Kueue, or a PriorityClass."""

    least: int
    most: int
    name: str

    def __str__(self) -> str:
        return f"{self.least}-{self.most}: {self.name}" if self.least != self.most else f"{self.least}: {self.name}"


class PlacementSettings(Struct, frozen=True, kw_only=True):
    """The settings of `spec.placement`.

    is_type_required: the preferred GPU type of a workload is required. pin: nodes that a plan chose are written into
    the pods. annotate: labels and annotations `agentaflow.gpu/…` are rendered.
    """

    strategy: StrategyName = StrategyName.LEAST_UTILIZED
    utilisation_goal: int = 80  # percent; nodes above it are tried last
    is_type_required: bool = False
    pin: bool = False
    annotate: bool = False
    priorities: tuple[PriorityClass, ...] = ()  # sorted

    def class_of(self, priority: int) -> str:
        """Return the class of a priority; empty if there is none."""
        return next((one.name for one in self.priorities if one.least <= priority <= one.most), "")


def parse_placement(spec: Mapping[str, Any]) -> PlacementSettings:
    """Read `placement`, which its JSON Schema has accepted."""
    shipped = PlacementSettings()
    return PlacementSettings(
        strategy=StrategyName(spec.get("strategy", shipped.strategy)),
        utilisation_goal=spec.get("utilisationGoal", shipped.utilisation_goal),
        is_type_required=spec.get("preferredType") == "require",
        pin=spec.get("pin", shipped.pin),
        annotate=spec.get("annotate", shipped.annotate),
        priorities=tuple(sorted(_class(*one) for one in spec.get("priorities", {}).items())),
    )


def _class(written: str, name: str) -> PriorityClass:
    least, _, most = written.partition("-")
    return PriorityClass(int(least), int(most or least), name)


def placement_violations(spec: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield what the schema cannot say: a range has its ends in order, and no priority has two classes."""
    seen: dict[int, str] = {}
    for written, name in spec.get("placement", {}).get("priorities", {}).items():
        found = _class(written, name)
        clash = next((seen[one] for one in range(found.least, found.most + 1) if one in seen), "")
        message = f"overlaps with {clash!r}" if clash else f"ends before it starts: {found}"
        if clash or found.least > found.most:
            hint = "give each priority from 0 to 10 one class at most, such as 0-3: low"
            path = ("spec", "placement", "priorities", written)
            yield Violation(rule="config.placement", path=path, message=message, hint=hint, at_key=True)
        seen |= dict.fromkeys(range(found.least, found.most + 1), written)
