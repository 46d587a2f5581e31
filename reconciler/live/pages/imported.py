"""The written and the omitted objects of an import, for people and as JSON."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.plan.live.authored import LeftOut


def render_imported(
    cluster: str,
    warnings: Mapping[ObjectKey, str],
    left_out: Sequence[tuple[ObjectKey, LeftOut]],
    failures: Mapping[str, str],
    *,
    count: int,
) -> Iterator[str]:
    """Yield the counts of one cluster, what is left out by reason, and what needs attention."""
    yield f"{cluster}: {plural(count, 'object')} imported, {len(left_out)} left out\n"
    reasons = Counter(reason for _, reason in left_out)
    yield from (f"  left out ({reason}): {number}\n" for reason, number in reasons.most_common())
    yield from (f"  warning: {key}: {warning}\n" for key, warning in warnings.items())
    yield from (f"  warning: {kind} could not be read: {message}\n" for kind, message in failures.items())


def imported_json(
    cluster: str,
    files: Mapping[str, tuple[ObjectKey, str]],
    left_out: Sequence[tuple[ObjectKey, LeftOut]],
    failures: Mapping[str, str],
) -> dict[str, Any]:
    """Return the same as plain JSON values. `files`: keys and warnings by path."""
    return {
        "cluster": cluster,
        "imported": [{"object": str(key), "path": path, "warning": warning} for path, (key, warning) in files.items()],
        "leftOut": [{"object": str(key), "reason": str(reason)} for key, reason in left_out],
        "failures": msgspec.to_builtins(failures),
    }
