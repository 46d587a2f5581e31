"""`PolicySet`: all policies in force, and what they say of one manifest after another.

Most objects pass, so all policies that speak of an object are first asked in one expression joined by `&&`: only where
that is not plainly true are they asked one by one. An error among them cannot hide: `error && true` is an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import SourceRef, split_api_version
from reconciler.core.policy.admission.judging import Finding, Unit
from reconciler.core.policy.admission.matching import (
    NAME_LABEL,
    Request,
    Resource,
    depends_on_object,
    labels,
    matches,
    may_match,
    selects,
)
from reconciler.core.policy.admission.policy import Binding, Match, Parameters, Policy
from reconciler.core.policy.cel import EvaluationError, Program, Programs, runtime
from reconciler.core.policy.verdict import Result, Verdict

_Kind = tuple[str, str, bool, bool]
_Bound = tuple[Policy, Binding]


class PolicySet:
    """Policies and bindings, indexed by kind. Programs are compiled when an object first needs them."""

    def __init__(self, *, bound: Sequence[_Bound], parameters: Sequence[Parameters], digest: str) -> None:
        self.digest = digest
        self.programs = Programs()
        self._bound = tuple(bound)
        self._parameters = tuple(parameters)
        self._units: dict[tuple[int, int, int], Unit] = {}
        self._by_kind: dict[_Kind, tuple[Resource, tuple[_Bound, ...], bool]] = {}
        self._programs: dict[tuple[int, ...], Program | None] = {}
        self._settled: dict[_Kind, tuple[Unit, ...]] = {}

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the policies in force."""
        return tuple(sorted({policy.rule for policy, _ in self._bound}))

    def evaluate(
        self, manifest: Manifest, *, old: Mapping[str, Any] | None, namespace: Mapping[str, Any] | None
    ) -> tuple[Verdict, ...]:
        """Say what speaks against `manifest`, which replaces `old` (None: nothing) in `namespace` (None: unknown)."""
        kind = (manifest.body["apiVersion"], manifest.key.kind, old is None, bool(manifest.key.namespace))
        units = self._settled.get(kind)
        verdicts: list[Verdict] = []
        request: Request | None = None
        if units is None:
            resource, candidates, varying = self._candidates(kind)
            request = _request(manifest, resource, old, namespace)
            units = tuple(self._matching(candidates, request, manifest, verdicts))
            if not varying and not verdicts:
                self._settled[kind] = units
        if units:
            request = request or _request(manifest, self._candidates(kind)[0], old, namespace)
            if not self._all_pass(units, request):
                for unit in units:
                    found = unit.findings(_values((unit,), request, None))
                    verdicts.extend(_verdicts(unit, found, manifest))
        return tuple(sorted(dict.fromkeys(verdicts), key=lambda one: one.sort_key)) if verdicts else ()

    def _candidates(self, kind: _Kind) -> tuple[Resource, tuple[_Bound, ...], bool]:
        """Return the kind as policies see it, what could speak of it, and whether that differs by object."""
        found = self._by_kind.get(kind)
        if found is None:
            group, version = split_api_version(kind[0])
            # A Namespace is cluster-scoped, whatever its request's namespace is said to be.
            resource = Resource(
                group=group, version=version, kind=kind[1], operation="CREATE" if kind[2] else "UPDATE",
                namespaced=kind[3] and (group, kind[1]) != ("", "Namespace"),
            )  # fmt: skip
            bound = () if resource.exempt else tuple(one for one in self._bound if _may_speak(one, resource))
            found = self._by_kind[kind] = (resource, bound, any(_varies(one) for one in bound))
        return found

    def _matching(
        self, candidates: tuple[_Bound, ...], request: Request, manifest: Manifest, verdicts: list[Verdict]
    ) -> list[Unit]:
        """Units that speak of this object; where that cannot be told, a verdict says why."""
        units: list[Unit] = []
        for policy, binding in candidates:
            answer = _all(policy.match, binding.match, request)
            if answer is False:
                continue
            params = self._params(policy, binding, request.namespace) if answer is True else answer
            if isinstance(params, str):
                finding = Finding(message=f"not evaluated: {params}", error=True)
                verdicts.append(_verdict(policy, Result.ERROR, finding, manifest))
            else:
                units.extend(self._unit(policy, binding, one) for one in params)
        return units

    def _params(self, policy: Policy, binding: Binding, namespace: str) -> Sequence[Parameters | None] | str:
        kind, ref = policy.params, binding.ref
        if kind is None or ref is None:
            return (None,)
        found = [
            one
            for one in self._parameters
            if (one.group, one.kind) == (kind.group, kind.kind)
            and one.namespace in ((ref.namespace,) if ref.namespace else ("", namespace))
            and (one.name == ref.name if ref.name else selects(ref.selector, one.labels))
        ]
        if found or not ref.required:
            return found
        return f"no {kind.kind} {ref.name or 'that the selector takes'} in the repository's policies for its parameters"

    def _unit(self, policy: Policy, binding: Binding, params: Parameters | None) -> Unit:
        key = (id(policy), id(binding), id(params))
        unit = self._units.get(key)
        if unit is None:
            unit = Unit(number=len(self._units), policy=policy, binding=binding, params=params, programs=self.programs)
            self._units[key] = unit
        return unit

    def _all_pass(self, units: tuple[Unit, ...], request: Request) -> bool:
        """Ask all policies in one expression. False means only: ask them one by one."""
        key = tuple(unit.number for unit in units)
        if key not in self._programs:
            self._programs[key] = _combined(units, self.programs)
        program = self._programs[key]
        if program is None:
            return False
        try:
            return program.evaluate(runtime.activation(_values(units, request, program.reads))) is True
        except EvaluationError:
            return False


