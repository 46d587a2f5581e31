"""Typed values of the two kinds: a policy says what, a binding says where and how hard."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.core.documents import Document

GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"


class Requirement(Struct, frozen=True, kw_only=True):
    """One condition of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class ResourceRule(Struct, frozen=True, kw_only=True):
    """Which requests: `*` stands for all; `scope` is Cluster, Namespaced or `*`; no names means all names."""

    groups: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    scope: str = "*"
    names: tuple[str, ...] = ()


class Match(Struct, frozen=True, kw_only=True):
    """`matchConstraints` of a policy or `matchResources` of a binding."""

    rules: tuple[ResourceRule, ...] = ()
    excluded: tuple[ResourceRule, ...] = ()
    namespaces: tuple[Requirement, ...] = ()
    objects: tuple[Requirement, ...] = ()
    equivalent: bool = True


class Expression(Struct, frozen=True, kw_only=True):
    """A named CEL expression: of a variable, a match condition or an audit annotation."""

    name: str
    text: str


class Validation(Struct, frozen=True, kw_only=True):
    """What must be true, and what to say when it is not."""

    expression: str
    message: str = ""
    message_expression: str = ""


class ParamKind(Struct, frozen=True, kw_only=True):
    """What kind a policy's parameters are of."""

    group: str
    kind: str


class Policy(Struct, frozen=True, kw_only=True, eq=False):
    """A policy. `hint` and `fields` come from its annotations; `rule` is its name."""

    rule: str
    document: Document
    match: Match
    validations: tuple[Validation, ...] = ()
    variables: tuple[Expression, ...] = ()
    conditions: tuple[Expression, ...] = ()
    annotations: tuple[Expression, ...] = ()
    params: ParamKind | None = None
    ignores_failure: bool = False
    hint: str = ""
    fields: tuple[tuple[str, ...], ...] = ()


class ParamRef(Struct, frozen=True, kw_only=True):
    """Which parameter objects a binding takes: by name, or by selector where the name is empty."""

    name: str = ""
    namespace: str = ""
    selector: tuple[Requirement, ...] = ()
    required: bool = True


class Binding(Struct, frozen=True, kw_only=True, eq=False):
    """A binding. `actions` are deny, warn and audit."""

    name: str
    policy: str
    document: Document
    actions: tuple[str, ...]
    match: Match | None = None
    ref: ParamRef | None = None


class Parameters(Struct, frozen=True, kw_only=True, eq=False):
    """An object that a policy may take its parameters from."""

    group: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    body: Mapping[str, Any]
