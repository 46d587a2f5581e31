"""A job's environment, volumes and labels laid over its queue's: nothing is lost, and every clash is said."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.core.kinds.rendered import about, place
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Traced


def merged_env(
    own: list[Any], queue: tuple[Traced, ...], job: tuple[Traced, ...], problems: list[Problem]
) -> list[Any]:
    """Return our variables, the queue's, then the job's; the job's wins over the queue's, ours loses."""
    if not queue and not job:
        return own
    of_job = {item.value.get("name"): item for item in job}
    kept = []
    for item in queue:
        name = item.value.get("name")
        over = of_job.get(name)
        if over is None:
            kept.append(item)
        elif over.value != item.value:
            _overridden(over, item, f"variable {name}", problems)
    taken = {item.value.get("name") for item in (*queue, *job)}
    return [*(item for item in own if item["name"] not in taken), *kept, *job]


def merged_entries(
    queue: Mapping[str, Traced], job: Iterable[tuple[str, Traced]], what: str, problems: list[Problem]
) -> dict[str, Any]:
    """Return labels or the like of the queue under those of the job; a value that the job changes is said."""
    merged: dict[str, Any] = dict(queue)
    for key, value in job:
        if key in queue and queue[key].value != value.value:
            _overridden(value, queue[key], f"{what} {key}", problems)
        merged[key] = value
    return merged


def merged_volumes(
    own: list[dict[str, Any]], queue: tuple[Traced, ...], job: tuple[Traced, ...], problems: list[Problem]
) -> list[Any]:
    """Return all volumes; two of one name cannot both be mounted."""
    seen: dict[Any, Traced | None] = {volume["name"]: None for volume in own}
    for item in (*queue, *job):
        _unique(seen, item, _plain(item.value, "name"), "volume", problems)
    return [*own, *queue, *job]


def merged_mounts(
    own: list[dict[str, Any]],
    queue: tuple[Traced, ...],
    job: tuple[Traced, ...],
    volumes: list[Any],
    problems: list[Problem],
) -> list[Any]:
    """Return all mounts; two at one path hide each other, and each needs its volume."""
    if not queue and not job:
        return own
    seen: dict[Any, Traced | None] = {_plain(mount, "mountPath"): None for mount in own}
    names = [_plain(volume.value if isinstance(volume, Traced) else volume, "name") for volume in volumes]
    for item in (*queue, *job):
        _unique(seen, item, item.value.get("mountPath"), "mount path", problems)
        if item.value.get("name") not in names:
            message = f"volume {item.value.get('name')!r} not found"
            hint = f"known volumes: {', '.join(map(str, names)) or 'none'}"
            problems.append(about(item, "torchrun.mount-unknown", message, hint))
    return [*own, *queue, *job]


def _plain(mapping: Mapping[str, Any], key: str) -> Any:
    value = mapping.get(key)
    return value.value if isinstance(value, Traced) else value


def _unique(seen: dict[Any, Traced | None], item: Traced, name: Any, what: str, problems: list[Problem]) -> None:
    if name not in seen:
        seen[name] = item
        return
    other = seen[name]
    where = f"at {place(other)}" if other else "by the storage of the job"
    message = f"{what} {name!r} is already used {where}"
    problems.append(about(item, "torchrun.clash", message, "choose another one"))


def _overridden(job: Traced, queue: Traced, what: str, problems: list[Problem]) -> None:
    message = f"{what} overrides the one of the queue at {place(queue)}"
    problems.append(about(job, "torchrun.override", message, severity=Severity.WARNING))
