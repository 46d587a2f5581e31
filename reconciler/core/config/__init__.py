"""`reconciler.yaml` as typed values: clusters, folders, rules, budgets, sizing."""

from reconciler.core.config.cluster import Backend, Cluster, Selector, Vendor
from reconciler.core.config.config import Budgets, Config, RuleSetting, parse_config
from reconciler.core.config.sizing import (
    Goal,
    Labels,
    SizedJobs,
    SizingSettings,
    Unanswered,
    Write,
)

__all__ = [
    "Backend",
    "Budgets",
    "Cluster",
    "Config",
    "Goal",
    "Labels",
    "RuleSetting",
    "Selector",
    "SizedJobs",
    "SizingSettings",
    "Unanswered",
    "Vendor",
    "Write",
    "parse_config",
]
