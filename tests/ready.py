"""What ships with the program, made ready once for all tests of a process.

Caches of tests begin with it, like that of a user who has planned another repository. Tests about first runs do without.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from reconciler import resources
from reconciler.index.cache import DiskCache
from reconciler.plan import opening
from reconciler.policy.rule_book import load_rules
from tests.fakes.cache import MemoryCache


@cache
def shipped_values() -> Mapping[str, bytes]:
    """Return the values of a cache after a run that parsed and checked all shipped rules."""
    made = MemoryCache()
    shipped = opening.plan_engine(made, opening.catalogue()).shipped
    policies = load_rules([], {}, shipped=shipped.rules).policies
    shipped.recall(policies)
    for policy, _ in policies.bound:
        policies.shipped_programs.of(policy)
    shipped.save()
    return made.kept


def new_cache(folder: Path) -> str:
    """Create a cache folder below a folder, and return its path."""
    path = folder / "cache"
    made = DiskCache(path, stamp=resources.stamp())
    for key, value in shipped_values().items():
        made.put(key, value)
    return str(path)
