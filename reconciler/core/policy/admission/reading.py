"""`Document`s of the two kinds in, typed values out, and a Problem for whatever an API server would refuse.

What is said here is what evaluation depends on; unknown fields are the schema check's business.
"""

from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath, format_path, split_api_version
from reconciler.core.policy.admission.policy import (
    Binding,
    Expression,
    Match,
    ParamKind,
    ParamRef,
    Policy,
    Requirement,
    ResourceRule,
    Validation,
)
from reconciler.core.problems import Problem

HINT, FIELD = "gpureconciler.io/hint", "gpureconciler.io/field"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")
_SCOPES = ("Cluster", "Namespaced", "*")
_ACTIONS = ("Deny", "Warn", "Audit")


class Fields(Struct, frozen=True, kw_only=True):
    """A mapping inside a document, read field by field; what has the wrong type is noted and read as absent."""

    document: Document
    path: FieldPath
    value: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)

    def note(self, key: str | int, message: str, hint: str = "") -> None:
        """Record a problem of one field."""
        path = (*self.path, key) if key != "" else self.path
        place = self.document.at(path)
        self.problems.append(
            Problem(rule="policy.invalid", place=place, field=format_path(path), message=message, hint=hint)
        )

    def text(self, key: str, *, required: bool = False, among: Collection[str] = (), default: str = "") -> str:
        """Read a string."""
        value = self.value.get(key)
        if value is None:
            if required:
                self.note(key, "is missing")
            return default
        if not isinstance(value, str) or (required and not value.strip()):
            self.note(key, "must be a string that is not empty" if required else "must be a string")
            return default
        if among and value not in among:
            self.note(key, f"{value[:80]!r} is not known", f"use one of {', '.join(among)}")
            return default
        return value

    def texts(self, key: str, *, required: bool = False, among: Collection[str] = ()) -> tuple[str, ...]:
        """Read a list of strings."""
        value = self.value.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            self.note(key, "must be a list of strings")
            return ()
        unknown = [item for item in items if among and item not in among]
        if unknown:
            self.note(key, f"{unknown[0][:80]!r} is not known", f"use {', '.join(among)}")
        if required and not items:
            self.note(key, "must not be empty")
        return tuple(item for item in items if item not in unknown)

    def child(self, key: str) -> "Fields | None":
        """Read a mapping; None where there is none."""
        value = self.value.get(key)
        if value is not None and not isinstance(value, dict):
            self.note(key, "must be a mapping")
        return self._below((key,), value) if isinstance(value, dict) else None

    def children(self, key: str) -> list["Fields"]:
        """Read a list of mappings."""
        value = self.value.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self.note(key, "must be a list of mappings")
            return []
        return [self._below((key, index), item) for index, item in enumerate(items)]

    def _below(self, rest: FieldPath, value: dict[str, Any]) -> "Fields":
        return Fields(document=self.document, path=(*self.path, *rest), value=value, problems=self.problems)


def read_policy(document: Document) -> tuple[Policy, list[Problem]]:
    """Read a ValidatingAdmissionPolicy."""
    spec = _spec(document)
    annotations = document.metadata.get("annotations")
    notes = annotations if isinstance(annotations, dict) else {}
    constraints = spec.child("matchConstraints")
    if constraints is None:
        spec.note("matchConstraints", "is missing", "say which resources the policy is for")
    elif not constraints.children("resourceRules"):
        constraints.note("resourceRules", "must not be empty")
    validations = tuple(_validation(one) for one in spec.children("validations"))
    audits = tuple(_expression(one, "key", "valueExpression") for one in spec.children("auditAnnotations"))
    if not validations and not audits:
        spec.note("validations", "is missing", "a policy needs validations or auditAnnotations")
    kind = spec.child("paramKind")
    policy = Policy(
        rule=document.key.name,
        document=document,
        match=_match(constraints) if constraints else Match(),
        validations=validations,
        variables=tuple(_expression(one, "name", "expression") for one in spec.children("variables")),
        conditions=tuple(_expression(one, "name", "expression") for one in spec.children("matchConditions")),
        annotations=audits,
        params=_param_kind(kind) if kind else None,
        ignores_failure=spec.text("failurePolicy", among=("Fail", "Ignore")) == "Ignore",
        hint=str(notes.get(HINT, "")).strip(),
        fields=tuple(tuple(path.split(".")) for path in str(notes.get(FIELD, "")).replace(",", " ").split()),
    )
    return policy, spec.problems


