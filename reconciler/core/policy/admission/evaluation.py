"""Evaluate admission policies on manifests: `PolicySet`.

Most objects pass, so the policies that match an object are first evaluated in groups, each as one expression joined
with `&&`; only the policies of a group that is not true are evaluated one by one. No error is lost: `error && true` is
an error.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import SourceRef, split_api_version
from reconciler.core.policy.admission.bound import BoundPolicy, PolicyOutcome
from reconciler.core.policy.admission.matching import (
    NAME_LABEL,
    AdmissionRequest,
    Resource,
    depends_on_object,
    labels,
    matches,
    may_match,
    selects,
)
from reconciler.core.policy.admission.policies import Binding, Match, Parameters, Policy
from reconciler.core.policy.cel import CelProgram, EvaluationError, ProgramCache, activation
from reconciler.core.policy.verdict import Result, Verdict

_Kind = tuple[str, str, bool, bool]
_Pair = tuple[Policy, Binding]
_Group = tuple[tuple[BoundPolicy, ...], CelProgram | None]
"""Policies with one expression that is true only if all of them pass; None if each must be evaluated by itself."""


_OWN_GROUP = "gpureconciler.io"


class PolicySet:
    """Policies and their bindings, indexed by kind. Programs are compiled on first use."""

    def __init__(
        self,
        *,
        bound: Sequence[_Pair],
        parameters: Sequence[Parameters],
        digest: str,
        programs: ProgramCache | None = None,
    ) -> None:
        self.digest = digest
        self.programs = programs or ProgramCache()
        self.bound = tuple(bound)
        self.parameters = tuple(parameters)
        self._units: dict[tuple[int, int, int], BoundPolicy] = {}
        self._by_kind: dict[_Kind, tuple[Resource, tuple[_Pair, ...], bool]] = {}
        self._groups: dict[tuple[int, ...], tuple[tuple[_Group, ...], frozenset[str]]] = {}
        self._settled: dict[_Kind, tuple[BoundPolicy, ...]] = {}

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the enabled policies."""
        return tuple(sorted({policy.rule for policy, _ in self.bound}))

    @cached_property
    def shipped(self) -> "PolicySet":
        """The policies that come with this program, with their own bindings."""
        return self._part([pair for pair in self.bound if all(one.is_shipped for one in pair)])

    @cached_property
    def own(self) -> "PolicySet":
        """The policies and bindings of the repository."""
        return self._part([pair for pair in self.bound if not all(one.is_shipped for one in pair)])

    @cached_property
    def about_plans(self) -> "PolicySet":
        """The policies that name our own group, which has no rendered objects: they look at the plan as a whole."""
        return self._part([pair for pair in self.bound if any(_OWN_GROUP in one.groups for one in pair[0].match.rules)])

    def without(self, rules: Collection[str]) -> "PolicySet":
        """Return the other policies."""
        return self._part([pair for pair in self.bound if pair[0].rule not in rules]) if rules else self

    def only(self, rule: str) -> "PolicySet":
        """Return one policy with all its bindings."""
        return self._part([pair for pair in self.bound if pair[0].rule == rule])

    def _part(self, bound: Sequence[_Pair]) -> "PolicySet":
        if len(bound) == len(self.bound):
            return self
        return PolicySet(bound=bound, parameters=self.parameters, digest=self.digest, programs=self.programs)

    def may_match(self, manifest: Manifest, *, old: Mapping[str, Any] | None) -> bool:
        """Whether any policy is about objects of this kind."""
        return bool(self._candidates(_kind(manifest, old))[1])

    def unevaluated(
        self,
        manifest: Manifest,
        *,
        old: Mapping[str, Any] | None,
        namespace: Mapping[str, Any] | None,
        message: str,
        hint: str,
    ) -> tuple[Verdict, ...]:
        """Return an error for each policy that matches. `failurePolicy` is about an API server, not about this."""
        resource, candidates, _ = self._candidates(_kind(manifest, old))
        request = _request(manifest, resource, old, namespace)
        outcome = PolicyOutcome(Result.ERROR, f"not evaluated: {message}", hint, evaluated=False)
        matching = (policy for policy, binding in candidates if _all(policy.match, binding.match, request) is not False)
        return tuple(dict.fromkeys(_verdict(policy, outcome, manifest) for policy in matching))

    def evaluate(
        self, manifest: Manifest, *, old: Mapping[str, Any] | None, namespace: Mapping[str, Any] | None
    ) -> tuple[Verdict, ...]:
        """Return the verdicts on `manifest`, which replaces `old` (None: created) in `namespace` (None: unknown)."""
        kind = _kind(manifest, old)
        units = self._settled.get(kind)
        verdicts: list[Verdict] = []
        request: AdmissionRequest | None = None
        if units is None:
            resource, candidates, varying = self._candidates(kind)
            request = _request(manifest, resource, old, namespace)
            units = tuple(self._matching(candidates, request, manifest, verdicts))
            if not varying and not verdicts:
                self._settled[kind] = units
        if units:
            request = request or _request(manifest, self._candidates(kind)[0], old, namespace)
            for unit in self._not_passing(units, request):
                outcomes = unit.outcomes(_values((unit,), request, None))
                verdicts.extend(_verdict(unit.policy, outcome, manifest) for outcome in outcomes)
        return tuple(sorted(dict.fromkeys(verdicts), key=lambda verdict: verdict.sort_key)) if verdicts else ()

    def _candidates(self, kind: _Kind) -> tuple[Resource, tuple[_Pair, ...], bool]:
        """Return the resource, the policies that may match it, and whether that depends on the object."""
        candidates = self._by_kind.get(kind)
        if candidates is None:
            group, version = split_api_version(kind[0])
            # A Namespace is cluster-scoped, although its request has a namespace.
            resource = Resource(
                group=group, version=version, kind=kind[1], operation="CREATE" if kind[2] else "UPDATE",
                namespaced=kind[3] and (group, kind[1]) != ("", "Namespace"),
            )  # fmt: skip
            bound = () if resource.exempt else tuple(pair for pair in self.bound if _may_match(pair, resource))
            candidates = (resource, bound, any(_varies(pair) for pair in bound))
            self._by_kind[kind] = candidates
        return candidates

    def _matching(
        self, candidates: tuple[_Pair, ...], request: AdmissionRequest, manifest: Manifest, verdicts: list[Verdict]
    ) -> list[BoundPolicy]:
        """Return the policies that match this object; a verdict explains where that is unknown."""
        units: list[BoundPolicy] = []
        for policy, binding in candidates:
            answer = _all(policy.match, binding.match, request)
            if answer is False:
                continue
            params = self._params(policy, binding, request.namespace) if answer is True else answer
            if isinstance(params, str):
                outcome = PolicyOutcome(Result.ERROR, f"not evaluated: {params}", evaluated=False)
                verdicts.append(_verdict(policy, outcome, manifest))
            else:
                units.extend(self._unit(policy, binding, item) for item in params)
        return units

    def _params(self, policy: Policy, binding: Binding, namespace: str) -> Sequence[Parameters | None] | str:
        kind, ref = policy.params, binding.ref
        if kind is None or ref is None:
            return (None,)
        matching = [
            item
            for item in self.parameters
            if (item.group, item.kind) == (kind.group, kind.kind)
            and item.namespace in ((ref.namespace,) if ref.namespace else ("", namespace))
            and (item.name == ref.name if ref.name else selects(ref.selector, item.labels))
        ]
        if matching or not ref.required:
            return matching
        return f"no {kind.kind} {ref.name or 'that matches the selector'} among the policy files for its parameters"

    def _unit(self, policy: Policy, binding: Binding, params: Parameters | None) -> BoundPolicy:
        key = (id(policy), id(binding), id(params))
        unit = self._units.get(key)
        if unit is None:
            unit = BoundPolicy(
                number=len(self._units), policy=policy, binding=binding, params=params, programs=self.programs
            )
            self._units[key] = unit
        return unit

    def _not_passing(self, units: tuple[BoundPolicy, ...], request: AdmissionRequest) -> Iterator[BoundPolicy]:
        """Yield the policies of the groups that do not pass: at least one of each group reports something."""
        groups, reads = self._in_groups(units)
        values = activation(_values(units, request, reads))  # the object is converted once for all programs
        for group, program in groups:
            if program is None or not _passes(program, values):
                yield from group

    def _in_groups(self, units: tuple[BoundPolicy, ...]) -> tuple[tuple[_Group, ...], frozenset[str]]:
        """Return the policies in groups, and the variables that the programs of these groups may read."""
        key = tuple(unit.number for unit in units)
        known = self._groups.get(key)
        if known is None:
            groups = tuple(_grouped(units, self.programs))
            reads = frozenset().union(*(program.reads for _, program in groups if program is not None))
            known = self._groups[key] = groups, reads
        return known


