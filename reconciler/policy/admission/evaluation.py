"""Evaluate admission policies on manifests: `PolicySet`.

The variables of policies are evaluated once for each object, also those that several policies share.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.cel import Activation, CelError, LiveMap, Program
from reconciler.kube.objects import SourceRef, split_api_version
from reconciler.kube.secrets import mask_text
from reconciler.policy.admission.matching import (
    NAME_LABEL,
    AdmissionRequest,
    RequestOperation,
    Resource,
    depends_on_object,
    labels,
    matches,
    may_match,
    seen_version,
    selects,
    takes,
)
from reconciler.policy.admission.mutating import HINT, may_change
from reconciler.policy.admission.policies import Binding, Match, Parameters, Policy, Validation
from reconciler.policy.admission.programs import PolicyPrograms, Programs
from reconciler.policy.admission.server import ServerView
from reconciler.policy.verdict import Result, Verdict

# Evaluate one policy with one binding and one parameter object: `BoundPolicy`.


_MAX_MESSAGE_BYTES = 5 * 1024
"""An API server ignores a longer result of a messageExpression (k8s.io/apiserver/pkg/apis/cel)."""

_MAX_AUDIT_BYTES = 10 * 1024
"""An API server cuts off the rest of a longer audit annotation."""


_BUDGET, _CONDITIONS_BUDGET = 10_000_000, 2_500_000
"""The most steps of the validations of a policy, of its annotations, and of its match conditions."""

_OUT_OF_BUDGET = CelError("the expressions of the policy take too many steps together")


class PolicyOutcome(NamedTuple):
    """The report of one expression of a policy; `evaluated` is False if it could not be evaluated."""

    result: Result
    message: str
    hint: str = ""
    evaluated: bool = True


class BoundPolicy:
    """A policy with one binding and one parameter object; `params` is None if the policy gets null."""

    def __init__(
        self, *, number: int, policy: Policy, binding: Binding, params: Parameters | None, programs: Programs
    ) -> None:
        self.number = number
        self.policy = policy
        self.binding = binding
        self.params = params
        self._all = programs

    @cached_property
    def _programs(self) -> PolicyPrograms:
        return self._all.of(self.policy)

    def outcomes(self, values: Activation) -> list[PolicyOutcome]:
        """Evaluate match conditions, validations and audit annotations: an outcome for each that does not pass."""
        values.bind(self.number, self.params.body if self.params else None)
        applies = self._applies(values)
        if applies is False:
            return []
        if self.policy.mutates:
            return [PolicyOutcome(self._denial, may_change(self.policy), HINT, evaluated=False)]
        if applies is not True:
            return [applies]
        found = self._validations(values)
        return [*found, *self._audits(values)] if self.policy.annotations else found

    def _validations(self, activation: Activation) -> list[PolicyOutcome]:
        """Evaluate validations. Where they take too many steps together, that is all that is said."""
        activation.spent = 0
        found = []
        parts = zip(self.policy.validations, self._programs.validations, self._programs.messages, strict=True)
        for validation, program, message in parts:
            try:
                if _evaluate(program, activation) is not True:
                    found.append(PolicyOutcome(self._denial, _message(validation, message, activation)))
            except CelError as error:
                found.append(self._failure(error, validation.expression))
            if activation.spent > _BUDGET:
                return [self._failure(_OUT_OF_BUDGET, validation.expression)]
        return found

    @property
    def _denial(self) -> Result:
        return next(result for result in Result if result.value in (*self.binding.actions, "audit"))

    def _applies(self, activation: Activation) -> bool | PolicyOutcome:
        """Return whether all match conditions are true. A false one decides even if another one fails."""
        failure: PolicyOutcome | None = None
        for condition, program in zip(self.policy.conditions, self._programs.conditions, strict=True):
            try:
                if _evaluate(program, activation, shared=True) is not True:
                    return False
            except CelError as error:  # a later condition may be false
                failure = failure or self._failure(error, condition.text)
            if activation.spent > _CONDITIONS_BUDGET:
                return self._failure(_OUT_OF_BUDGET, condition.text)
        return failure or True

    def _audits(self, activation: Activation) -> Iterator[PolicyOutcome]:
        activation.spent = 0
        for annotation, program in zip(self.policy.annotations, self._programs.annotations, strict=True):
            if activation.spent > _BUDGET:
                yield self._failure(_OUT_OF_BUDGET, annotation.text)
                return
            try:
                value = _evaluate(program, activation)
            except CelError as error:
                yield self._failure(error, annotation.text)
                continue
            if isinstance(value, str) and value.strip():
                text = value.strip().encode()[:_MAX_AUDIT_BYTES].decode(errors="ignore")
                yield PolicyOutcome(Result.AUDIT, f"{annotation.name}: {text}")

    def _failure(self, error: CelError, expression: str) -> PolicyOutcome:
        shown = " ".join(expression.split())
        shown = shown if len(shown) <= 80 else f"{shown[:77]}..."  # noqa: PLR2004 - one line of output
        hint = "check optional fields with has() or .?field before reading them"
        if error.unanswerable == "namespaceObject":
            hint = "add the Namespace object to the repository"
        elif error.unanswerable == "request.userInfo":
            hint = "name the user who applies the objects: spec.clusters[].appliedBy in reconciler.yaml"
        elif error.unanswerable.startswith("authorizer"):
            hint = "only the API server knows permissions: bind this rule there, or compare request.userInfo instead"
        elif error.unanswerable:
            hint = "only the API server can evaluate this rule: bind it there, or do not use that value"
        # With `failurePolicy: Ignore` the API server admits the object, so the failure does not block a commit. A value
        # that only the server knows might still deny it.
        result = Result.WARN if self.policy.ignores_failure and not error.unanswerable else Result.ERROR
        return PolicyOutcome(result, f"not evaluated: {error} in `{shown}`", hint, evaluated=False)


def _evaluate(program: Program | CelError, activation: Activation, *, shared: bool = False) -> Any:
    """Return a value; of a `shared` expression, which policies have in common, it is remembered."""
    if isinstance(program, CelError):
        raise program
    return program.value(activation) if shared else program.evaluate(activation)


def _message(validation: Validation, program: Program | None, activation: Activation) -> str:
    """Return the result of the messageExpression, or like the API server what stands in for it."""
    text = ""
    if program is not None:
        try:
            value = program.evaluate(activation)
        except CelError:
            value = ""
        text = value.strip() if isinstance(value, str) else ""
        if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES:
            text = ""
    return text or validation.message.strip() or f"failed expression: {' '.join(validation.expression.split())}"


_Kind = tuple[str, str, RequestOperation, bool]

_Pair = tuple[Policy, Binding]

_UNKNOWN = {"namespaceObject": "the Namespace object is not in the repository"}

_LIVE = {field: f"request.{field}" for field in ("userInfo", "options")}
"""What only a live API server knows."""

_LIVE_USER = {field: f"request.userInfo.{field}" for field in ("uid", "extra")}

_OWN_GROUP = "gpureconciler.io"


class Subject(NamedTuple):
    """The subject of an evaluation: a request for an object.

    The object replaces `old` (None: it is created), or is deleted. namespace: its Namespace, if known. wrapped: the
    objects that its controller creates, each with its field.
    """

    manifest: Manifest
    old: Mapping[str, Any] | None
    namespace: Mapping[str, Any] | None
    deletes: bool = False
    wrapped: "tuple[tuple[str, Subject], ...]" = ()

    @property
    def operation(self) -> RequestOperation:
        """The operation of the request."""
        if self.deletes:
            return RequestOperation.DELETE
        return RequestOperation.CREATE if self.old is None else RequestOperation.UPDATE


class PolicySet:
    """Policies and their bindings, indexed by kind. They see each object as the `server` would hand it to them.

    `shipped_programs` are those of `shipped`, the same for all repositories; `programs` are those of `own`.
    """

    def __init__(
        self,
        *,
        bound: Sequence[_Pair],
        parameters: Sequence[Parameters],
        digest: str,
        programs: Programs | None = None,
        shipped_programs: Programs | None = None,
        server: ServerView | None = None,
    ) -> None:
        self.digest = digest
        self.programs = programs or Programs()
        self.shipped_programs = shipped_programs or Programs()
        self.bound = tuple(bound)
        self.server = server or ServerView()
        self.parameters = tuple(parameters)
        self._units: dict[tuple[int, int, int], BoundPolicy] = {}
        self._by_kind: dict[_Kind, tuple[Resource, tuple[_Pair, ...], bool]] = {}
        self._units_of_kind: dict[_Kind, tuple[tuple[str, BoundPolicy], ...]] = {}

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the enabled policies."""
        return tuple(sorted({policy.rule for policy, _ in self.bound}))

    @cached_property
    def shipped(self) -> "PolicySet":
        """The policies that come with this program, with their own bindings."""
        return self._part([pair for pair in self.bound if _is_shipped(pair)])

    @cached_property
    def own(self) -> "PolicySet":
        """The policies and bindings of the repository."""
        return self._part([pair for pair in self.bound if not _is_shipped(pair)])

    @cached_property
    def about_plans(self) -> "PolicySet":
        """The policies that name our own group, which has no rendered objects: they look at the plan as a whole."""
        return self._part([pair for pair in self.bound if any(_OWN_GROUP in one.groups for one in pair[0].match.rules)])

    @cached_property
    def about_deletions(self) -> "PolicySet":
        """The policies whose operations include DELETE."""
        return self._part([pair for pair in self.bound if takes(pair[0].match, RequestOperation.DELETE)])

    def without(self, rules: Collection[str]) -> "PolicySet":
        """Return the other policies."""
        return self._part([pair for pair in self.bound if pair[0].rule not in rules]) if rules else self

    def only(self, rule: str) -> "PolicySet":
        """Return one policy with all its bindings."""
        return self._part([pair for pair in self.bound if pair[0].rule == rule])

    def _part(self, bound: Sequence[_Pair]) -> "PolicySet":
        if len(bound) == len(self.bound):
            return self
        return PolicySet(
            bound=bound,
            parameters=self.parameters,
            digest=self.digest,
            programs=self.programs,
            shipped_programs=self.shipped_programs,
            server=self.server,
        )

    def may_match(self, subject: Subject) -> bool:
        """Return whether any policy is about such requests for objects of this kind."""
        return bool(self._candidates(_kind(subject))[1])

    def matches(self, subject: Subject) -> bool:
        """Return whether any policy is about a request, or an object that it wraps."""
        return bool(self.unevaluated(subject, message="", hint="")) or any(
            self.matches(inner) for _, inner in subject.wrapped
        )

    def unevaluated(self, subject: Subject, *, message: str, hint: str) -> tuple[Verdict, ...]:
        """Return an error for each policy that matches. `failurePolicy` is about an API server, not about this."""
        resource, candidates, _ = self._candidates(_kind(subject))
        request = _request(subject, resource)
        outcome = PolicyOutcome(Result.ERROR, f"not evaluated: {message}", hint, evaluated=False)
        matching = (policy for policy, binding in candidates if _all(policy.match, binding.match, request) is not False)
        return tuple(dict.fromkeys(_verdict(policy, outcome, subject) for policy in matching))

    def evaluate(self, subject: Subject) -> tuple[Verdict, ...]:
        """Return the verdicts on a request."""
        kind = _kind(subject)
        units = self._units_of_kind.get(kind)
        verdicts: list[Verdict] = []
        request: AdmissionRequest | None = None
        if units is None:
            resource, candidates, varying = self._candidates(kind)
            request = _request(subject, resource)
            units = tuple(self._matching(candidates, request, subject, verdicts))
            if not varying and not verdicts:
                self._units_of_kind[kind] = units
        if units:
            request = request or _request(subject, self._candidates(kind)[0])
            values: dict[str, Activation] = {}
            for version, unit in units:
                if version not in values:
                    values[version] = _activation(request, self.server, subject.manifest.cluster, version)
                verdicts.extend(_verdict(unit.policy, outcome, subject) for outcome in unit.outcomes(values[version]))
        return tuple(sorted(dict.fromkeys(verdicts), key=lambda verdict: verdict.sort_key)) if verdicts else ()

    def _candidates(self, kind: _Kind) -> tuple[Resource, tuple[_Pair, ...], bool]:
        """Return the resource, the policies that may match it, and whether that depends on the object."""
        candidates = self._by_kind.get(kind)
        if candidates is None:
            group, version = split_api_version(kind[0])
            served = self.server.resource(group, kind[1])
            # A Namespace is cluster-scoped, although its request has a namespace.
            resource = Resource(
                group=group, version=version, kind=kind[1], operation=kind[2],
                namespaced=kind[3] and (group, kind[1]) != ("", "Namespace"),
                plural=served.plural if served else "", versions=(served.versions or None) if served else None,
            )  # fmt: skip
            bound = () if resource.exempt else tuple(pair for pair in self.bound if _may_match(pair, resource))
            candidates = (resource, bound, any(_varies(pair) for pair in bound))
            self._by_kind[kind] = candidates
        return candidates

    def _matching(
        self, candidates: tuple[_Pair, ...], request: AdmissionRequest, subject: Subject, verdicts: list[Verdict]
    ) -> list[tuple[str, BoundPolicy]]:
        """Return the policies that match this object, with the versions they see; a verdict tells what is unknown."""
        units: list[tuple[str, BoundPolicy]] = []
        for policy, binding in candidates:
            answer = _all(policy.match, binding.match, request)
            if answer is False:
                continue
            params = self._params(policy, binding, request.namespace) if answer is True else answer
            if isinstance(params, str):
                outcome = PolicyOutcome(Result.ERROR, f"not evaluated: {params}", evaluated=False)
                if policy.mutates:
                    outcome = PolicyOutcome(Result.WARN, may_change(policy), HINT, evaluated=False)
                verdicts.append(_verdict(policy, outcome, subject))
            else:
                version = seen_version(policy.match, request)
                units.extend((version, self._unit(policy, binding, item)) for item in params)
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
            programs = self.shipped_programs if _is_shipped((policy, binding)) else self.programs
            unit = BoundPolicy(
                number=len(self._units), policy=policy, binding=binding, params=params, programs=programs
            )
            self._units[key] = unit
        return unit


