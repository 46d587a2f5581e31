"""Drift as a decision: the edits of sources that adopt what others changed on live clusters."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.index.build import read_files
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.manifests.ownership import LABEL_PATH
from reconciler.kube.items import ListKeys, match_items
from reconciler.kube.objects import FieldPath, SourceRef, format_path
from reconciler.kube.printed_paths import ORDER, find_path
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import trace
from reconciler.kube.values import value_at
from reconciler.kube.yaml import Document
from reconciler.live.observe.propose import ProposedEdit
from reconciler.plan import Drift
from reconciler.plan.planning import Planned
from reconciler.repo.config.drift import DriftAction
from reconciler.repo.port import Repository

NOT_ADOPTED = "drift.not-adopted"
"""Rule of a drifted field that no edit of a source can adopt."""


class Adoptions(Struct, frozen=True, kw_only=True):
    """The edits of source files that adopt drift, and what cannot be adopted."""

    edits: tuple[ProposedEdit, ...] = ()
    problems: tuple[Problem, ...] = ()


class _Changed(Struct, kw_only=True):
    """A document and its new data.

    added: live values that others added, by their holder in the data and their place in it, and the parts to take over.
    """

    document: Document
    data: dict[str, Any]
    added: dict[tuple[FieldPath, str | int], tuple[Any, list[FieldPath]]] = {}

    def add(self) -> None:
        """Put what others added into the data; items of lists at their end."""
        for (target, step), (value, parts) in self.added.items():
            holder = value_at(self.data, target)
            if isinstance(holder, list):
                holder.append(_part(value, parts))
            else:
                holder[step] = _part(value, parts)


def adopt(repository: Repository, planned: Planned, *, everything: bool = False) -> Adoptions:
    """Return the edits that make the sources say what the clusters have: for drift with this action, or all drift."""
    changed: dict[tuple[str, int, FieldPath], _Changed] = {}
    problems: list[Problem] = []
    for drift in planned.plan.drift:
        if everything or drift.action == DriftAction.ADOPT:
            problem = _adopt(planned, drift, changed)
            problems += [problem] if problem is not None else []
    by_file: dict[str, list[tuple[Document, dict[str, Any]]]] = {}
    for one in changed.values():
        one.add()
        by_file.setdefault(one.document.source.path, []).append((one.document, one.data))
    sources = planned.index.revision.files.sources
    edits: list[ProposedEdit] = []
    for path, before in read_files(repository, sources, sorted(by_file)):
        edited = edit_source(before, by_file[path])
        problems += edited.problems
        edits.append(ProposedEdit(path=path, before=before, after=edited.content))
    return Adoptions(edits=tuple(one for one in edits if one.before != one.after), problems=tuple(problems))


def _adopt(planned: Planned, drift: Drift, changed: dict[tuple[str, int, FieldPath], _Changed]) -> Problem | None:
    """Set, add or remove one field in the data of its source document; return why that is not possible."""
    path = drift.path.removeprefix(f"{planned.index.revision.config.rendered}/")
    manifest, live = planned.renderer.object(path).manifest, _live(planned, path)
    if live is None or not drift.field or drift.field.endswith(ORDER):
        absence = "the object is not ours any more" if drift.has_live else "the object is gone"
        return _refused(drift, "only its order differs" if live is not None and drift.field else absence)
    keys = _list_keys(planned, drift)
    field, rest = find_path(manifest.body, drift.field, keys)
    there, missing = find_path(live, drift.field, keys)
    if rest and missing:
        return _refused(drift, "the rendered object does not have it")
    if not missing and value_at(live, there) != drift.live:
        return _refused(drift, "it holds a secret, which does not belong in Git")
    reason, origins = trace(manifest.tree, manifest.reasons, field)
    if reason is None or not reason.copied or not origins:
        why = f"it is computed: {reason.text or reason.rule}" if reason is not None else "its source is not known"
        return _refused(drift, why)
    document, target = origins[0].document, origins[0].field
    while rest and field and value_at(document.data, target) is None:
        field, target = field[:-1], target[:-1]  # a mapping that the object has for our own marks alone
    known, rendered = value_at(document.data, target), value_at(manifest.body, field)
    if type(known) is not type(rendered) or (not rest and known != rendered):
        return _refused(drift, "its source has another value")
    key = (document.source.path, document.index, document.root)
    one = changed.setdefault(key, _Changed(document=document, data=copy.deepcopy(document.data)))
    if rest:
        plain = planned.index.context.catalogue.without_defaults(dict(live))
        if value_at(plain, there) is not None:  # defaults belong to no source
            outer = there[: len(field) + 1]
            _, parts = one.added.setdefault((target, outer[-1]), (value_at(plain, outer), []))
            parts += (path[len(outer) :] for path in (*_item_keys(plain, there, len(field), keys), there))
    else:
        _set(one.data, target, None if missing else value_at(live, there), remove=bool(missing))
    return None


def _live(planned: Planned, path: str) -> Mapping[str, Any] | None:
    return None if planned.live is None else planned.live.live(path)


def _list_keys(planned: Planned, drift: Drift) -> ListKeys:
    catalogue = planned.index.context.catalogue
    return lambda path: catalogue.list_keys(drift.key.group, drift.key.kind, path)


def _set(data: dict[str, Any], field: FieldPath, value: Any, *, remove: bool) -> None:
    """Set or remove the value at a path that exists."""
    holder: Any = value_at(data, field[:-1])
    if remove:
        del holder[field[-1]]
    else:
        holder[field[-1]] = copy.deepcopy(value)


def _item_keys(body: Mapping[str, Any], there: FieldPath, depth: int, keys: ListKeys) -> Iterator[FieldPath]:
    """Yield the paths of the fields by which lists below a depth know their items on the way to a value."""
    for end in range(depth, len(there)):
        items = value_at(body, there[:end])
        pairing = match_items(there[:end], items, items, keys) if isinstance(items, list) else None
        names = () if pairing is None else pairing.keys
        yield from ((*there[: end + 1], name) for name in names if name in items[there[end]])


def _part(value: Any, paths: Sequence[FieldPath]) -> Any:
    """Return a copy of a value with nothing in it but what is at some paths."""
    if () in paths:
        return copy.deepcopy(value)
    steps = dict.fromkeys(path[0] for path in paths)
    below = {step: _part(value[step], [path[1:] for path in paths if path[0] == step]) for step in steps}
    return below if isinstance(value, dict) else [*below.values()]


def _refused(drift: Drift, why: str) -> Problem:
    is_label = drift.field == format_path(LABEL_PATH)
    return Problem(
        rule=NOT_ADOPTED,
        place=drift.source or SourceRef(path=drift.path),
        field=drift.field,
        message=f"{drift.key} on {drift.cluster}: {why}",
        hint=f"let an apply revert it, or hand the object over: reconciler release --write {drift.key}"
        if is_label
        else "edit the source by hand, or let an apply revert it",
    )
