"""Rules of objects that extend an API server: webhooks, aggregated APIs and definitions of kinds.

Sources: pkg/apis/admissionregistration/validation, k8s.io/kube-aggregator/pkg/apis/apiregistration/validation, and
pkg/apis/apiextensions/validation and pkg/apiserver/schema of k8s.io/apiextensions-apiserver 0.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import LABEL_LENGTH, LETTER_LABEL, SUBDOMAIN_PATTERN, is_dns_label, is_dns_name, later
from reconciler.core.problems import Violation
from reconciler.core.schemas.builtin.objects import base64_violations
from reconciler.core.schemas.compiled import CompiledKind, KindName, Unusable
from reconciler.core.schemas.messages import bad_value, format_choices, missing
from reconciler.core.schemas.schema import RULES, Schema, has_rules

Data = dict[str, Any]

_URL_PART = later(SUBDOMAIN_PATTERN[1:-1])
_OPERATIONS = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
_LONGEST_TIMEOUT, _PORTS, _PRIORITIES, _VERSIONS = 30, 65535, 20000, 1000
_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_LONGEST_WARNING = 256
_LEAST_PARTS = 3  # of the name of a webhook
_UNSUPPORTED = ("$schema", "definitions", "id", "patternProperties")
_UNSUPPORTED_EVEN_EMPTY = ("$ref", "additionalItems", "dependencies")
_JUNCTORS = ("allOf", "anyOf", "oneOf")
_LIST_TYPES, _MAP_TYPES = ["atomic", "map", "set"], ["atomic", "granular"]
_FORMS: Mapping[str, tuple[type, ...]] = {
    "a map": (dict,), "a list": (list,), "a string": (str,), "true or false": (bool,), "an integer": (int,),
    "a number": (int, float),
}  # fmt: skip
_OF_SCHEMA = {
    "a map": ("properties",),
    "a list": (*_JUNCTORS, "required", "enum", "x-kubernetes-list-map-keys", RULES),
    "a string": (
        *("type", "format", "title", "description", "pattern"),
        *("x-kubernetes-list-type", "x-kubernetes-map-type"),
    ),
    "true or false": (
        *("nullable", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "x-kubernetes-int-or-string"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
    ),
    "an integer": ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    "a number": ("minimum", "maximum", "multipleOf"),
}
"""The types of the fields of a schema (k8s.io/apiextensions-apiserver, JSONSchemaProps)."""
_OF_ITEMS = {"required": "a string", "x-kubernetes-list-map-keys": "a string", RULES: "a map"}
_OF_RULE = {
    "a string": ("rule", "message", "messageExpression", "reason", "fieldPath"),
    "true or false": ("optionalOldSelf",),
}
_CHOICES = {
    "type": ["array", "boolean", "integer", "number", "object", "string"],
    "reason": ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"],
}
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_OF_STRUCTURE = (
    *("type", "title", "description", "nullable", "default", "additionalProperties"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"),
    *("x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"),
)

_SET_IF_EMPTY = ("externalDocs", "not", "x-kubernetes-preserve-unknown-fields", RULES)
_STRUCTURE_ONLY = {*_OF_STRUCTURE} - {"x-kubernetes-preserve-unknown-fields"}


def webhook_violations(data: Data) -> Iterator[Violation]:
    """Validate a ValidatingWebhookConfiguration or MutatingWebhookConfiguration."""
    for index, hook in enumerate(data.get("webhooks") or ()):
        path: FieldPath = ("webhooks", index)
        name = hook.get("name") or ""
        if not is_dns_name(name) or name.count(".") < _LEAST_PARTS - 1:
            yield bad_value((*path, "name"), "is not a name of three parts", "write it as check.example.com")
        yield from _client(hook.get("clientConfig") or {}, (*path, "clientConfig"))
        seconds = hook.get("timeoutSeconds")
        if seconds is not None and not 1 <= seconds <= _LONGEST_TIMEOUT:
            yield bad_value((*path, "timeoutSeconds"), f"must be 1 to {_LONGEST_TIMEOUT}", "correct it")
        versions = hook.get("admissionReviewVersions") or ()
        if not {"v1", "v1beta1"} & {*versions} or len({*versions}) < len(versions) or "" in versions:
            yield bad_value((*path, "admissionReviewVersions"), "must list v1, and nothing twice", "write [v1]")
        if hook.get("sideEffects") not in _SIDE_EFFECTS:
            yield bad_value((*path, "sideEffects"), "must be None or NoneOnDryRun", "correct it")
        if hook.get("failurePolicy") == "":
            yield bad_value((*path, "failurePolicy"), "must not be empty", "use Fail or Ignore")
        for position, rule in enumerate(hook.get("rules") or ()):
            yield from _rule(rule or {}, (*path, "rules", position))


def _client(client: Data, path: FieldPath) -> Iterator[Violation]:
    yield from base64_violations(client.get("caBundle"), (*path, "caBundle"))
    service, url = client.get("service"), client.get("url")
    if url is not None and not url.startswith("https://"):
        yield bad_value((*path, "url"), "is not an https URL", "write it as https://example.com/validate")
    if (service is None) is (url is None):
        yield bad_value(path, "must have either a url or a service", "set one of the two")
    if service is None:
        return
    for field in ("name", "namespace"):
        if not service.get(field):
            yield missing((*path, "service", field))
    port, written = service.get("port"), service.get("path")
    if port is not None and not 1 <= port <= _PORTS:
        yield bad_value((*path, "service", "port"), f"must be 1 to {_PORTS}", "correct it")
    parts = written.removeprefix("/").removesuffix("/").split("/") if written and written != "/" else ()
    if written and (not written.startswith("/") or not all(map(_URL_PART.fullmatch, parts))):
        yield bad_value((*path, "service", "path"), "is not a path of a URL in lower case", "write it as /validate")


def _rule(rule: Data, path: FieldPath) -> Iterator[Violation]:
    for field in ("operations", "apiGroups", "apiVersions", "resources"):
        listed = rule.get(field) or ()
        place = (*path, field)
        if not listed or (field != "apiGroups" and not all(listed)):
            yield missing(place)
        elif len(listed) > 1 and "*" in listed and field != "resources":
            yield bad_value(place, "must list nothing besides '*'", "remove the others")
    for index, name in enumerate(rule.get("operations") or ()):
        if name and name not in _OPERATIONS:
            yield bad_value((*path, "operations", index), f"{name} is not an operation", "use CREATE, UPDATE or DELETE")
    resources = rule.get("resources") or ()
    if len(resources) > 1 and ("*/*" in resources or len({*resources}) < len(resources)):
        yield bad_value((*path, "resources"), "lists a resource twice", "remove the repeated one")
    if rule.get("scope") == "":
        yield bad_value((*path, "scope"), "must not be empty", "use Cluster, Namespaced or '*'")


def api_service_violations(data: Data) -> Iterator[Violation]:
    """Validate an APIService, whose name is that of its version and group."""
    spec = data.get("spec") or {}
    group, version = spec.get("group") or "", spec.get("version") or ""
    name, expected = (data.get("metadata") or {}).get("name") or "", f"{version}.{group}"
    if not is_dns_label(version) or name != expected:
        message = "must be <version>.<group>"
        yield Violation(rule="schema.bad-name", path=("metadata", "name"), message=message, hint=f"use {expected}")
    for field, highest in (("groupPriorityMinimum", _PRIORITIES), ("versionPriority", _VERSIONS)):
        if not 1 <= (spec.get(field) or 0) <= highest:
            yield bad_value(("spec", field), f"must be 1 to {highest}", "correct it")
    service = spec.get("service")
    for field in ("name", "namespace"):
        if service is not None and not service.get(field):
            yield missing(("spec", "service", field))
    port = (service or {}).get("port")
    if port is not None and not 1 <= port <= _PORTS:
        yield bad_value(("spec", "service", "port"), f"must be 1 to {_PORTS}", "correct it")
    if spec.get("insecureSkipTLSVerify") is True and (service is None or spec.get("caBundle")):
        message = "must not be true here" if service is None else "must not be true together with caBundle"
        yield bad_value(("spec", "insecureSkipTLSVerify"), message, "remove it")


def binding_violations(data: Data) -> Iterator[Violation]:
    """Validate the binding of an admission policy: which parameters it takes, and what happens without them."""
    parameters = (data.get("spec") or {}).get("paramRef")
    if parameters is None:
        return
    path: FieldPath = ("spec", "paramRef")
    has_name, has_selector = bool(parameters.get("name")), parameters.get("selector") is not None
    if has_name is has_selector:
        yield bad_value(path, "must have either name or selector", "set one of the two")
    action = parameters.get("parameterNotFoundAction")
    if action is None:
        yield missing((*path, "parameterNotFoundAction"))
    elif action not in ("Allow", "Deny"):
        yield bad_value((*path, "parameterNotFoundAction"), f"{action[:80]!r} is not allowed", "use Allow or Deny")


def definition_violations(data: Data) -> Iterator[Violation]:
    """Validate a CustomResourceDefinition that its schema has accepted."""
    spec = data["spec"]
    expected = f"{spec['names']['plural']}.{spec['group']}"
    if ((data.get("metadata") or {}).get("name") or "") not in ("", expected):
        message = "must be <plural>.<group>"
        yield Violation(rule="schema.bad-name", path=("metadata", "name"), message=message, hint=f"use {expected}")
    for field in ("shortNames", "categories"):
        for index, name in enumerate(spec["names"].get(field) or ()):
            if len(name or "") > LABEL_LENGTH or not LETTER_LABEL.fullmatch(name or ""):
                hint = "use a-z, 0-9 and -, beginning with a letter"
                yield bad_value(("spec", "names", field, index), f"{str(name)[:80]!r} is not a name", hint)
    if spec.get("preserveUnknownFields") is True:
        hint = "set x-kubernetes-preserve-unknown-fields: true in the schema"
        yield bad_value(("spec", "preserveUnknownFields"), "must not be true", hint)
    stored = sum(bool(version.get("storage")) for version in spec["versions"])
    if stored != 1:
        message = f"exactly one version must have storage: true, not {stored}"
        yield bad_value(("spec", "versions"), message, "set storage: true on one version")
    for index, version in enumerate(spec["versions"]):
        path: FieldPath = ("spec", "versions", index)
        warning = version.get("deprecationWarning")
        if warning is not None and not (version.get("deprecated") is True and warning):
            yield bad_value((*path, "deprecationWarning"), "is for deprecated versions", "set deprecated: true")
        elif len((warning or "").encode()) > _LONGEST_WARNING:
            yield bad_value((*path, "deprecationWarning"), f"must not exceed {_LONGEST_WARNING} bytes", "shorten it")
        source, place = version["schema"]["openAPIV3Schema"], (*path, "schema", "openAPIV3Schema")
        found = [*_malformed(source, place)] or [*_structural(source, place, root=True)]
        yield from found or [*_defaults(source, place), *_rules(source, place)]


def _rules(source: Schema, path: FieldPath) -> Iterator[Violation]:
    if not has_rules(source):
        return
    from reconciler.core.schemas.rules.definitions import rule_violations  # noqa: PLC0415 - few repositories need the engine for it

    yield from rule_violations(source, path)


def _malformed(schema: Any, path: FieldPath) -> Iterator[Violation]:
    """Check the types of all fields: the schema of definitions leaves open what is below `items`."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield bad_value(path, "is not a schema", "write a map")
        return
    yield from _mistyped(schema, _OF_SCHEMA, path)
    for field, form in _OF_ITEMS.items():
        for index, item in enumerate(_list(schema.get(field))):
            yield from _is(form, item, (*path, field, index))
            if isinstance(item, dict):
                yield from _mistyped(item, _OF_RULE, (*path, field, index))
    for field in ("properties", *_JUNCTORS):
        children = schema.get(field)
        for key, child in children.items() if isinstance(children, dict) else enumerate(_list(children)):
            yield from _malformed(child, (*path, field, key))
    yield from _malformed(schema.get("not"), (*path, "not"))
    for field in ("items", "additionalProperties"):  # other types are ignored, or refused by `_supported`
        if isinstance(schema.get(field), dict):
            yield from _malformed(schema[field], (*path, field))


