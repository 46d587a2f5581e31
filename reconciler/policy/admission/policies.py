"""`ValidatingAdmissionPolicy` and `ValidatingAdmissionPolicyBinding` as typed values.

Reading reports what an API server would refuse in the fields that evaluation depends on; unknown fields are reported
by the schema.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.kube.cel.library.named_formats import FORMATS
from reconciler.kube.cel.parser import RESERVED
from reconciler.kube.objects import FieldPath, split_api_version
from reconciler.kube.patterns import is_path_segment, later
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document

# `FieldReader`: the fields of a policy or a binding, with problems at their places.


class FieldReader(Struct, frozen=True, kw_only=True):
    """Reads the fields of a mapping in a document. A field of the wrong type is a problem and counts as absent."""

    document: Document
    path: FieldPath
    value: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)

    def add_problem(self, key: str | int, message: str, hint: str = "") -> None:
        """Add a problem of one field."""
        path = (*self.path, key) if key != "" else self.path
        self.problems.append(self.document.problem("policy.invalid", path, message, hint))

    def text(self, key: str, *, required: bool = False, among: Collection[str] = (), default: str = "") -> str:
        """Read a string."""
        value = self.value.get(key)
        if value is None:
            if required:
                self.add_problem(key, "is required", "add it")
            return default
        if not isinstance(value, str) or (required and not value.strip()):
            self.add_problem(key, "must be a non-empty string" if required else "must be a string")
            return default
        if among and value not in among:
            self.add_problem(key, f"{value[:80]!r} is not allowed", f"allowed values: {', '.join(among)}")
            return default
        return value

    def texts(self, key: str, *, required: bool = False, among: Collection[str] = ()) -> tuple[str, ...]:
        """Read a list of strings; null is an empty one."""
        value = self.value.get(key)
        items: Any = [] if value is None else value
        if isinstance(items, list):
            items = ["" if item is None else item for item in items]
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            self.add_problem(key, "must be a list of strings")
            return ()
        unknown = [item for item in items if among and item not in among]
        if unknown:
            self.add_problem(key, f"{unknown[0][:80]!r} is not allowed", f"allowed values: {', '.join(among)}")
        if required and not items:
            self.add_problem(key, "must not be empty")
        return tuple(item for item in items if item not in unknown)

    def child(self, key: str) -> "FieldReader | None":
        """Read a mapping, or None if it is absent."""
        value = self.value.get(key)
        if value is not None and not isinstance(value, dict):
            self.add_problem(key, "must be a mapping")
        return self._below((key,), value) if isinstance(value, dict) else None

    def children(self, key: str) -> list["FieldReader"]:
        """Read a list of mappings."""
        value = self.value.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self.add_problem(key, "must be a list of mappings")
            return []
        return [self._below((key, index), item) for index, item in enumerate(items)]

    def _below(self, rest: FieldPath, value: dict[str, Any]) -> "FieldReader":
        return FieldReader(document=self.document, path=(*self.path, *rest), value=value, problems=self.problems)


# What an API server refuses in a policy besides its expressions: names, counts, duplicates and wildcards.


_IDENTIFIER = later(r"[_a-zA-Z][_a-zA-Z0-9]*")

_RESERVED = RESERVED | {"true", "false", "null", "in"}

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")

_MAX_ANNOTATIONS, _MAX_CONDITIONS = 20, 64  # an API server refuses policies with more

_MAX_ANNOTATION = 5 * 1024  # bytes of an audit annotation

_LINE_BREAK = later(r"[\n\r]")


def find_refusals(spec: FieldReader, name: str) -> None:
    """Add a problem for each thing that an API server refuses."""
    conditions, annotations = spec.children("matchConditions"), spec.children("auditAnnotations")
    if len(conditions) > _MAX_CONDITIONS:
        spec.add_problem("matchConditions", f"must not have more than {_MAX_CONDITIONS} items")
    if len(annotations) > _MAX_ANNOTATIONS:
        spec.add_problem("auditAnnotations", f"must not have more than {_MAX_ANNOTATIONS} items")
    _unique(conditions, "name")
    _unique(annotations, "key")
    for condition in conditions:
        _not_blank(condition, "expression")
        _valid(condition, "name", "qualifiedName", condition.text("name"))
    for annotation in annotations:
        _not_blank(annotation, "valueExpression")
        _valid(annotation, "key", "qualifiedName", f"{name}/{annotation.text('key')}")
        if len(annotation.text("valueExpression").strip().encode()) > _MAX_ANNOTATION:
            annotation.add_problem("valueExpression", f"must not exceed {_MAX_ANNOTATION} bytes")
    for variable in spec.children("variables"):
        _not_blank(variable, "expression")
        found = variable.text("name")
        if found in _RESERVED or not _IDENTIFIER.fullmatch(found):
            variable.add_problem("name", "must be a CEL identifier", "use letters, digits and '_'; no reserved word")
    for validation in spec.children("validations"):
        _find_in_validation(validation)
    _find_in_kind(spec.child("paramKind"))
    find_in_match(spec.child("matchConstraints"))


def _unique(items: Iterable[FieldReader], key: str) -> None:
    seen: set[str] = set()
    for item in items:
        value = item.text(key)
        if value in seen:
            item.add_problem(key, f"{value[:80]!r} is already used", "use another name")
        seen.add(value)


def _not_blank(fields: FieldReader, key: str) -> None:
    if fields.value.get(key) and not fields.text(key).strip():
        fields.add_problem(key, "must not be blank", "write it or remove it")


def _valid(fields: FieldReader, key: str, form: str, value: str) -> None:
    for error in FORMATS[form](value):
        fields.add_problem(key, error)


def _find_in_validation(fields: FieldReader) -> None:
    for key in ("expression", "message", "messageExpression"):
        _not_blank(fields, key)
    if _LINE_BREAK.search(fields.text("message").strip()):
        fields.add_problem("message", "must not contain line breaks", "write it on one line")
    fields.text("reason", among=_REASONS)


def _find_in_kind(fields: FieldReader | None) -> None:
    if fields is None:
        return
    group, slash, version = fields.text("apiVersion").partition("/")
    group, version = (group, version) if slash else ("", group)
    if group:
        _valid(fields, "apiVersion", "dns1123Subdomain", group)
    _valid(fields, "apiVersion", "dns1035Label", version)
    _valid(fields, "kind", "dns1035Label", fields.text("kind").lower())


# --- resources --------------------------------------------------------------------------------------------------------


def find_in_match(fields: FieldReader | None) -> None:
    """Add a problem for each thing that an API server refuses in `matchConstraints` or `matchResources`."""
    if fields is None:
        return
    for rule in (*fields.children("resourceRules"), *fields.children("excludeResourceRules")):
        for key in ("apiGroups", "apiVersions", "operations"):
            values = rule.texts(key)
            if "*" in values and len(values) > 1:
                rule.add_problem(key, "'*' must be the only item", "remove the others")
        if "" in rule.texts("apiVersions") or "" in rule.texts("resources"):
            rule.add_problem("", "must not contain an empty version or resource", "remove it")
        _find_in_resources(rule)
        names = rule.texts("resourceNames")
        for name, count in Counter(names).items():
            if count > 1:
                rule.add_problem("resourceNames", f"{name[:80]!r} is listed twice", "remove one")
            if not is_path_segment(name):
                rule.add_problem("resourceNames", f"{name[:80]!r} is not the name of an object", "correct it")


def _find_in_resources(rule: FieldReader) -> None:
    """Add a problem for a resource that a wildcard beside it includes; the order counts as on a server."""
    resources = rule.texts("resources")
    whole, everywhere = set(), set()
    plain = False
    for one in resources:
        name, slash, below = one.partition("/")
        if not slash:
            plain = one != "*"
            continue
        if name in whole or below in everywhere:
            rule.add_problem("resources", f"{one!r} is included in a wildcard before it", "remove it")
        whole |= {name} if below == "*" else set()
        everywhere |= {below} if name == "*" else set()
    if ("*/*" in resources and len(resources) > 1) or ("*" in resources and plain):
        rule.add_problem("resources", "a wildcard must be the only item", "remove the others")


GROUP = "admissionregistration.k8s.io"

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"

MUTATION, MUTATION_BINDING = "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"


class Requirement(Struct, frozen=True, kw_only=True):
    """One condition of a label selector: In, NotIn, Exists or DoesNotExist."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class ResourceRule(Struct, frozen=True, kw_only=True):
    """Requests by resource. `*` matches everything; `scope` is Cluster, Namespaced or `*`; no names match all names."""

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
    """An expression that must be true, and the message if it is not."""

    expression: str
    message: str = ""
    message_expression: str = ""


