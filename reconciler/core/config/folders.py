"""The folders that `reconciler.yaml` names: each below the root, and none of two roles within one another."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath

USUAL: Mapping[str, tuple[str, ...]] = {"sources": ("queues", "jobs"), "policies": ("policies",)}
"""Folder lists where `reconciler.yaml` names none."""

Wrong = tuple[FieldPath, str, str]
"""Where, what is wrong, what to do."""


def folder(text: str) -> str:
    """Normalize a folder: no `./` at the start, no `/` at the end."""
    return text.removeprefix("./").rstrip("/")


def wrong_folders(spec: Mapping[str, Any]) -> Iterator[Wrong]:
    """Yield the folders that are outside the repository, or overlap with a folder of another role."""
    for path, written in _folders(spec):
        parts = folder(written).split("/")
        if written.startswith("/") or not all(parts) or {"..", "."} & set(parts):
            hint = "use a folder below the root of the repository, such as jobs/team-a"
            yield path, f"{written!r} is not a folder inside the repository", hint
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
    """Yield overlapping folders of two roles, and selectors that match no source folder."""
    roles: dict[str, list[tuple[FieldPath, str]]] = {
        role: [] for role in ("sources", "policies", "evidence", "rendered", "clusters")
    }
    for path, written in _folders(spec):
        roles[str(path[1])].append((path, written))
    occupied = [(role, written) for role in ("rendered", "evidence", "policies") for _, written in roles[role]]
    for role in ("sources", "policies", "evidence"):
        for path, written in roles[role]:
            for other, existing in occupied:
                if other != role and (other, role) != ("policies", "evidence") and _overlap(written, existing):
                    message = f"overlaps with {existing!r} of spec.{other}"
                    yield path, written, message, "use separate folders"
    sources = [written for _, written in roles["sources"]]
    for path, written in roles["clusters"]:
        if not any(_overlap(written, source) for source in sources):
            yield path, written, "is not in a source folder", f"source folders: {', '.join(sources)}"


def _overlap(one: str, other: str) -> bool:
    """Return whether two folders are equal, or one contains the other."""
    first, second = f"{folder(one)}/", f"{folder(other)}/"
    return first.startswith(second) or second.startswith(first)
