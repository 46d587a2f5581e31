"""Explain an object or a field: from its name to the chain of reasons."""

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision
from reconciler.index.renderer import Renderer
from reconciler.kinds.manifests.generations import base_name, base_path
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.items import ListKeys
from reconciler.kube.objects import FieldPath, ObjectKey, SourceRef, format_path
from reconciler.kube.printed_paths import find_path
from reconciler.kube.reasons import Why
from reconciler.kube.secrets import MASK, KnownSecrets, is_secret_path, mask_text, secret_leaves
from reconciler.kube.yaml import read
from reconciler.plan import Change, FieldChange, Operation, Plan
from reconciler.plan.causes import document_lines
from reconciler.plan.explanation import ExplainedField, Explanation, ValueSource
from reconciler.plan.risks import KEPT
from reconciler.policy.verdict import Result
from reconciler.repo.port import Repository

# What a plan says about objects and fields that the sources no longer define, and about problems of an object.


_MAX_PROBLEMS = 5


def explain_absent(plan: Plan, folder: str, name: str) -> Explanation | None:
    """Explain an object that exists in the base and not in the head: deleted, moved, kept, or left as it is."""
    for change in plan.changes:
        if change.operation is Operation.DELETE and _names(change.path, folder, name):
            return Explanation(
                cluster=change.cluster,
                key=change.key,
                path=change.path,
                source=None,
                status=f"deleted: {change.because[0].text}",
                causes=tuple(_lines(change.because)),
            )
        if change.operation is Operation.MOVE and _names(change.moved_from, folder, name):
            identity = [field for field in change.fields if field.path in _IDENTITY]
            reasons = [field.why for field in identity if field.why is not None]
            return Explanation(
                cluster=change.cluster,
                key=_old_key(change, identity),
                path=change.moved_from,
                source=change.source,
                status=f"moved to {change.path}",
                causes=tuple(_lines(reasons or change.because)),
            )
    for risk in plan.risks:
        if risk.rule == KEPT and risk.place is not None and _names(risk.place.path, folder, name):
            path, status = risk.place.path, f"kept: {risk.message}"
            return Explanation(cluster=risk.cluster, key=risk.key, path=path, source=None, status=status)
    held = next((path for path in plan.held_back if _names(path, folder, name)), None)
    return _held_back(plan, folder, held) if held is not None else None


_IDENTITY = ("metadata.name", "metadata.namespace")


def _names(path: str, folder: str, name: str) -> bool:
    """Return whether a name or a path means the rendered file at `path`."""
    below = path.removeprefix(f"{folder}/")
    if name.removeprefix(f"{folder}/") == below:
        return True
    kind, *namespace, own = name.split("/") if "/" in name else ("", name)
    _, where, file = below.split("/", 2)
    prefix, _, rest = file.partition("-")
    return (
        prefix.partition(".")[0] == kind.lower()
        and rest == f"{own.replace(':', '~')}.yaml"
        and (not namespace or namespace == [where])
    )


def _old_key(change: Change, identity: Iterable[FieldChange]) -> ObjectKey:
    before = {field.path: field.before for field in identity if field.has_before}
    key = change.key
    return ObjectKey(
        group=key.group,
        kind=key.kind,
        namespace=str(before.get("metadata.namespace", key.namespace)),
        name=str(before.get("metadata.name", key.name)),
    )


def _held_back(plan: Plan, folder: str, path: str) -> Explanation:
    cluster, namespace, file = path.removeprefix(f"{folder}/").split("/", 2)
    kind, _, name = file.removesuffix(".yaml").partition("-")
    key = ObjectKey(group="", kind=kind, namespace="" if namespace == "_cluster" else namespace, name=name)
    return Explanation(
        cluster=cluster,
        key=key,
        path=path,
        source=None,
        status="left as it is, because its source has errors or waits for an answer",
        problems=tuple(map(str, plan.errors[:_MAX_PROBLEMS])),
    )


def removed_fields(plan: Plan, path: str, field: str) -> tuple[ExplainedField, ...]:
    """Explain a field that the base has and the head has not, as the plan prints it."""
    change = next((change for change in plan.changes if change.path == path), None)
    return tuple(
        ExplainedField(
            field=each.path,
            value=each.before,
            rule=each.why.rule if each.why is not None else "",
            formula="the sources do not set it any more",
            origins=tuple(_lines([each.why] if each.why is not None else [])),
            removed=True,
        )
        for each in (change.fields if change is not None else ())
        if not each.has_after and (each.path == field or each.path.startswith((f"{field}.", f"{field}[")))
    )


