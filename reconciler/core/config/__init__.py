"""`reconciler.yaml` as typed values: clusters, folders, rules, budgets, sizing."""

from reconciler.core.config.cluster import Backend, Cluster, Selector, Vendor
from reconciler.core.config.config import Budgets, Config, RuleSetting, parse_config
from reconciler.core.config.sizing import (
    Engine,
    Goal,
    Labels,
    Rest,
    SizedJobs,
    SizedKind,
    SizingSettings,
    Unanswered,
    Wrapper,
    Write,
)

__all__ = [
    "Backend",
    "Budgets",
    "Cluster",
    "Config",
    "Engine",
    "Goal",
    "Labels",
    "Rest",
    "RuleSetting",
    "Selector",
    "SizedJobs",
    "SizedKind",
    "SizingSettings",
    "Unanswered",
    "Vendor",
    "Wrapper",
    "Write",
    "parse_config",
]
