"""The folders that `reconciler.yaml` names: each below the root, and none of two roles within one another."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath

USUAL: Mapping[str, tuple[str, ...]] = {"sources": ("queues", "jobs"), "policies": ("policies",)}
"""Folder lists where `reconciler.yaml` names none."""

Wrong = tuple[FieldPath, str, str]
"""Where, what is wrong, what to do."""


def folder(text: str) -> str:
    """Return a folder as paths begin with it: no `./` before it, no `/` after it."""
    return text.removeprefix("./").rstrip("/")


def wrong_folders(spec: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the folders that lie outside the repository, or within a folder of another role."""
    for path, written in _folders(spec):
        parts = folder(written).split("/")
        if written.startswith("/") or not all(parts) or {"..", "."} & set(parts):
            hint = "give a folder below the repository's root, as `jobs/team-a`"
            yield path, f"{written!r} is not a folder of this repository", hint
    for path, written, message, hint in _overlaps(spec):
        yield path, f"{written!r} {message}", hint


def _folders(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    for name, usual in USUAL.items():
        for index, written in enumerate(spec.get(name, usual)):
            yield ("spec", name, index), written
    for name in ("evidence", "rendered"):
        yield ("spec", name), spec.get(name, name)
    for index, cluster in enumerate(spec["clusters"]):
        for position, written in enumerate(cluster.get("select", {}).get("folders", ())):
            yield ("spec", "clusters", index, "select", "folders", position), written


def _overlaps(spec: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str, str, str]]:
    """Folders of two roles that hold one another, and selectors that no source can meet."""
    roles: dict[str, list[tuple[FieldPath, str]]] = {
        role: [] for role in ("sources", "policies", "evidence", "rendered", "clusters")
    }
    for path, written in _folders(spec):
        roles[str(path[1])].append((path, written))
    taken_by = [(role, written) for role in ("rendered", "evidence", "policies") for _, written in roles[role]]
    for role in ("sources", "policies", "evidence"):
        for path, written in roles[role]:
            for other, taken in taken_by:
                if other != role and (other, role) != ("policies", "evidence") and _meet(written, taken):
                    message = f"and {taken!r} of spec.{other} hold one another"
                    yield path, written, message, "give each a folder of its own: what lies in both would be read twice"
    sources = [written for _, written in roles["sources"]]
    for path, written in roles["clusters"]:
        if not any(_meet(written, source) for source in sources):
            yield path, written, "is in none of the source folders", f"spec.sources are: {', '.join(sources)}"


def _meet(one: str, other: str) -> bool:
    """Whether two folders are the same, or one lies in the other."""
    first, second = f"{folder(one)}/", f"{folder(other)}/"
    return first.startswith(second) or second.startswith(first)
