"""`component_version`: the version of a component that a cluster runs, and how it is known."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from reconciler.repo.config.config import Cluster


class VersionSource(StrEnum):
    """The source of a version, as messages name it."""

    DECLARED = "reconciler.yaml"
    OBSERVED = "evidence"
    SHIPPED = "shipped"  # nobody says what the cluster runs: the version whose definitions ship


class ComponentVersion(Struct, frozen=True, kw_only=True):
    """The version of a component, such as 0.19 or 1.37.2, without a leading v."""

    version: str
    source: VersionSource


def component_version(
    component: str, cluster: Cluster, *, observed: Mapping[str, str], shipped: Mapping[str, str]
) -> ComponentVersion:
    """Return the version of a component (`kube.schemas.components`): declared, else observed, else shipped."""
    sides = (
        (VersionSource.DECLARED, dict(cluster.versions)),
        (VersionSource.OBSERVED, observed),
        (VersionSource.SHIPPED, shipped),
    )
    source, known = next((side for side in sides if component in side[1]), sides[-1])
    return ComponentVersion(version=known[component].removeprefix("v"), source=source)
