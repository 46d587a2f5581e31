"""`reconciler.yaml` as typed values: clusters, folders, rules, budgets, sizing."""

from reconciler.core.config.config import (
    Backend,
    Budgets,
    Cluster,
    Config,
    OnImmutableChange,
    Requester,
    RuleSetting,
    Selector,
    Vendor,
    parse_config,
)
from reconciler.core.config.prices import NO_PRICES, Prices
from reconciler.core.config.sizing import (
    Goal,
    Labels,
    SizedJobs,
    SizingSettings,
    Unanswered,
    Write,
)

__all__ = [
    "NO_PRICES",
    "Backend",
    "Budgets",
    "Cluster",
    "Config",
    "Goal",
    "Labels",
    "OnImmutableChange",
    "Prices",
    "Requester",
    "RuleSetting",
    "Selector",
    "SizedJobs",
    "SizingSettings",
    "Unanswered",
    "Vendor",
    "Write",
    "parse_config",
]