def _lines(reasons: Iterable[Why]) -> list[ValueSource]:
    """Return the edited lines of reasons, those of the base marked as removed; else the places of the reasons."""
    edited = [ValueSource(place=place) for why in reasons for place in why.edited]
    edited += [ValueSource(place=place, field="removed") for why in reasons for place in why.removed]
    return edited or [ValueSource(place=place) for why in reasons for place in why.places]


def problems_of(plan: Plan, manifest: Manifest) -> tuple[str, ...]:
    """Return the problems of an object: those in its source document, and the verdicts on it."""
    origins = manifest.origins(())
    lines = document_lines(origins[0].document) if origins else None
    problems = [
        str(problem)
        for problem in plan.problems
        if lines is not None and problem.place.path == lines.path and lines.first <= problem.place.line <= lines.last
    ]
    verdicts = [
        f"{verdict.place}: {verdict.message} [{verdict.rule}]"
        for verdict in plan.verdicts
        if (verdict.cluster, verdict.key) == (manifest.cluster, manifest.key) and verdict.result is not Result.EXCEPTED
    ]
    return (*problems, *verdicts)


def explain(
    repository: Repository,
    index: CompiledRevision,
    renderer: Renderer,
    name: str,
    field: str,
    *,
    lint: Callable[[], Plan],
    plan: Callable[[], Plan],
) -> Explanation:
    """Explain an object (`Kind/namespace/name`, `Kind/name`, or a rendered path), or one of its fields.

    lint: returns what is wrong with the revision.
    plan: returns its plan, which knows what the sources no longer define.
    Raises `ConfigError` if the object or the field does not exist.
    """
    summary = _find(index, name) or _find_generation(index, name)
    folder = index.revision.config.rendered
    if summary is None:
        absent = explain_absent(plan(), folder, name)
        if absent is None:
            raise _unknown(index, name)
        return absent
    manifest = renderer.object(summary.path).manifest
    fields = _fields(repository, index, manifest, field)
    if not fields:
        fields = removed_fields(plan(), f"{folder}/{summary.path}", field)
    if not fields:
        raise _unknown_field(manifest, *find_path(manifest.body, field, _list_keys(index, manifest)))
    return Explanation(
        cluster=manifest.cluster,
        key=manifest.key,
        path=f"{folder}/{summary.path}",
        source=manifest.source,
        fields=fields,
        sizing=manifest.sizing() if manifest.sizing else None,
        status=_generation_status(name, summary.name),
        problems=problems_of(lint(), manifest),
    )


def _fields(
    repository: Repository, index: CompiledRevision, manifest: Manifest, field: str
) -> tuple[ExplainedField, ...]:
    """Explain the leaves below a field; none if it does not exist."""
    root, rest = find_path(manifest.body, field, _list_keys(index, manifest))
    if rest:
        return ()
    lines = _Lines(repository, index, manifest)
    return tuple(_explained(manifest, path, lines) for path in _leaves(_value(manifest.body, root), root))


def _list_keys(index: CompiledRevision, manifest: Manifest) -> ListKeys:
    key = manifest.key
    return lambda path: index.context.catalogue.list_keys(key.group, key.kind, path)


class _Lines:
    """Lines of source and evidence files, read once each, without the secrets of the objects in them."""

    def __init__(self, repository: Repository, index: CompiledRevision, manifest: Manifest) -> None:
        self._repository = repository
        self._files = index.revision.files
        self._own = tuple(secret_leaves(manifest.body))
        self._texts: dict[str, tuple[list[str], KnownSecrets]] = {}

    def __call__(self, place: SourceRef) -> str:
        if place.path not in self._texts:
            self._texts[place.path] = self._read(place.path)
        lines, secrets = self._texts[place.path]
        line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
        if len(line) > _MAX_LINE:
            return ""
        return mask_text(secrets.mask(line).replace("\\n", "\n")).replace("\n", "\\n")  # lines of a "quoted\n" scalar

    def _read(self, path: str) -> tuple[list[str], KnownSecrets]:
        oid = self._files.sources.get(path) or self._files.evidence.get(path)
        raw = next(iter(self._repository.read([oid]))) if oid else b""
        others = (value for document in read(path, raw).documents for value in secret_leaves(document.data))
        return raw.decode("utf-8", "replace").splitlines(), KnownSecrets((*self._own, *others), least=_MIN_SECRET)

    def is_evidence(self, place: SourceRef) -> bool:
        """Return whether a place is in an evidence file."""
        return place.path in self._files.evidence