def _is_shipped(bound: _Pair) -> bool:
    return all(one.is_shipped for one in bound)


def _kind(subject: Subject) -> _Kind:
    manifest = subject.manifest
    return (manifest.body["apiVersion"], manifest.key.kind, subject.operation, bool(manifest.key.namespace))


def _may_match(bound: _Pair, resource: Resource) -> bool:
    policy, binding = bound
    if policy.mutates and resource.operation is RequestOperation.DELETE:
        return False
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


def _request(subject: Subject, resource: Resource) -> AdmissionRequest:
    manifest = subject.manifest
    return AdmissionRequest(
        resource=resource,
        name=manifest.key.name,
        namespace=manifest.key.namespace,
        body=None if subject.deletes else manifest.body,
        old=manifest.body if subject.deletes else subject.old,
        namespace_object=subject.namespace,
    )


def _activation(request: AdmissionRequest, server: ServerView, cluster: str, version: str) -> Activation:
    """Return the variables of expressions of policies that see a version of the object."""
    old = None if request.old is None else server.converted(request.old, version)
    new = None if request.body is None else server.converted(request.body, version)
    values = {"object": new, "oldObject": old, "request": _review(request, server.user_info(cluster), version)}
    if request.namespace_object or not request.namespace:
        values["namespaceObject"] = _namespace(request)
    return Activation(values, _UNKNOWN)


