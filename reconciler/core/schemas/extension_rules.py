"""Rules of objects that extend an API server: webhooks and aggregated APIs.

Sources: pkg/apis/admissionregistration/validation and k8s.io/kube-aggregator/pkg/apis/apiregistration/validation.
"""

from collections.abc import Iterator
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import SUBDOMAIN_PATTERN, is_dns_label, is_dns_name, later
from reconciler.core.problems import Violation
from reconciler.core.schemas.messages import bad_value, missing

Data = dict[str, Any]

_URL_PART = later(SUBDOMAIN_PATTERN[1:-1])
_OPERATIONS = ("*", "CREATE", "UPDATE", "DELETE", "CONNECT")
_LONGEST_TIMEOUT, _PORTS, _PRIORITIES, _VERSIONS = 30, 65535, 20000, 1000
_LEAST_PARTS = 3  # of the name of a webhook


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
        if hook.get("failurePolicy") == "":
            yield bad_value((*path, "failurePolicy"), "must not be empty", "use Fail or Ignore")
        for position, rule in enumerate(hook.get("rules") or ()):
            yield from _rule(rule or {}, (*path, "rules", position))


def _client(client: Data, path: FieldPath) -> Iterator[Violation]:
    service = client.get("service")
    if (service is None) is (client.get("url") is None):
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