class ParamKind(Struct, frozen=True, kw_only=True):
    """The kind of a policy's parameters."""

    group: str
    kind: str


class Policy(Struct, frozen=True, kw_only=True, eq=False):
    """A policy. `hint`, `fields` and `is_optional` come from its annotations; `rule` is its name.

    A shipped policy that `is_optional` is off unless `spec.rules` names it. One that `mutates` changes objects on a
    server: it has no validations.
    """

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
    is_shipped: bool = False
    is_optional: bool = False
    mutates: bool = False


class ParamRef(Struct, frozen=True, kw_only=True):
    """The parameter objects of a binding: by name, or by selector if the name is empty."""

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
    is_shipped: bool = False


class Parameters(Struct, frozen=True, kw_only=True, eq=False):
    """An object that policies can use as parameters."""

    group: str
    kind: str
    namespace: str
    name: str
    labels: Mapping[str, str]
    body: Mapping[str, Any]


# --- reading ----------------------------------------------------------------------------------------------------------

HINT, FIELD, DEFAULT = "gpureconciler.io/hint", "gpureconciler.io/field", "gpureconciler.io/default"

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")

_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT", "*")

_SCOPES = ("Cluster", "Namespaced", "*")

_ACTIONS = ("Deny", "Warn", "Audit")