def _combined(units: tuple[Unit, ...], programs: Programs) -> Program | None:
    if not all(unit.combinable for unit in units):
        return None
    try:
        return programs.compose([unit.passes for unit in units])
    except RuntimeError:  # too long or too deep in one piece
        return None


def _may_speak(bound: _Bound, resource: Resource) -> bool:
    policy, binding = bound
    return may_match(policy.match, resource) and (binding.match is None or may_match(binding.match, resource))


def _varies(bound: _Bound) -> bool:
    policy, binding = bound
    floating = binding.ref is not None and not binding.ref.namespace
    return (
        floating or depends_on_object(policy.match) or (binding.match is not None and depends_on_object(binding.match))
    )


def _all(policy: Match, binding: Match | None, request: Request) -> bool | str:
    answer = matches(policy, request)
    narrowed = True if binding is None or answer is False else matches(binding, request)
    return narrowed if answer is True or narrowed is False else answer


def _request(
    manifest: Manifest, resource: Resource, old: Mapping[str, Any] | None, namespace: Mapping[str, Any] | None
) -> Request:
    return Request(
        resource=resource,
        name=manifest.key.name,
        namespace=manifest.key.namespace,
        body=manifest.body,
        old=old,
        namespace_object=namespace,
    )


def _values(units: tuple[Unit, ...], request: Request, reads: frozenset[str] | None) -> dict[str, Any]:
    """Name what expressions see; with `reads`, only what they read."""
    values: dict[str, Any] = {"object": request.body}
    if reads is None or "oldObject" in reads:
        values["oldObject"] = request.old
    if reads is None or "request" in reads:
        values["request"] = _review(request)
    if (reads is None or "namespaceObject" in reads) and (request.namespace_object or not request.namespace):
        values["namespaceObject"] = _namespace(request)
    for unit in units:
        for name in unit.renamed.values():
            values[name] = unit.params.body if unit.params else None
    return values


def _review(request: Request) -> dict[str, Any]:
    """`request` as an API server fills it; optional fields that would be empty are absent."""
    resource = request.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    review: dict[str, Any] = {
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "name": request.name,
        "operation": resource.operation,
        "dryRun": False,
    }
    namespace = request.name if resource.plural == "namespaces" and not resource.group else request.namespace
    if namespace:
        review["namespace"] = namespace
    return review


def _namespace(request: Request) -> dict[str, Any] | None:
    found = request.namespace_object
    if found is None or not request.namespace:
        return None
    metadata = {**found.get("metadata", {}), "labels": {**labels(found), NAME_LABEL: request.namespace}}
    return {**found, "metadata": metadata}


def _verdicts(unit: Unit, found: Any, manifest: Manifest) -> list[Verdict]:
    verdicts = []
    for finding in found:
        result = next(one for one in Result if one.value in (*unit.binding.actions, "audit"))
        if finding.audit:
            result = Result.AUDIT
        elif finding.error:
            # Under `Ignore` the API server lets it through, so it does not stop a commit; it is shown all the same.
            result = Result.WARN if unit.policy.ignores_failure and not finding.live else Result.ERROR
        verdicts.append(_verdict(unit.policy, result, finding, manifest))
    return verdicts


def _verdict(policy: Policy, result: Result, finding: Finding, manifest: Manifest) -> Verdict:
    path = _field(policy, manifest.body) if not finding.error else ()
    return Verdict(
        rule=policy.rule,
        result=result,
        cluster=manifest.cluster,
        key=manifest.key,
        place=_place(manifest, path),
        message=" ".join(finding.message.split()),
        hint=finding.hint if finding.error else policy.hint,
        field=".".join(path),
    )


def _field(policy: Policy, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Find the first of the policy's fields that the object has."""
    for path in policy.fields:
        node: Any = body
        for part in path:
            node = node.get(part) if isinstance(node, Mapping) else None
        if node is not None:
            return path
    return ()


def _place(manifest: Manifest, path: tuple[str, ...]) -> SourceRef:
    places = manifest.why(path).places if path else ()
    return places[0] if places and places[0].line else manifest.source
