"""`Catalogue`: all known kinds, and the validation of objects as a strict API server does it."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import jsonschema_rs
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import FieldPath, split_api_version
from reconciler.kube.patterns import is_kind
from reconciler.kube.problems import Problem, Severity, Violation
from reconciler.kube.schemas import messages
from reconciler.kube.schemas.builtin.validators import builtin_violations
from reconciler.kube.schemas.metadata import metadata_violations
from reconciler.kube.schemas.rules.kind import KindRules, RuleAllowance
from reconciler.kube.schemas.schema import (
    KeyedLists,
    Schema,
    at,
    find_duplicates,
    has_duplicates,
    has_rules,
    keyed_lists,
)
from reconciler.kube.schemas.sources import Archive, Bundle, CustomKind, Served, metadata_only, parse_definition
from reconciler.kube.schemas.stored import Defaults, as_stored, has_null, with_defaults, with_zeros, without_added
from reconciler.kube.values import value_at
from reconciler.kube.yaml import Document

# Pod templates in objects of operators, of which a controller makes pods that an API server validates then.
# The definitions of these kinds declare the fields of a pod, and not its rules.


Data = dict[str, Any]

_RAY = ("RayCluster", ""), ("RayJob", "rayClusterSpec."), ("RayService", "rayClusterConfig.")

_RUNTIME = "spec.template.spec.replicatedJobs.[].template.spec.template"

_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("jobset.x-k8s.io", "JobSet"): ("spec.replicatedJobs.[].template.spec.template",),
    ("trainer.kubeflow.org", "TrainingRuntime"): (_RUNTIME,),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): (_RUNTIME,),
    **{
        ("ray.io", kind): (f"spec.{prefix}headGroupSpec.template", f"spec.{prefix}workerGroupSpecs.[].template")
        for kind, prefix in (*_RAY, ("RayCronJob", "jobTemplate.rayClusterSpec."))
    },
}
"""Where kinds have templates whose pods have what is written there."""

_COMPLETED = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})  # a TrainJob may bring the image


def created_pods(data: Data, group: str, kind: str) -> Iterator[tuple[FieldPath, Data]]:
    """Yield the pods that a controller makes of an object, with the place of the template of each."""
    for path in _TEMPLATES.get((group, kind), ()):
        for place, template in _at(data, tuple(path.split(".")), ()):
            metadata = {**(template.get("metadata") or {}), "name": "pod", "namespace": "default"}
            yield place, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}


def of_template(found: Violation, kind: str, place: FieldPath) -> Violation | None:
    """Return what is wrong with a pod as a warning of its template; None if the template is not to blame."""
    if kind in _COMPLETED and found.rule == "schema.missing-field" and found.path[-1:] == ("image",):
        return None
    if found.rule == messages.UNKNOWN_FIELD:  # the definition of the kind decides which fields reach the pod
        return None
    message = f"{found.message}, so that no pod can be created"
    return replace(found, path=(*place, *found.path), message=message, severity=Severity.WARNING)


def _at(node: Any, path: tuple[str, ...], place: FieldPath) -> Iterator[tuple[FieldPath, Data]]:
    if not path:
        if type(node) is dict:
            yield place, node
    elif path[0] == "[]":
        for index, item in enumerate(node if type(node) is list else ()):
            yield from _at(item, path[1:], (*place, index))
    elif type(node) is dict:
        yield from _at(node.get(path[0]), path[1:], (*place, path[0]))


_OWN = ("gpureconciler.io", "torchrun.ai", "kaiwo.silogen.ai", "config.kaiwo.silogen.ai", "agentaflow.io")
OWN_GROUPS = dict(zip(_OWN, range(len(_OWN)), strict=True))
"""Groups of our own kinds, which are never sent to a server, with their places in lists."""

ADD_DEFINITION = "add its CustomResourceDefinition to the repository, or run `reconciler observe`"


SOPS = "sops"
"""The field of an encrypted file, which Flux decrypts before it applies it: github.com/getsops/sops."""


def _is_encrypted(body: Data, path: FieldPath) -> bool:
    """Return whether a violation is about what SOPS wrote: a value that nobody reads here, or its own field."""
    if path == (SOPS,):
        written = body[SOPS]
        return isinstance(written, dict) and "mac" in written
    value = value_at(body, path)
    return isinstance(value, str) and value.startswith("ENC[")


class KindName(Struct, frozen=True, kw_only=True):
    """A kind at a version."""

    group: str
    version: str
    kind: str


class Unusable(Struct, frozen=True):
    """The engine's reason to refuse a schema, which happens only for a definition from the repository."""

    reason: str


