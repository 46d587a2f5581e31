"""Objects to compare verdicts on: cases written by hand, the specimens, and every mutation of the good ones."""

import copy
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.mutations import Mutation, mutations

_HERE = Path(__file__).parent
_SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One object; `beyond` says what of it only a cluster knows."""

    name: str
    body: dict[str, Any]
    beyond: str = ""


def cases() -> list[Case]:
    """Return the cases written by hand."""
    return [_case(entry) for name in ("pods", "objects") for entry in _read(_HERE / "corpus" / f"{name}.yaml")]


def crossings() -> Iterator[Case]:
    """Yield small objects with a few fields that contradict each other or their neighbours, and some that do not."""
    for group in _read(_HERE / "corpus" / "crossings.yaml"):
        for change in group["changes"]:
            body = copy.deepcopy(group["object"])
            place = body
            for part in group["at"]:
                place = place[part]
            place.update(copy.deepcopy(change))
            yield Case(name=f"{body['kind']}: {change}", body=body, beyond=group.get("beyond", ""))


def specimens() -> list[Case]:
    """Return a good object of each kind."""
    paths = sorted((_HERE / "specimens").glob("*.yaml"))
    return [Case(name=f"{body['kind']} {body['apiVersion']}", body=body) for path in paths for body in _all(path)]


def mutated(good: Sequence[Case], count: int) -> list[Mutation]:
    """Return mutations of good objects: all of them, or the same random ones each time."""
    every = [
        Mutation(name=f"{case.name}: {mutation.name}", body=mutation.body)
        for case in good
        for mutation in mutations(case.body)
    ]
    return every if count >= len(every) else random.Random(_SEED).sample(every, count)  # noqa: S311 - the same ones each time


def _case(entry: dict[str, Any]) -> Case:
    body = entry.get("object") or _pod(entry)
    return Case(name=entry["name"], body=body, beyond=entry.get("beyond", ""))


def _pod(entry: dict[str, Any]) -> dict[str, Any]:
    container = {"name": "a", "image": "x:1"} | entry.get("container", {})
    spec = {"containers": [container]} | entry.get("spec", {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def _read(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return found


def _all(path: Path) -> Iterator[dict[str, Any]]:
    yield from yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
