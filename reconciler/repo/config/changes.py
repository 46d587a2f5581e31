"""The changes of settings that decide how changes are judged: the stricter of two, and every difference."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import SourceRef
from reconciler.kube.values import plural
from reconciler.repo.config.builds import Build
from reconciler.repo.config.config import NOT_RENDERED, Budgets, Cluster, Config
from reconciler.repo.config.pod_paths import DeclaredPods, PodPath

_FILE = SourceRef(path="reconciler.yaml")
_JUDGING_DEFAULTS = ("base", "cluster", "date")
_NETWORK = " with network"
_NAMES = {
    "budgets.delete_count": "budgets.deletes.count",
    "budgets.delete_share": "budgets.deletes.share",
    "budgets.disruption_gpus": "budgets.disruption.gpus",
    "budgets.disruption_share": "budgets.disruption.share",
    "budgets.gpu_quota_count": "budgets.gpuQuotaChange.count",
    "budgets.gpu_quota_share": "budgets.gpuQuotaChange.share",
    "evidence_days": "evidence.maxAge",
    "placement.is_type_required": "placement.preferredType",
    "forge.most": "budgets.changeRequests",
}
"""Settings whose field has another name than in `reconciler.yaml`; the others differ in their case only."""


class SettingChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A setting, rule, policy or exception before and after. `weakens` if later changes may pass that would not now."""

    setting: str  # its path in `reconciler.yaml`, or `policy NAME …`, or `exception RULE for OBJECT`
    before: str
    after: str
    weakens: bool = False
    is_exception: bool = False
    effect: str = ""
    place: SourceRef = _FILE


def stricter(base: Config, head: Config) -> Config:
    """Return the head's configuration with the stricter limits of both: budgets, and the age of evidence."""
    if base is head:
        return head
    budgets = {
        name: _stricter_limit(getattr(base.budgets, name), getattr(head.budgets, name))
        for name in Budgets.__struct_fields__
    }
    days = _stricter_limit(base.evidence_days, head.evidence_days)
    return replace(head, budgets=Budgets(**budgets), evidence_days=days)


def _stricter_limit(base: Any, head: Any) -> Any:
    """Return the lower of two limits. None means no limit, and True allows what False refuses."""
    if base is None or head is None:
        return head if base is None else base
    return head if _is_at_most(head, base) else base


def _is_at_most(one: Any, other: Any) -> bool:
    """Return whether a limit is not weaker than another; a limit that is not a number cannot be compared."""
    if other is None or one == other:
        return True
    return isinstance(one, int | float) and isinstance(other, int | float) and one <= other


def config_changes(base: Config, head: Config, rendered: Callable[[str], int]) -> Iterator[SettingChange]:
    """Yield the settings that differ, except rules and sizing. `rendered` counts the objects of a base's cluster."""
    yield from _cluster_changes(base, head, rendered)
    for path, (before, after) in _differing(_plain(base), _plain(head)).items():
        weakens, effect = _meaning(path, before, after)
        show = _shown_budget if path.startswith("budgets.") else shown
        yield SettingChange(
            setting=_NAMES.get(path) or camel_case(path),
            before=show(before),
            after=show(after),
            weakens=weakens,
            effect=effect,
        )


def _plain(config: Config) -> dict[str, Any]:
    """Return the settings as plain values, without clusters, rules, and sizing, which decides on objects alone."""
    plain = _builtins(replace(config, clusters=(), rules={}))
    days = config.evidence_days
    return {
        **plain,
        **dict.fromkeys(("clusters", "rules", "sizing", "is_rendered")),
        "rendered": config.rendered if config.is_rendered else NOT_RENDERED,
        "builds": [_built(one) for one in config.builds],
        "pod_paths": [_declared(one) for one in config.pod_paths],
        "placement": {
            **_builtins(config.placement),
            "priorities": "; ".join(map(str, config.placement.priorities)) or None,
        },
        "drift": {"action": str(config.drift.action), "rules": [str(rule) for rule in config.drift.rules]},
        "evidence_days": None if days is None else f"{days}d",
    }


def _built(build: Build) -> str:
    """Return a build in one line; what else its entry says is shown by the objects that change."""
    allows = build.network or build.network_waits
    return f"{build.path} ({' '.join(filter(None, (build.tool, build.release)))}){_NETWORK if allows else ''}"


def _declared(pods: DeclaredPods) -> str:
    """Return a declaration in one line, with all that decides on the figures."""
    return f"{pods.kind}.{pods.group}: {'; '.join(map(_place, pods.paths))}"


def _place(path: PodPath) -> str:
    at = f"{path.at}." if path.at else ""
    amounts = " x ".join((f"{at}{path.template}", f"{at}{path.replicas}", *path.times))
    bounds = (("at least", path.least), ("at most", path.most))
    return amounts + "".join(f", {words} {at}{field}" for words, field in bounds if field)