class CompiledKind:
    """The schema of one kind, compiled on first use. `allowance` is what the rules of a repository share."""

    def __init__(
        self,
        name: KindName,
        schema: Schema,
        *,
        namespaced: bool | None,
        allowance: RuleAllowance | None = None,
        owner: str = "",
    ) -> None:
        self.name, self.schema, self.namespaced = name, schema, namespaced
        self.owner = owner
        """The project that defines a kind, in the version that ships: clusters may run another one. Else empty."""
        self._allowance = allowance

    @cached_property
    def engine(self) -> Any:
        """The validator of objects; Unusable if the schema is wrong."""
        options = jsonschema_rs.RegexOptions()  # linear in time: a pattern may come from the repository
        try:
            return jsonschema_rs.Draft202012Validator(self.schema, pattern_options=options, validate_formats=True)
        except ValueError as error:
            return Unusable(str(error).partition("\n")[0])

    @cached_property
    def rules(self) -> KindRules | None:
        """The rules in CEL; None without any."""
        if not has_rules(self.schema):
            return None
        return KindRules(self.schema, allowance=self._allowance)

    @cached_property
    def lists(self) -> KeyedLists:
        """Its lists with keys."""
        return keyed_lists(self.schema)

    @cached_property
    def defaults(self) -> Defaults:
        """The defaults that a server adds to objects."""
        return Defaults(self.schema, self.schema)


_POD = KindName(group="", version="v1", kind="Pod")


