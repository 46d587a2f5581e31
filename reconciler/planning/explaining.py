"""An object's name and perhaps a field in, the chain of reasons out."""

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.plan.explanation import ExplainedField, Explanation, ValueSource
from reconciler.core.plan.masking import MASK, follows_secret_flag, is_secret_field, redact
from reconciler.core.summary import ObjectSummary
from reconciler.errors import ConfigError
from reconciler.index.head import Head

_STEP = re.compile(r'\.?([^.\[\]"]+)|\[(\d+)\]|\[([A-Za-z]+)=([^\]]*)\]|\["((?:[^"\\]|\\.)*)"\]')


def explain(head: Head, wanted: str, field: str) -> Explanation:
    """Explain an object (`Kind/namespace/name`, `Kind/name`, or a rendered path), or one of its fields."""
    row = _find(head, wanted)
    manifest = head.rendering(row.path).manifest
    root = _locate(manifest, field) if field else ()
    lines = _Lines(head, _secrets(manifest))
    fields = tuple(_explained(manifest, path, lines) for path in _leaves(_value(manifest.body, root), root))
    return Explanation(
        cluster=manifest.cluster,
        key=manifest.key,
        path=f"{head.config.rendered}/{row.path}",
        source=manifest.source,
        fields=fields,
        sizing=manifest.sizing() if manifest.sizing else None,
    )


class _Lines:
    """Lines of source and evidence files, read once each, without what is secret in the object they explain."""

    def __init__(self, head: Head, secrets: tuple[str, ...]) -> None:
        self._head = head
        self._secrets = secrets
        self._texts: dict[str, list[str]] = {}

    def __call__(self, place: SourceRef) -> str:
        if place.path not in self._texts:
            layout = self._head.layout
            oid = layout.sources.get(place.path) or layout.evidence.get(place.path)
            raw = next(iter(self._head.tools.repository.read([oid]))) if oid else b""
            self._texts[place.path] = raw.decode("utf-8", "replace").splitlines()
        lines = self._texts[place.path]
        line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
        for secret in self._secrets:
            line = line.replace(secret, MASK)
        return redact(line)

    def is_evidence(self, place: SourceRef) -> bool:
        """Whether a place lies in what was measured."""
        return place.path in self._head.layout.evidence


def _find(head: Head, wanted: str) -> ObjectSummary:
    path = wanted.removeprefix(f"{head.config.rendered}/")
    if path in head.rows:
        return head.rows[path]
    parts = wanted.split("/")
    kind, name, namespace = parts[0].lower(), parts[-1], parts[1] if len(parts) > _KIND_AND_NAME else None
    found = [
        row
        for row in head.rows.values()
        if row.kind.lower() == kind and row.name == name and namespace in (None, row.namespace)
    ]
    if len(found) == 1 and len(parts) > 1:
        return found[0]
    if found:
        choices = ", ".join(f"{head.config.rendered}/{row.path}" for row in found)
        raise ConfigError(f"{wanted!r} names {len(found)} objects", hint=f"name one of the files: {choices}")
    short = {f"{row.kind}/{row.name}": row.name for row in head.rows.values()}
    names = {f"{row.kind}/{row.namespace}/{row.name}".replace("//", "/") for row in head.rows.values()}
    # Who forgets the kind, or writes another one, still knows the name.
    near = sorted(full for full, own in short.items() if own == name)[:3]
    near = near or get_close_matches(wanted, sorted({*names, *short}), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "`reconciler render` lists all objects"
    raise ConfigError(f"nothing is rendered as {wanted!r}", hint=hint)


_KIND_AND_NAME = 2


def _locate(manifest: Manifest, text: str) -> FieldPath:
    """Read a path as plans write it: `spec.containers[name=trainer].image`, `metadata.labels["a.b/c"]`."""
    path: FieldPath = ()
    node: Any = manifest.body
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        step = _step(node, match) if match else None
        if match is None or step is None:
            known = ", ".join(str(key) for key in node) if isinstance(node, dict) else f"{_count(node)} items"
            where = format_path(path) or "the object"
            raise ConfigError(f"there is no {text[position:]!r} in {where}", hint=f"there is: {known}")
        path, node, position = (*path, step), node[step], match.end()
    return path


def _count(node: Any) -> int:
    return len(node) if isinstance(node, list) else 0


def _step(node: Any, match: re.Match[str]) -> str | int | None:
    plain, index, key, value, quoted = match.groups()
    name = plain if plain is not None else re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else None
    if name is not None:
        return name if isinstance(node, dict) and name in node else None
    if not isinstance(node, list):
        return None
    if index is not None:
        return int(index) if int(index) < len(node) else None
    return next((at for at, item in enumerate(node) if isinstance(item, dict) and str(item.get(key)) == value), None)


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
    secret = _is_secret(manifest, path)
    return ExplainedField(
        field=format_path(path),
        value=MASK if secret else _shown(_value(manifest.body, path)),
        rule=why.rule,
        formula=why.text,
        origins=tuple(
            ValueSource(
                place=place,
                field=field,
                line="" if secret else lines(place),
                is_evidence=lines.is_evidence(place),
            )
            for place, field in zip(why.places, why.fields, strict=True)
        ),
    )


def _secrets(manifest: Manifest) -> tuple[str, ...]:
    """Return the values that are hidden wherever they stand, the longest first: a line may hold several fields."""
    leaves = (path for path in _leaves(manifest.body, ()) if path and _is_secret(manifest, path))
    values = {value for path in leaves if isinstance(value := _value(manifest.body, path), str)}
    lines = {line.strip() for value in values for line in value.splitlines()}
    return tuple(sorted((line for line in lines if len(line) >= _LEAST_SECRET), key=lambda text: (-len(text), text)))


_LEAST_SECRET = 4  # characters; less would blot out half of every line


def _is_secret(manifest: Manifest, path: FieldPath) -> bool:
    """Whether the plan's own masking would hide the value, at any step down to it."""
    node: Any = manifest.body
    for depth, step in enumerate(path):
        decides = depth == 0 or not isinstance(node[step], dict | list)
        parent = str(path[depth - 1]) if depth else ""
        if isinstance(step, str) and decides and is_secret_field(manifest.key.kind, depth, parent, node, step):
            return True
        if isinstance(step, int) and follows_secret_flag(node, step):
            return True
        node = node[step]
    return False


def _shown(value: Any) -> Any:
    return redact(value) if isinstance(value, str) else value