def _meaning(path: str, before: Any, after: Any) -> tuple[bool, str]:
    """Return whether a setting becomes weaker, and its effect in words."""
    top, _, name = path.partition(".")
    if top == "budgets":
        return not _is_at_most(after, before), ""
    if top == "evidence_days":
        longer = before is not None and (after is None or _days(after) > _days(before))
        return longer, "older evidence is no longer reported" if longer else ""
    if top == "rendered":
        words = f"{before}/ is no longer written and no longer compared; what syncs it keeps the objects there"
        begins = "plans compare with the committed files, which `reconciler commit` writes"
        return before != NOT_RENDERED, begins if before == NOT_RENDERED else words
    if top == "defaults" and name in _JUDGING_DEFAULTS:
        return after is not None, "takes effect once the base has it" if after is not None else ""
    if top in ("sources", "builds", "policies", "evidence", "approvals", "pod_paths", "exclude"):
        sides = (before, after) if top != "exclude" else (after, before)
        old, new = ({one.removesuffix(_NETWORK) for one in _listed(side)} for side in sides)
        gone = sorted(old - new)
        fetches = top == "builds" and any(_NETWORK in one for one in {*_listed(after)} - {*_listed(before)})
        effects = [f"{', '.join(gone)} is no longer read"] if gone else []
        effects += ["the network is used once the base has it"] if fetches else []
        return bool(effects), "; ".join(effects)
    looser = top == "drift" and bool({*_listed(after)} - {*_listed(before)} - {"revert"})
    words = "live objects may differ from Git" if looser else ""
    is_other = (top == "on_immutable_change" and before == "refuse") or (path == "forge.owners_approve" and bool(after))
    return looser or is_other, words


def _listed(folders: Any) -> Sequence[str]:
    return [folders] if isinstance(folders, str) else folders or ()


def _days(text: str) -> int:
    return int(text.removesuffix("d"))


def _cluster_changes(base: Config, head: Config, rendered: Callable[[str], int]) -> Iterator[SettingChange]:
    for name in sorted({cluster.name for cluster in (*base.clusters, *head.clusters)}):
        before, after = base.cluster(name), head.cluster(name)
        setting = f"clusters.{name}"
        if before is None or after is None:
            words = ("not defined", "defined") if before is None else ("defined", "removed")
            left = f"{plural(rendered(name), 'rendered object')} deleted or left behind" if after is None else ""
            yield SettingChange(setting=setting, before=words[0], after=words[1], weakens=after is None, effect=left)
        elif before != after:
            yield from _changes_of_cluster(setting, before, after)


def _changes_of_cluster(setting: str, before: Cluster, after: Cluster) -> Iterator[SettingChange]:
    narrower = _is_narrower(before, after)
    old, new = ({**_builtins(cluster), "sizing": None, "placement": None} for cluster in (before, after))
    for path, values in _differing(old, new).items():
        selects = narrower and path.startswith("select.")
        asks = path.startswith("applied_by")
        effect = "documents that are no longer selected are no longer rendered" if selects else ""
        yield SettingChange(
            setting=f"{setting}.{camel_case(path)}",
            before=shown(values[0]),
            after=shown(values[1]),
            weakens=selects or asks,
            effect="admission policies judge the requests of another user" if asks else effect,
        )


def _is_narrower(before: Cluster, after: Cluster) -> bool:
    """Return whether the selector of a cluster may leave out documents that it selected."""
    old, new = before.select, after.select
    folders = bool(new.folders) and not (
        old.folders and all(any(f"{one}/".startswith(f"{top}/") for top in new.folders) for one in old.folders)
    )
    return folders or not {*new.labels} <= {*old.labels}


def _builtins(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value)
    return plain


def _differing(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """Return the leaves that differ, by path."""
    old, new = flatten(before), flatten(after)
    return {path: (old.get(path), new.get(path)) for path in sorted({*old, *new}) if old.get(path) != new.get(path)}


def flatten(value: Any, path: str = "") -> dict[str, Any]:
    """Return the leaves of nested mappings by path; a list is a leaf unless it holds mappings."""
    if isinstance(value, Mapping):
        items = [(str(name), inner) for name, inner in value.items()]
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value):
        items = [(f"[{position}]", inner) for position, inner in enumerate(value)]
    else:
        return {} if value is None else {path: value}
    leaves: dict[str, Any] = {}
    for name, inner in items:
        leaves |= flatten(inner, f"{path}{'.' if path and not name.startswith('[') else ''}{name}")
    return leaves


def camel_case(path: str) -> str:
    """Return a path with its steps written as in `reconciler.yaml`."""
    head, *rest = path.split("_")
    return head + "".join(part[:1].upper() + part[1:] for part in rest)


def shown(value: Any) -> str:
    """Return the value of a setting for people."""
    if value is None or value in ([], (), ""):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join("=".join(map(str, item)) if isinstance(item, list | tuple) else str(item) for item in value)
    return str(value)


def _shown_budget(value: Any) -> str:
    if value is None:
        return "no limit"
    return ("allow" if value else "refuse") if isinstance(value, bool) else shown(value)