def _find(index: CompiledRevision, name: str) -> ObjectSummary | None:
    """Return the object that a name or a path means; None if no source defines it."""
    folder = index.revision.config.rendered
    path = name.removeprefix(f"{folder}/")
    if path in index.desired:
        return index.summaries([path])[path]
    return _find_named(index, name, lambda row, own_name: row.name == own_name)


def _find_generation(index: CompiledRevision, name: str) -> ObjectSummary | None:
    """Return the object that a name means without the suffixes of generations (`Job/ns/train`, `Job/ns/train-g…`)."""
    base = base_path(name.removeprefix(f"{index.revision.config.rendered}/"))
    for path in (base, base.removesuffix(".yaml") + index.context.generations.get(base, "") + ".yaml"):
        if path in index.desired:
            return index.summaries([path])[path]
    return _find_named(index, name, lambda row, own_name: base_name(row.name) == base_name(own_name))


def _generation_status(name: str, current: str) -> str:
    asked = name.removesuffix(".yaml").rpartition("/")[2]
    if asked == current or asked.endswith(f"-{current}"):  # a path ends in `<kind>-<name>`
        return ""
    if base_name(current) == current:
        return f"{asked} is a generation of {current}"
    return f"{base_name(current)} runs as {current}, its current generation"


def _find_named(
    index: CompiledRevision, name: str, is_named: Callable[[ObjectSummary, str], bool]
) -> ObjectSummary | None:
    folder, parts = index.revision.config.rendered, name.split("/")
    kind, own_name, namespace = parts[0].lower(), parts[-1], parts[1] if len(parts) > _KIND_AND_NAME else None
    found = [
        row
        for row in index.first_summaries()
        if row.kind.lower() == kind and is_named(row, own_name) and namespace in (None, row.namespace)
    ]
    if len(found) == 1 and len(parts) > 1:
        return found[0]
    if found:
        count = "1 object" if len(found) == 1 else f"{len(found)} objects"
        choices = ", ".join(f"{folder}/{row.path}" for row in found)
        raise ConfigError(f"{name!r} names {count}", hint=f"name one of the files: {choices}")
    return None


def _unknown(index: CompiledRevision, name: str) -> ConfigError:
    rows, own_name = list(index.first_summaries()), name.rpartition("/")[2]
    short = {f"{row.kind}/{row.name}": row.name for row in rows}
    full = {f"{row.kind}/{row.namespace}/{row.name}".replace("//", "/") for row in rows}
    # A user who omits the kind, or writes another one, still knows the name.
    near = sorted(each for each, row_name in short.items() if row_name == own_name)[:3]
    near = near or get_close_matches(name, sorted({*full, *short}), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`reconciler render` lists all objects"
    return ConfigError(f"no rendered object is named {name!r}", hint=hint)


_KIND_AND_NAME = 2


def _unknown_field(manifest: Manifest, path: FieldPath, rest: str) -> ConfigError:
    node = _value(manifest.body, path)
    known = ", ".join(str(key) for key in node) if isinstance(node, dict) else f"{_count(node)} items"
    return ConfigError(f"{rest!r} not found in {format_path(path) or 'the object'}", hint=f"it has: {known}")


def _count(node: Any) -> int:
    return len(node) if isinstance(node, list) else 0


def _value(body: Any, path: FieldPath) -> Any:
    for step in path:
        body = body[step]
    return body


def _leaves(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path


def _explained(manifest: Manifest, path: FieldPath, lines: _Lines) -> ExplainedField:
    why = manifest.why(path)
    value = _value(manifest.body, path)
    shown = MASK if is_secret_path(manifest.body, path) else _shown(value)
    return ExplainedField(
        field=format_path(path),
        value=shown,
        rule=why.rule,
        formula=mask_text(why.text),
        origins=tuple(
            ValueSource(
                place=place,
                field=field,
                line=lines(place) if shown == value else "",
                is_evidence=lines.is_evidence(place),
            )
            for place, field in zip(why.places, why.fields, strict=True)
        ),
    )


_MIN_SECRET = 4  # characters; shorter values would mask half of every line

_MAX_LINE = 1000  # characters; a longer one is data, such as a whole file of JSON, and is not quoted


def _shown(value: Any) -> Any:
    return mask_text(value) if isinstance(value, str) else value