def _kind(manifest: Manifest, old: Mapping[str, Any] | None) -> _Kind:
    return (manifest.body["apiVersion"], manifest.key.kind, old is None, bool(manifest.key.namespace))


def _grouped(units: tuple[BoundPolicy, ...], programs: ProgramCache) -> Iterator[_Group]:
    """Yield all policies as one group, or as smaller ones where the expression would be too long or too deep."""
    program = _combined(units, programs)
    if program is not None or len(units) == 1:
        yield units, program
        return
    middle = len(units) // 2
    yield from _grouped(units[:middle], programs)
    yield from _grouped(units[middle:], programs)


def _combined(units: tuple[BoundPolicy, ...], programs: ProgramCache) -> CelProgram | None:
    if not all(unit.combinable for unit in units):
        return None
    try:
        return programs.compose([unit.passes for unit in units])
    except RuntimeError:
        return None


def _passes(program: CelProgram, values: Any) -> bool:
    try:
        return program.evaluate(values) is True
    except EvaluationError:
        return False


def _may_match(bound: _Pair, resource: Resource) -> bool:
    policy, binding = bound
    return may_match(policy.match, resource) and (binding.match is None or may_match(binding.match, resource))


def _varies(bound: _Pair) -> bool:
    policy, binding = bound
    floating = binding.ref is not None and not binding.ref.namespace
    return (
        floating or depends_on_object(policy.match) or (binding.match is not None and depends_on_object(binding.match))
    )