def _mistyped(value: Data, fields: Mapping[str, tuple[str, ...]], path: FieldPath) -> Iterator[Violation]:
    """Check the types of the fields of a schema or a rule, and the choice of those that have few values."""
    for form, names in fields.items():
        for name in names:
            yield from _is(form, value.get(name), (*path, name))
            choices = _CHOICES.get(name)
            if choices and value.get(name) and value[name] not in choices:
                yield bad_value(
                    (*path, name), f"{str(value[name])[:80]!r} is not allowed", f"use {format_choices(choices)}"
                )


def _is(form: str, value: Any, path: FieldPath) -> Iterator[Violation]:
    if value is not None and type(value) not in _FORMS[form]:
        yield bad_value(path, f"is not {form}", f"write {form}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _structural(schema: Data, path: FieldPath, *, root: bool = False) -> Iterator[Violation]:
    """Check that a structural schema sets the type of every field (KEP-1693)."""
    untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and (root or not untyped):
        yield missing((*path, "type"))
    elif root and schema["type"] != "object":
        message = f"{schema['type']} is not allowed at the root"
        yield Violation(rule="schema.not-allowed", path=(*path, "type"), message=message, hint="use object")
    is_open = schema.get("properties") or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-embedded-resource") and not is_open:
        hint = "add them, or x-kubernetes-preserve-unknown-fields: true"
        yield Violation(
            rule="schema.missing-field",
            path=(*path, "properties"),
            message="is required for an embedded resource",
            hint=hint,
        )
    if root and schema.get("nullable") is True:
        yield bad_value((*path, "nullable"), "must not be true at the root", "remove it")
    yield from _supported(schema, path)
    yield from _lists(schema, path)
    yield from _nested(schema, schema if root else None, path, is_free=True)
    for name, child in (schema.get("properties") or {}).items():
        yield from _structural(child or {}, (*path, "properties", name))
    others, items = schema.get("additionalProperties"), schema.get("items")
    if root and others is not None:
        yield bad_value((*path, "additionalProperties"), "is not allowed at the root", "remove it")
    elif isinstance(others, dict):
        yield from _structural(others, (*path, "additionalProperties"))
    if isinstance(items, dict):
        yield from _structural(items, (*path, "items"))


def _defaults(schema: Data, path: FieldPath) -> Iterator[Violation]:
    """Check the defaults of all fields against their schemas."""
    from reconciler.core.schemas.strict import custom  # noqa: PLC0415 - few repositories need it

    is_checked = schema.get("anyOf") or not schema.get("x-kubernetes-int-or-string")  # a server checks no other default
    if schema.get("default") is not None and is_checked:
        kind = CompiledKind(KindName(group="", version="", kind=""), custom(schema), namespaced=None)
        if not isinstance(kind.engine, Unusable) and not kind.engine.is_valid(schema["default"]):
            yield bad_value((*path, "default"), "does not match the schema of the field", "correct one of the two")
    for name, child in (schema.get("properties") or {}).items():
        yield from _defaults(child or {}, (*path, "properties", name))
    for field in ("items", "additionalProperties"):
        if isinstance(schema.get(field), dict):
            yield from _defaults(schema[field], (*path, field))


def _supported(schema: Data, path: FieldPath) -> Iterator[Violation]:
    """Check for keywords that a server does not know, and values of the wrong kind."""
    unsupported = [field for field in _UNSUPPORTED if schema.get(field)]
    unsupported += [field for field in _UNSUPPORTED_EVEN_EMPTY if schema.get(field) is not None]
    for field in unsupported:
        yield bad_value((*path, field), "is not supported by a server", "remove it")
    if schema.get("uniqueItems") is True:
        hint = "use x-kubernetes-list-type: set"
        yield bad_value((*path, "uniqueItems"), "must not be true", hint)
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        yield bad_value((*path, "x-kubernetes-preserve-unknown-fields"), "must be true or missing", "remove it")
    others, items = schema.get("additionalProperties"), schema.get("items")
    if others is not None and not isinstance(others, dict | bool):
        yield bad_value((*path, "additionalProperties"), "is neither a schema nor a flag", "write a schema")
    elif schema.get("properties") and (others is False or isinstance(others, dict)):
        yield bad_value(
            (*path, "additionalProperties"), "is not allowed together with properties", "remove one of the two"
        )
    if isinstance(items, list) and items:
        yield bad_value((*path, "items"), "is not a schema", "write one schema for all items")
    elif items is None and schema.get("type") == "array":
        yield missing((*path, "items"))


def _lists(schema: Data, path: FieldPath) -> Iterator[Violation]:
    """Check how changes of lists and maps are merged."""
    for kind, field, allowed in (
        ("array", "x-kubernetes-list-type", _LIST_TYPES),
        ("object", "x-kubernetes-map-type", _MAP_TYPES),
    ):
        value = schema.get(field)
        if value is not None and value not in allowed:
            yield bad_value((*path, field), f"{value[:80]!r} is not allowed", f"use {format_choices(allowed)}")
        elif value is not None and schema.get("type") != kind:
            yield bad_value((*path, field), f"is for the type {kind}", "remove it")
    keys, items = schema.get("x-kubernetes-list-map-keys") or [], schema.get("items")
    if (schema.get("x-kubernetes-list-type") == "map") is not bool(keys):
        yield bad_value((*path, "x-kubernetes-list-map-keys"), "belongs to the list type map", "set both or none")
    known = (items.get("properties") or {}) if isinstance(items, dict) else {}
    if keys and (len({*keys}) < len(keys) or not {*keys} <= known.keys()):
        message = "must name different properties of the items"
        yield bad_value((*path, "x-kubernetes-list-map-keys"), message, "correct it")
    required = (items.get("required") or ()) if isinstance(items, dict) else ()
    for key in keys:
        if key in known and key not in required and (known[key] or {}).get("default") is None:
            message = "is required, because the property is a key of the list and not required itself"
            place = (*path, "items", "properties", key, "default")
            hint = "set it, or list the property in required"
            yield Violation(rule="schema.missing-field", path=place, message=message, hint=hint)


def _nested(schema: Data, structure: Data | None, path: FieldPath, *, is_free: bool) -> Iterator[Violation]:
    """Check that conditions set no structure, and that those at the root speak of fields of `structure`.

    `is_free` allows the types of a value that is a number or a text.
    """
    for field in _JUNCTORS:
        branches = schema.get(field) or ()
        set_values = [{name: value for name, value in (one or {}).items() if _is_set(name, value)} for one in branches]
        if field == "anyOf" and is_free and set_values == _INT_OR_STRING:
            continue
        for index, branch in enumerate(branches):
            is_first = is_free and field == "allOf" and index == 0
            yield from _condition(branch or {}, structure, (*path, field, index), is_free=is_first)
    if schema.get("not") is not None:
        yield from _condition(schema["not"], structure, (*path, "not"), is_free=False)


def _is_set(name: str, value: Any) -> bool:
    """Return whether a field differs from none as a server decodes it: a number may be 0, and some fields empty."""
    if name == "items":
        return bool(value) and isinstance(value, dict | list)
    return bool(value) or type(value) in (int, float) or (name in _SET_IF_EMPTY and value is not None)


def _condition(schema: Data, structure: Data | None, path: FieldPath, *, is_free: bool) -> Iterator[Violation]:
    for field in _OF_STRUCTURE:
        if schema.get(field) not in (None, "", [], False):
            yield bad_value((*path, field), "is not allowed in a condition", "move it out of the condition")
    yield from _supported({name: value for name, value in schema.items() if name not in _STRUCTURE_ONLY}, path)
    yield from _nested(schema, structure, path, is_free=is_free)
    properties = None if structure is None else structure.get("properties") or {}
    for name, child in (schema.get("properties") or {}).items():
        place = (*path, "properties", name)
        if properties is not None and name not in properties:
            yield bad_value(place, "is not a property outside of the condition", "declare it there")
        else:
            known = None if properties is None else properties[name]
            yield from _condition(child or {}, known, place, is_free=False)
    if isinstance(schema.get("items"), dict):
        items = None if structure is None else structure.get("items")
        if structure is not None and not isinstance(items, dict):
            yield bad_value((*path, "items"), "has no schema outside of the condition", "declare it there")
        else:
            yield from _condition(schema["items"], items, (*path, "items"), is_free=False)