def read_binding(document: Document) -> tuple[Binding, list[Problem]]:
    """Read a ValidatingAdmissionPolicyBinding."""
    spec = _spec(document)
    resources, ref = spec.child("matchResources"), spec.child("paramRef")
    actions = spec.texts("validationActions", required=True, among=_ACTIONS)
    if "Deny" in actions and "Warn" in actions:
        spec.note("validationActions", "Deny and Warn exclude each other", "keep one of them")
    binding = Binding(
        name=document.key.name,
        policy=spec.text("policyName", required=True),
        document=document,
        actions=tuple(action.lower() for action in actions),
        match=_match(resources) if resources else None,
        ref=_param_ref(ref) if ref else None,
    )
    return binding, spec.problems


def _spec(document: Document) -> Fields:
    value = document.data.get("spec")
    fields = Fields(document=document, path=("spec",), value=value if isinstance(value, dict) else {})
    if not document.key.name:
        fields.problems.append(
            Problem(rule="policy.invalid", place=document.source, field="metadata.name", message="is missing")
        )
    if not isinstance(value, dict):
        fields.note("", "must be a mapping")
    return fields


def _validation(one: Fields) -> Validation:
    return Validation(
        expression=one.text("expression", required=True),
        message=one.text("message"),
        message_expression=one.text("messageExpression"),
    )


def _expression(one: Fields, name: str, text: str) -> Expression:
    return Expression(name=one.text(name, required=True), text=one.text(text, required=True))


def _match(one: Fields) -> Match:
    selectors = [one.child("namespaceSelector"), one.child("objectSelector")]
    namespaces, objects = (read_selector(selector) if selector else () for selector in selectors)
    return Match(
        rules=tuple(_rule(rule) for rule in one.children("resourceRules")),
        excluded=tuple(_rule(rule) for rule in one.children("excludeResourceRules")),
        namespaces=namespaces,
        objects=objects,
        equivalent=one.text("matchPolicy", among=("Exact", "Equivalent")) != "Exact",
    )


def _rule(one: Fields) -> ResourceRule:
    return ResourceRule(
        groups=one.texts("apiGroups", required=True),
        versions=one.texts("apiVersions", required=True),
        resources=one.texts("resources", required=True),
        operations=one.texts("operations", required=True, among=_OPERATIONS),
        scope=one.text("scope", among=_SCOPES, default="*"),
        names=one.texts("resourceNames"),
    )


def read_selector(one: Fields) -> tuple[Requirement, ...]:
    """Read a label selector; an empty one has no requirements and selects everything."""
    labels = one.child("matchLabels")
    found = [
        Requirement(key=key, operator="In", values=(value,))
        for key, value in (labels.value.items() if labels else ())
        if isinstance(value, str)
    ]
    for condition in one.children("matchExpressions"):
        operator = condition.text("operator", required=True, among=_OPERATORS)
        values = condition.texts("values", required=operator in ("In", "NotIn"))
        found.append(Requirement(key=condition.text("key", required=True), operator=operator, values=values))
    return tuple(found)


def _param_kind(one: Fields) -> ParamKind:
    group, _ = split_api_version(one.text("apiVersion", required=True))
    return ParamKind(group=group, kind=one.text("kind", required=True))


def _param_ref(one: Fields) -> ParamRef:
    selector = one.child("selector")
    name = one.text("name")
    if bool(name) == (selector is not None):
        one.note("", "needs a name or a selector, and not both")
    action = one.text("parameterNotFoundAction", required=True, among=("Allow", "Deny"))
    return ParamRef(
        name=name,
        namespace=one.text("namespace"),
        selector=read_selector(selector) if selector else (),
        required=action != "Allow",
    )