def _review(request: AdmissionRequest, user: Mapping[str, Any] | None, version: str) -> LiveMap:
    """Return the `request` variable as an API server sets it, without empty optional fields."""
    resource = request.resource
    kind = {"group": resource.group, "version": version, "kind": resource.kind}
    review: dict[str, Any] = {
        "kind": kind,
        "resource": _plural(resource, version),
        "requestKind": {**kind, "version": resource.version},
        "requestResource": _plural(resource, resource.version),
        "name": request.name,
        "operation": resource.operation.value,
        "dryRun": False,
    }
    namespace = request.name if (resource.group, resource.kind) == ("", "Namespace") else request.namespace
    if namespace:
        review["namespace"] = namespace
    if user is None:
        return LiveMap(review, _LIVE)
    return LiveMap({**review, "userInfo": LiveMap(user, _LIVE_USER)}, {"options": _LIVE["options"]})


def _plural(resource: Resource, version: str) -> Mapping[str, Any]:
    found = {"group": resource.group, "version": version, "resource": resource.plural}
    return found if resource.plural else LiveMap(found, {"resource": "request.resource.resource"})


def _namespace(request: AdmissionRequest) -> dict[str, Any] | None:
    namespace = request.namespace_object
    if namespace is None or not request.namespace:
        return None
    metadata = {**namespace.get("metadata", {}), "labels": {**labels(namespace), NAME_LABEL: request.namespace}}
    made = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return {**made, **namespace, "metadata": metadata}


def _verdict(policy: Policy, outcome: PolicyOutcome, subject: Subject) -> Verdict:
    manifest = subject.manifest
    path = _field(policy, manifest.body) if outcome.evaluated else ()
    return Verdict(
        rule=policy.rule,
        result=outcome.result,
        cluster=manifest.cluster,
        key=manifest.key,
        place=_place(manifest, path),
        message=" ".join(("deletion:" if subject.deletes else "", *outcome.message.split())).lstrip(),
        hint=policy.hint if outcome.evaluated else outcome.hint,
        field=".".join(path),
        labels=tuple((name, mask_text(value)) for name, value in labels(manifest.body).items()),
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
