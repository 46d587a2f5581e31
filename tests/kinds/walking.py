"""Tests of families of kinds: what documents render to, and one value changed in a document."""

import copy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.problems import Problem, Severity

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a set of documents renders to."""

    manifests: tuple[Manifest, ...]
    problems: tuple[Problem, ...]

    def one(self, kind: str, name: str = "") -> dict[str, Any]:
        """Return the body of the only object of a kind (and name)."""
        return self.manifest(kind, name).body

    def manifest(self, kind: str, name: str = "") -> Manifest:
        """Return the only manifest of a kind (and name)."""
        (found,) = (m for m in self.manifests if m.key.kind == kind and name in ("", m.key.name))
        return found

    def kinds(self) -> list[str]:
        """Return kinds and names, sorted."""
        return sorted(f"{m.key.kind}/{m.key.name}" for m in self.manifests)

    @property
    def rules(self) -> list[str]:
        """Return the rule ids of all problems."""
        return [problem.rule for problem in self.problems]

    @property
    def errors(self) -> list[str]:
        """Return the rule ids of the errors."""
        return [problem.rule for problem in self.problems if problem.severity is Severity.ERROR]

    def lines(self, rule: str = "") -> list[str]:
        """Return the problems of a rule as they are printed."""
        return [str(problem) for problem in self.problems if rule in problem.rule]


def with_value(spec: dict[str, Any], path: Path, value: Any) -> dict[str, Any] | None:
    """Return a copy with `value` at `path`; None where it is there already or its list has no item."""
    spec = copy.deepcopy(spec)
    node: Any = spec
    for part, following in pairwise(path):
        if isinstance(part, int):
            if part >= len(node):
                return None
            node = node[part]
        else:
            node = node.setdefault(part, [] if isinstance(following, int) else {})
    if isinstance(node, list) or node.get(path[-1]) == value:
        return None
    node[path[-1]] = value
    return spec
