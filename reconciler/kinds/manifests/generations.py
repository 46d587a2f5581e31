"""Generations: an object whose immutable fields changed runs on under a new name, its own with a suffix.

The suffix is a digest of the object as it is rendered under its own name. `rendered/` holds the name that is in use, so
no other state is needed: the next render finds it there, and a later change of mutable fields keeps it.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b

from msgspec.structs import replace

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import SourceRef, format_path
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason

_DIGITS = 8
_SUFFIX = later(rf"-g[0-9a-f]{{{_DIGITS}}}\.yaml$")
_MARK = slice(-len("-g.yaml") - _DIGITS, -len(".yaml") - _DIGITS)  # where `-g` is in a path

MAX_NAME = 63
"""Characters of a job's name, which is a label of its pods."""


def base_path(path: str) -> str:
    """Return the path of the object under its own name, without the suffix of a generation."""
    return _SUFFIX.sub(".yaml", path) if path[_MARK] == "-g" else path


def base_name(name: str) -> str:
    """Return the name that an object has in its source, without the suffix of a generation."""
    return _SUFFIX.sub("", f"{name}.yaml") if _SUFFIX.search(f"{name}.yaml") else name


def find_generations(rendered: Mapping[str, str]) -> dict[str, str]:
    """Return the suffixes of the generations in a rendered folder, by the path of the object under its own name.

    An object that is there under its own name has no suffix. Of two suffixes (two branches were merged) the first
    counts, and the other file is a deletion.
    """
    found: dict[str, str] = {}
    for path in [path for path in rendered if path[_MARK] == "-g"]:
        base = base_path(path)
        if base != path and base not in rendered:
            found.setdefault(base, suffix_of(path))
    return found


def suffix_of(path: str) -> str:
    """Return the suffix of a path of a generation."""
    return path[_MARK.start : -len(".yaml")]


def next_suffix(content: bytes, current: str) -> str:
    """Return the suffix of a new generation: a digest of the object under its own name, and never the current one."""
    suffix = _digest(content)
    return suffix if suffix != current else _digest(current.encode() + content)


def _digest(content: bytes) -> str:
    return f"-g{blake2b(content, digest_size=_DIGITS // 2).hexdigest()}"


def generation_reason(name: str, origins: Iterable[Origin]) -> Reason:
    """Return the reason of a name with a suffix."""
    text = f"a new generation of {name}, because fields changed that the API server accepts only on a new object"
    return Reason(rule="immutable.generation", text=text, origins=tuple(origins))


def renamed(manifest: Manifest, suffix: str, origin: Origin) -> Manifest:
    """Return an object that is rendered as it is written, under the name of a generation."""
    key, metadata = manifest.key, manifest.body["metadata"]
    name = f"{key.name}{suffix}"
    return replace(
        manifest,
        key=replace(key, name=name),
        body={**manifest.body, "metadata": {**metadata, "name": name}},
        reasons={**manifest.reasons, ("metadata", "name"): generation_reason(key.name, [origin])},
    )


def rename_problems(manifest: Manifest, name: str, place: SourceRef) -> Iterable[Problem]:
    """Yield why a renamed object would not work: its name is too long, or it names its own pods."""
    new = manifest.key.name
    if len(new) > MAX_NAME:
        yield Problem(
            rule="immutable.name",
            place=place,
            field="metadata.name",
            message=f"the name of a new generation, {new}, has {len(new)} characters; the limit is {MAX_NAME}",
            hint=f"shorten the name to {MAX_NAME - len(new) + len(name)} characters",
        )
    pods = re.compile(rf"(?<![A-Za-z0-9-]){re.escape(name)}-(\d+|worker|master|launcher|head)\b")
    for path, value in _texts(manifest.body.get("spec"), ("spec",)):
        if found := pods.search(value):
            yield Problem(
                rule="immutable.name",
                place=manifest.why(path).places[0] if manifest.why(path).places else place,
                field=format_path(path),
                message=f"names the pod {found[0]} of the job, which has another name in a new generation",
                hint="rename the job in its source instead, or read the name of the pod from its labels",
            )


def _texts(node: object, path: tuple[str | int, ...]) -> Iterable[tuple[tuple[str | int, ...], str]]:
    if isinstance(node, str):
        yield path, node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from _texts(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _texts(value, (*path, index))