class Catalogue:
    """Kinds by group, from the shipped schemas and from CustomResourceDefinitions of the repository.

    Schemas are loaded and compiled on first use. A catalogue with more definitions shares the compiled shipped kinds.
    """

    def __init__(
        self,
        source: Bundle | Archive,
        custom: Mapping[str, Mapping[str, CustomKind]] | None = None,
        shipped: dict[KindName, CompiledKind] | None = None,
        external: frozenset[str] = frozenset(),
    ) -> None:
        self._archive = source if isinstance(source, Archive) else Archive(source)
        self._custom = custom or {}
        self._external = external
        self._shipped: dict[KindName, CompiledKind] = {} if shipped is None else shipped
        self._compiled: dict[KindName, CompiledKind] = {}  # of definitions
        self._allowance = RuleAllowance()  # of their rules
        self._by_type: dict[tuple[str, str], CompiledKind] = {}  # by apiVersion and kind
        self._metadata_only: dict[KindName, CompiledKind] = {}
        self._kinds_by_group: dict[str, dict[str, Served] | None] = {}

    @property
    def archive(self) -> Archive:
        """The shipped schemas."""
        return self._archive

    # --- lookups ------------------------------------------------------------------------------------------

    def with_crds(self, documents: Iterable[Document]) -> "Catalogue":
        """Return a catalogue that also knows the kinds of these CustomResourceDefinitions.

        They take precedence over shipped kinds, because they are what the repository's clusters run. Documents of
        other kinds and definitions without a usable schema are ignored; `validate` reports the latter.
        """
        return self.with_definitions(document.data for document in documents)

    def with_definitions(self, definitions: Iterable[dict[str, Any]]) -> "Catalogue":
        """Do the same for CustomResourceDefinitions as plain data."""
        custom = {group: dict(kinds) for group, kinds in self._custom.items()}
        for definition in definitions:
            kind = parse_definition(definition, self._configmap)
            if kind is not None:
                custom.setdefault(kind.group, {})[kind.kind] = kind
        return Catalogue(self._archive, custom, self._shipped, self._external)

    def with_external(self, names: Iterable[str]) -> "Catalogue":
        """Return a catalogue for clusters that have these CustomResourceDefinitions, at versions that nobody says.

        Of their kinds only metadata is validated, unless the repository has the definition.
        """
        return Catalogue(self._archive, self._custom, self._shipped, self._external | frozenset(names))

    def _is_external(self, group: str, kind: str) -> bool:
        served = self.served(group, kind) if self._external else None
        return (
            served is not None
            and f"{served.plural}.{group}" in self._external
            and kind not in self._custom.get(group, {})
        )

    def _configmap(self) -> Schema:
        return self._archive.load("", "ConfigMap", "v1")

    def _kinds(self, group: str) -> dict[str, Served] | None:
        if group not in self._kinds_by_group:
            shipped, custom = self._archive.kinds(group), self._custom.get(group)
            kinds = dict(shipped or {}) | {name: kind.served for name, kind in (custom or {}).items()}
            self._kinds_by_group[group] = None if shipped is None and custom is None else kinds
        return self._kinds_by_group[group]

    def served(self, group: str, kind: str) -> Served | None:
        """Return the served form of a kind, or None if it is unknown."""
        return (self._kinds(group) or {}).get(kind)

    def defines(self, group: str, kind: str) -> bool:
        """Return whether a CustomResourceDefinition that was added defines a kind."""
        return kind in self._custom.get(group, {})

    def resource(self, group: str, kind: str) -> Served | None:
        """Return how a kind is served, without versions if its schema is unknown; None if its name in URLs is, too."""
        return self.served(group, kind) or self._archive.resource(group, kind)

    def is_namespaced(self, group: str, kind: str) -> bool | None:
        """Return whether a kind is namespaced; None if the kind is unknown."""
        served = self.served(group, kind)
        return None if served is None else served.namespaced

    def list_keys(self, group: str, kind: str, path: FieldPath) -> tuple[str, ...] | None:
        """Return the keys of the list at `path`, or None if it is not a list with keys."""
        schema = self._at(group, kind, path)
        if schema is None or schema.get("x-kubernetes-list-type") != "map":
            return None
        return tuple(schema["x-kubernetes-list-map-keys"])

    def is_quantity(self, group: str, kind: str, path: FieldPath) -> bool:
        """Return whether the value at `path` is a quantity, so that 1Gi equals 1024Mi."""
        schema = self._at(group, kind, path)
        return schema is not None and schema.get("format") == "quantity"

    def _at(self, group: str, kind: str, path: FieldPath) -> Schema | None:
        served = self.served(group, kind)
        if served is None:
            return None
        name = KindName(group=group, version=served.versions[0], kind=kind)
        return at(self._compile(name, namespaced=served.namespaced).schema, path)

    def json_schema(self, kind: str) -> Schema | None:
        """Return the JSON Schema of `Kind` or `Kind.group`, or None if the kind is unknown."""
        name, _, group = kind.partition(".")
        for candidate in [group] if group else self._groups():
            served = self.served(candidate, name)
            if served is not None:
                known = KindName(group=candidate, version=served.versions[0], kind=name)
                return self._compile(known, namespaced=served.namespaced).schema
        return None

    def _groups(self) -> list[str]:
        """All groups, our own first."""
        return sorted(
            {*self._archive.groups(), *self._custom}, key=lambda group: (OWN_GROUPS.get(group, len(_OWN)), group)
        )

    def kinds(self) -> Iterator[KindName]:
        """Yield every known kind at its preferred version, our own first."""
        for group in self._groups():
            for kind, served in sorted((self._kinds(group) or {}).items()):
                yield KindName(group=group, version=served.versions[0], kind=kind)

    def _compile(self, name: KindName, *, namespaced: bool) -> CompiledKind:
        custom = self._custom.get(name.group, {}).get(name.kind)
        known = self._shipped if custom is None else self._compiled
        compiled = known.get(name)
        if compiled is None:
            if custom is not None:
                schema, allowance, owner = custom.schemas[name.version], self._allowance, ""
            else:
                schema, allowance = self._archive.load(name.group, name.kind, name.version), None
                owner = self._archive.owner(name.group, name.kind)
            compiled = known[name] = CompiledKind(name, schema, namespaced=namespaced, allowance=allowance, owner=owner)
        return compiled

    def stored(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an object as an API server hands it to admission; objects of our own kinds are what they are."""
        group, version = split_api_version(str(body.get("apiVersion", "")))
        kind = str(body.get("kind", ""))
        form = self._archive.forms.get(f"{body.get('apiVersion')}/{kind}")
        is_built_in = form is not None and kind not in self._custom.get(group, {})
        if form is not None and is_built_in and not has_null(body):
            return as_stored(body, form, has_nulls=False)
        served = None if group in OWN_GROUPS or self._is_external(group, kind) else self.served(group, kind)
        if served is None or version not in served.versions:
            return body
        compiled = self._compile(KindName(group=group, version=version, kind=kind), namespaced=served.namespaced)
        if form is not None and is_built_in:
            return as_stored(with_zeros(body, compiled.schema, compiled.schema), form, has_nulls=True)
        found: Mapping[str, Any] = with_defaults(body, compiled.defaults)
        return found

    def without_defaults(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return an object without the fields that an API server adds again with the same value."""
        return without_added(body, self.stored)

    def transitions(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Violation, ...]:
        """Return what the rules of a definition refuse in the change of an object.

        Nothing is known of a change of versions, which a server converts. A status that Git does not have stays.
        """
        rules = self._rules(after) if before.get("apiVersion") == after.get("apiVersion") else None
        if rules is None:
            return ()
        kept = {"status": before["status"]} if "status" in before else {}
        return tuple(rules.transitions({**kept, **after}, before))

    def initial(self, body: Mapping[str, Any]) -> tuple[Violation, ...]:
        """Return what rules about the value before a change (`optionalOldSelf`) refuse in an object that is created."""
        rules = self._rules(body)
        return tuple(rules.transitions(body, None)) if rules is not None and rules.about_creations else ()

    def judges_creations(self, group: str, kind: str) -> bool:
        """Return whether `initial` may refuse anything in objects of a kind."""
        served = self.served(group, kind)
        bodies = ({"apiVersion": f"{group}/{version}", "kind": kind} for version in (served.versions if served else ()))
        return any(rules is not None and rules.about_creations for rules in map(self._rules, bodies))

    def _rules(self, body: Mapping[str, Any]) -> KindRules | None:
        group, version = split_api_version(str(body.get("apiVersion", "")))
        kind = str(body.get("kind", ""))
        served = self.served(group, kind)
        if served is None or version not in served.versions:
            return None
        return self._compile(KindName(group=group, version=version, kind=kind), namespaced=served.namespaced).rules

    # --- validation ------------------------------------------------------------------------------------------

    def validate(self, document: Document, path: FieldPath = ()) -> tuple[Problem, ...]:
        """Return everything that a strict API server would refuse in a document, or in the object at a path in it."""
        body = value_at(document.data, path)
        found = list(self.violations(body))
        if SOPS in body:
            found = [violation for violation in found if not _is_encrypted(body, violation.path)]
        if path:
            found = [replace(violation, path=(*path, *violation.path)) for violation in found]
        if document.ambiguous or found:
            api_version, kind = str(body.get("apiVersion")), str(body.get("kind"))
            group, version = split_api_version(api_version)
            name = KindName(group=group, version=version, kind=kind)
            compiled = self._by_type.get((api_version, kind)) or self._metadata_only.get(name)
            if compiled is not None:
                found = messages.explain_scalars(document, compiled.schema, found, path)
        return document.problems(found)

    def violations(self, data: dict[str, Any]) -> Iterator[Violation]:
        """Yield everything in an object that a strict API server would refuse."""
        api_version, kind = data.get("apiVersion"), data.get("kind")
        if not (isinstance(api_version, str) and api_version and isinstance(kind, str) and kind):
            yield from _without_type(data)
            return
        compiled = self._by_type.get((api_version, kind))
        if compiled is not None:
            yield from self._validate(compiled, data)
            return
        group, version = split_api_version(api_version)
        kinds = self._kinds(group)
        name = KindName(group=group, version=version, kind=kind)
        if kinds is None and not is_kind(kind):
            message, hint = f"{messages.format_value(kind)} is not a valid kind", "use letters and digits only"
            yield messages.bad_value(("kind",), message, hint)
        elif kinds is None:
            yield self._unknown_group(group, kind)
            yield from self._validate(self._compile_metadata(name, namespaced=None), data)
        elif kind not in kinds:
            unknown = self._unknown_kind(api_version, kind, kinds)
            yield unknown
            if unknown.severity is Severity.WARNING:
                yield from self._validate(self._compile_metadata(name, namespaced=None), data)
        elif self._is_external(group, kind):
            yield Violation(
                rule="schema.external",
                path=("apiVersion",),
                message=f"{kind} is defined only in the cluster, so only metadata is validated",
                hint=ADD_DEFINITION,
                severity=Severity.WARNING,
            )
            yield from self._validate(self._compile_metadata(name, namespaced=kinds[kind].namespaced), data)
        elif version not in kinds[kind].versions:
            versions = [f"{group}/{served}" if group else served for served in kinds[kind].versions]
            yield Violation(
                rule="schema.unknown-version",
                path=("apiVersion",),
                message=f"{kind} is not available in {api_version}",
                hint=f"use {' or '.join(versions)}{self._or_observe(group, kind)}",
            )
        else:
            compiled = self._compile(name, namespaced=kinds[kind].namespaced)
            self._by_type[api_version, kind] = compiled
            yield from self._validate(compiled, data)

    def _or_observe(self, group: str, kind: str) -> str:
        is_shipped = kind not in self._custom.get(group, {})
        return f", or {messages.OBSERVE}" if is_shipped and self._archive.owner(group, kind) else ""

    def _validate(self, compiled: CompiledKind, data: dict[str, Any]) -> Iterator[Violation]:
        name = compiled.name
        if isinstance(compiled.engine, Unusable):
            yield Violation(
                rule="schema.unusable",
                path=("kind",),
                message=f"the definition is invalid ({compiled.engine.reason}), so only metadata is validated",
                hint="correct its CustomResourceDefinition",
                severity=Severity.WARNING,
            )
            compiled = self._compile_metadata(name, namespaced=compiled.namespaced)
        if not compiled.engine.is_valid(data):
            wrong = list(messages.violations(compiled.engine.iter_errors(data), compiled.schema, data))
            if compiled.owner:
                wrong = [messages.of_other_version(one, compiled.owner) for one in wrong]
            yield from wrong
            if any(one.severity is Severity.ERROR for one in wrong):  # the rules below rely on the types
                return
        if has_duplicates(data, compiled.lists):
            yield from find_duplicates(data, compiled.lists)
        if name.group not in OWN_GROUPS or data.get("metadata"):
            yield from metadata_violations(data, name.group, name.kind, namespaced=compiled.namespaced)
        if name.kind not in self._custom.get(name.group, ()):  # its own definition may say less of the types
            yield from builtin_violations(data, name.group, name.kind)
        for place, pod in created_pods(data, name.group, name.kind):
            found = (
                of_template(one, name.kind, place) for one in self._validate(self._compile(_POD, namespaced=True), pod)
            )
            yield from (one for one in found if one is not None)
        if compiled.rules is not None:
            yield from compiled.rules.violations(data)

    def _compile_metadata(self, name: KindName, *, namespaced: bool | None) -> CompiledKind:
        """Compile the schema for a kind of which nothing is known."""
        compiled = self._metadata_only.get(name)
        if compiled is None:
            schema = metadata_only(self._configmap)
            compiled = self._metadata_only[name] = CompiledKind(name, schema, namespaced=namespaced)
        return compiled

    def _unknown_group(self, group: str, kind: str) -> Violation:
        names = {*self._archive.groups(), *self._archive.named_groups()}
        match = "" if group in names else messages.closest(group, sorted(names - {""}))
        served = (self._archive.kinds(match) or {}).get(kind) if match else None
        if served is not None:
            return Violation(
                rule="schema.unknown-kind",
                path=("apiVersion",),
                message=f"unknown API group {messages.format_value(group)}",
                hint=f"did you mean {match}/{served.versions[0]}?",
            )
        return Violation(
            rule="schema.unknown-group",
            path=("apiVersion",),
            message=f"unknown API group {messages.format_value(group)}, so only metadata is validated",
            hint=f"did you mean {match}?" if messages.is_misspelt(group, match) else ADD_DEFINITION,
            severity=Severity.WARNING,
        )

    def _unknown_kind(self, api_version: str, kind: str, kinds: dict[str, Served]) -> Violation:
        elsewhere = []
        for group in self._archive.groups():
            served = (self._archive.kinds(group) or {}).get(kind)
            if served is not None:
                elsewhere.append(f"{group}/{served.versions[0]}".lstrip("/"))
        match = messages.closest(kind, sorted(kinds))
        if elsewhere:
            hint = f"{kind} is in apiVersion {' or '.join(elsewhere)}"
        elif all(served.is_custom for served in kinds.values()) and not messages.is_misspelt(kind, match):
            # Several projects share a group (kubeflow.org, argoproj.io), and some of them ship no definitions.
            return Violation(
                rule="schema.unknown-kind",
                path=("kind",),
                message=f"{api_version} has no known kind {messages.format_value(kind)}, so only metadata is validated",
                hint=ADD_DEFINITION,
                severity=Severity.WARNING,
            )
        else:
            hint = f"did you mean {match}?" if match else f"known kinds: {messages.format_choices(sorted(kinds))}"
        return Violation(
            rule="schema.unknown-kind",
            path=("kind",),
            message=f"{api_version} has no kind {messages.format_value(kind)}",
            hint=hint,
        )


def _without_type(data: dict[str, Any]) -> Iterator[Violation]:
    for name in ("apiVersion", "kind"):
        value = data.get(name)
        if value is None or value == "":
            yield messages.missing((name,))
        elif not isinstance(value, str):
            message = f"must be a string, not {messages.describe_type(value)}"
            yield Violation(rule="schema.wrong-type", path=(name,), message=message, hint="quote it")