def read_policy(document: Document) -> tuple[Policy, list[Problem]]:
    """Read a ValidatingAdmissionPolicy."""
    spec = _spec(document)
    annotations = document.metadata.get("annotations")
    notes = annotations if isinstance(annotations, dict) else {}
    constraints = spec.child("matchConstraints")
    if constraints is None:
        spec.add_problem("matchConstraints", "is required", "add the resources that the policy applies to")
    elif not constraints.children("resourceRules"):
        constraints.add_problem("resourceRules", "must not be empty")
    validations = tuple(_validation(one) for one in spec.children("validations"))
    audits = tuple(_expression(one, "key", "valueExpression") for one in spec.children("auditAnnotations"))
    if not validations and not audits:
        spec.add_problem("validations", "is required", "add validations or auditAnnotations")
    kind = spec.child("paramKind")
    find_refusals(spec, document.key.name)
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
        is_optional=notes.get(DEFAULT) == "off",
    )
    return policy, spec.problems


def read_mutation(document: Document) -> tuple[Policy, list[Problem]]:
    """Read what decides which objects a MutatingAdmissionPolicy is about. Its rule is `mutation.<name>`."""
    spec = _spec(document)
    constraints, kind = spec.child("matchConstraints"), spec.child("paramKind")
    find_refusals(spec, document.key.name)
    policy = Policy(
        rule=f"mutation.{document.key.name}",
        document=document,
        match=_match(constraints) if constraints else Match(),
        conditions=tuple(_expression(one, "name", "expression") for one in spec.children("matchConditions")),
        params=_param_kind(kind) if kind else None,
        mutates=True,
    )
    return policy, spec.problems


def read_mutation_binding(document: Document) -> tuple[Binding, list[Problem]]:
    """Read a MutatingAdmissionPolicyBinding."""
    spec = _spec(document)
    resources, ref = spec.child("matchResources"), spec.child("paramRef")
    find_in_match(resources)
    binding = Binding(
        name=document.key.name,
        policy=f"mutation.{spec.text('policyName', required=True)}",
        document=document,
        actions=("warn",),
        match=_match(resources) if resources else None,
        ref=_param_ref(ref) if ref else None,
    )
    return binding, spec.problems