def _all(policy: Match, binding: Match | None, request: AdmissionRequest) -> bool | str:
    answer = matches(policy, request)
    narrowed = True if binding is None or answer is False else matches(binding, request)
    return narrowed if answer is True or narrowed is False else answer


def _request(
    manifest: Manifest, resource: Resource, old: Mapping[str, Any] | None, namespace: Mapping[str, Any] | None
) -> AdmissionRequest:
    return AdmissionRequest(
        resource=resource,
        name=manifest.key.name,
        namespace=manifest.key.namespace,
        body=manifest.body,
        old=old,
        namespace_object=namespace,
    )


def _values(units: tuple[BoundPolicy, ...], request: AdmissionRequest, reads: frozenset[str] | None) -> dict[str, Any]:
    """Return the variables of expressions by name; with `reads`, only those they read."""
    values: dict[str, Any] = {"object": request.body}
    if reads is None or "oldObject" in reads:
        values["oldObject"] = request.old
    if reads is None or "request" in reads:
        values["request"] = _review(request)
    if (reads is None or "namespaceObject" in reads) and (request.namespace_object or not request.namespace):
        values["namespaceObject"] = _namespace(request)
    for unit in units:
        for _, name in unit.renamed:
            values[name] = unit.params.body if unit.params else None
    return values


def _review(request: AdmissionRequest) -> dict[str, Any]:
    """Return the `request` variable as an API server sets it, without empty optional fields."""
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


def _namespace(request: AdmissionRequest) -> dict[str, Any] | None:
    namespace = request.namespace_object
    if namespace is None or not request.namespace:
        return None
    metadata = {**namespace.get("metadata", {}), "labels": {**labels(namespace), NAME_LABEL: request.namespace}}
    return {**namespace, "metadata": metadata}


def _verdict(policy: Policy, outcome: PolicyOutcome, manifest: Manifest) -> Verdict:
    path = _field(policy, manifest.body) if outcome.evaluated else ()
    return Verdict(
        rule=policy.rule,
        result=outcome.result,
        cluster=manifest.cluster,
        key=manifest.key,
        place=_place(manifest, path),
        message=" ".join(outcome.message.split()),
        hint=policy.hint if outcome.evaluated else outcome.hint,
        field=".".join(path),
    )


def _field(policy: Policy, body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the first of the policy's fields that the object has."""
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
