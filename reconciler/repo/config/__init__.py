"""`reconciler.yaml` as typed values: clusters, folders, rules, budgets, sizing."""

from reconciler.repo.config.config import (
    Backend,
    Budgets,
    Cluster,
    Config,
    OnImmutableChange,
    Requester,
    RuleSetting,
    Selector,
    parse_config,
    parse_requester,
)
from reconciler.repo.config.placement import PlacementSettings, PriorityClass, StrategyName
from reconciler.sizing.config import Goal, Labels, SizedJobs, SizingSettings, Unanswered, Write
from reconciler.sizing.devices import Vendor
from reconciler.sizing.prices import NO_PRICES, Prices

__all__ = [
    "NO_PRICES",
    "Backend",
    "Budgets",
    "Cluster",
    "Config",
    "Goal",
    "Labels",
    "OnImmutableChange",
    "PlacementSettings",
    "Prices",
    "PriorityClass",
    "Requester",
    "RuleSetting",
    "Selector",
    "SizedJobs",
    "SizingSettings",
    "StrategyName",
    "Unanswered",
    "Vendor",
    "Write",
    "parse_config",
    "parse_requester",
]
