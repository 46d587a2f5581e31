"""Only `kinds` knows names and groups of kinds: no other module compares them or lists them."""

import ast
from collections.abc import Iterator
from pathlib import Path

from reconciler import resources
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.schemas import Catalogue

PACKAGE = Path(__file__).resolve().parents[2] / "reconciler"
NAMES = {name.kind for name in Catalogue(resources).kinds()} | {kind.kind for kind in BUILT_IN.values()}
GROUPS = {name.group for name in Catalogue(resources).kinds()} | {kind.group for kind in BUILT_IN.values()}
GROUPS -= {"", "apps", "batch", "policy"}
NAMES -= {"*"}

ALLOWED = {
    "kube/schemas": "validates what API servers check beyond JSON Schema, for Kubernetes' own groups only",
    "kube/secrets": "masks Secrets, whatever the registry says: a missing row must never reveal a value",
    "policy/admission": "evaluates ValidatingAdmissionPolicy, whose rules treat some kinds differently",
    "policy/approval.py": "reads PlanApproval, which is about plans",
    "policy/exceptions.py": "reads PolicyException, which is configuration of the policies",
}
"""Modules that may name kinds, and the reason."""

MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.is_relative_to(PACKAGE / "kinds")
    and not any(str(path.relative_to(PACKAGE)).startswith(allowed) for allowed in ALLOWED)
]


def _is_literal_of_kinds(node: ast.AST | None) -> bool:
    """Return whether a node is the name or group of a kind, or a collection of nothing else."""
    match node:
        case ast.Constant(value=str(text)):
            return text in NAMES or text in GROUPS
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            texts = [item for item in items if not _is_empty(item)]
            return bool(texts) and all(map(_is_literal_of_kinds, texts))
    return False


def _is_empty(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in {"", "apps", "batch", "policy"}


def _offences(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of comparisons with names or groups of kinds, and of collections of them."""
    exports = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign) and _is_all(node)}
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left=left, comparators=others) if any(map(_is_literal_of_kinds, (left, *others))):
                yield node.lineno
            case ast.Dict(keys=keys) if keys and all(map(_is_literal_of_kinds, keys)):
                yield node.lineno
            case ast.MatchValue(value=value) if _is_literal_of_kinds(value):
                yield node.lineno
            case ast.Tuple() | ast.List() | ast.Set() if id(node) not in exports and _is_literal_of_kinds(node):
                yield node.lineno


def _is_all(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)


def test_no_kind_is_named() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}" for path in MODULES for line in _offences(ast.parse(path.read_text()))
    ]
    assert found == []


def test_the_exceptions_are_needed() -> None:
    for allowed in ALLOWED:
        place = PACKAGE / allowed
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        assert any(True for file in files for _ in _offences(ast.parse(file.read_text()))), allowed


def test_the_check_itself_can_fail() -> None:
    source = 'KINDS = {"Pod": 1}\nif key.kind == "Job" or key.group in ("ray.io",): pass\n'
    assert {*_offences(ast.parse(source))} == {1, 2}