def read_binding(document: Document) -> tuple[Binding, list[Problem]]:
    """Read a ValidatingAdmissionPolicyBinding."""
    spec = _spec(document)
    resources, ref = spec.child("matchResources"), spec.child("paramRef")
    actions = spec.texts("validationActions", required=True, among=_ACTIONS)
    if "Deny" in actions and "Warn" in actions:
        spec.add_problem("validationActions", "Deny and Warn are mutually exclusive", "keep one of them")
    find_in_match(resources)
    binding = Binding(
        name=document.key.name,
        policy=spec.text("policyName", required=True),
        document=document,
        actions=tuple(action.lower() for action in actions),
        match=_match(resources) if resources else None,
        ref=_param_ref(ref) if ref else None,
    )
    return binding, spec.problems


def _spec(document: Document) -> FieldReader:
    value = document.data.get("spec")
    reader = FieldReader(document=document, path=("spec",), value=value if isinstance(value, dict) else {})
    if not document.key.name:
        reader.problems.append(
            Problem(rule="policy.invalid", place=document.source, field="metadata.name", message="is required")
        )
    if not isinstance(value, dict):
        reader.add_problem("", "must be a mapping")
    return reader


def _validation(fields: FieldReader) -> Validation:
    return Validation(
        expression=fields.text("expression", required=True),
        message=fields.text("message"),
        message_expression=fields.text("messageExpression"),
    )


def _expression(fields: FieldReader, name: str, text: str) -> Expression:
    return Expression(name=fields.text(name, required=True), text=fields.text(text, required=True))


def _match(fields: FieldReader) -> Match:
    selectors = [fields.child("namespaceSelector"), fields.child("objectSelector")]
    namespaces, objects = (read_selector(selector) if selector else () for selector in selectors)
    return Match(
        rules=tuple(_rule(rule) for rule in fields.children("resourceRules")),
        excluded=tuple(_rule(rule) for rule in fields.children("excludeResourceRules")),
        namespaces=namespaces,
        objects=objects,
        equivalent=fields.text("matchPolicy", among=("Exact", "Equivalent")) != "Exact",
    )


def _rule(fields: FieldReader) -> ResourceRule:
    return ResourceRule(
        groups=fields.texts("apiGroups", required=True),
        versions=fields.texts("apiVersions", required=True),
        resources=fields.texts("resources", required=True),
        operations=fields.texts("operations", required=True, among=_OPERATIONS),
        scope=fields.text("scope", among=_SCOPES, default="*"),
        names=fields.texts("resourceNames"),
    )


def read_selector(fields: FieldReader) -> tuple[Requirement, ...]:
    """Read a label selector; an empty one has no requirements and matches everything."""
    labels = fields.child("matchLabels")
    requirements = [
        Requirement(key=key, operator="In", values=(value,))
        for key, value in (labels.value.items() if labels else ())
        if isinstance(value, str)
    ]
    for condition in fields.children("matchExpressions"):
        operator = condition.text("operator", required=True, among=_OPERATORS)
        values = condition.texts("values", required=operator in ("In", "NotIn"))
        requirements.append(Requirement(key=condition.text("key", required=True), operator=operator, values=values))
    return tuple(requirements)


def _param_kind(fields: FieldReader) -> ParamKind:
    group, _ = split_api_version(fields.text("apiVersion", required=True))
    return ParamKind(group=group, kind=fields.text("kind", required=True))


def _param_ref(fields: FieldReader) -> ParamRef:
    selector = fields.child("selector")
    name = fields.text("name")
    if bool(name) == (selector is not None):
        fields.add_problem("", "must have either a name or a selector", "set one of name, selector")
    action = fields.text("parameterNotFoundAction", required=True, among=("Allow", "Deny"))
    return ParamRef(
        name=name,
        namespace=fields.text("namespace"),
        selector=read_selector(selector) if selector else (),
        required=action != "Allow",
    )
