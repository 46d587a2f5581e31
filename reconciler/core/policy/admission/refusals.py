"""What an API server refuses in a policy besides its expressions: names, counts, duplicates and wildcards."""

from collections import Counter
from collections.abc import Iterable

from reconciler.core.cel.library.named_formats import FORMATS
from reconciler.core.cel.parser import RESERVED
from reconciler.core.patterns import is_path_segment, later
from reconciler.core.policy.admission.fields import FieldReader

_IDENTIFIER = later(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = RESERVED | {"true", "false", "null", "in"}
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MOST_ANNOTATIONS, _MOST_CONDITIONS = 20, 64
_LONGEST_ANNOTATION = 5 * 1024
_LINE_BREAK = later(r"[\n\r]")


def find_refusals(spec: FieldReader, name: str) -> None:
    """Add a problem for each thing that an API server refuses."""
    conditions, annotations = spec.children("matchConditions"), spec.children("auditAnnotations")
    if len(conditions) > _MOST_CONDITIONS:
        spec.add_problem("matchConditions", f"must not have more than {_MOST_CONDITIONS} items")
    if len(annotations) > _MOST_ANNOTATIONS:
        spec.add_problem("auditAnnotations", f"must not have more than {_MOST_ANNOTATIONS} items")
    _unique(conditions, "name")
    _unique(annotations, "key")
    for condition in conditions:
        _not_blank(condition, "expression")
        _valid(condition, "name", "qualifiedName", condition.text("name"))
    for annotation in annotations:
        _not_blank(annotation, "valueExpression")
        _valid(annotation, "key", "qualifiedName", f"{name}/{annotation.text('key')}")
        if len(annotation.text("valueExpression").strip().encode()) > _LONGEST_ANNOTATION:
            annotation.add_problem("valueExpression", f"must not exceed {_LONGEST_ANNOTATION} bytes")
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
