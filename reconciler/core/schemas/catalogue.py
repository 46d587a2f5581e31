"""`Catalogue`: every kind we know, and what a strict API server would say of an object of it."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath, SourceRef, split_api_version
from reconciler.core.patterns import later
from reconciler.core.problems import Problem, Severity
from reconciler.core.schemas import metadata, shape, words
from reconciler.core.schemas.ambiguity import reread
from reconciler.core.schemas.archive import Archive, Bundle, Served
from reconciler.core.schemas.builtins import builtin_findings
from reconciler.core.schemas.finding import Finding
from reconciler.core.schemas.keyed import Branch, branch, duplicates, repeats
from reconciler.core.schemas.shape import Schema

if TYPE_CHECKING:
    from reconciler.core.schemas.definitions import Defined

OWN_GROUPS = frozenset({"gpureconciler.io", "torchrun.ai"})
"""Groups whose kinds are read by us and never sent to a server."""

_KIND = later(r"[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?")
"""What a CustomResourceDefinition allows as `spec.names.kind`."""


class KindName(Struct, frozen=True, kw_only=True):
    """A kind at a version."""

    group: str
    version: str
    kind: str


class _Unusable(Struct, frozen=True):
    """Why the engine refuses a schema: only a definition from the repository can come to that."""

    reason: str


class _Known:
    """The compiled schema of one kind; the engine and the keyed lists are made when first needed."""

    def __init__(self, name: KindName, schema: Schema, *, namespaced: bool | None) -> None:
        self.name, self.schema, self.namespaced = name, schema, namespaced

    @cached_property
    def engine(self) -> Any:
        import jsonschema_rs  # noqa: PLC0415 - 24 ms that a run over cached results does not pay

        options = jsonschema_rs.RegexOptions()  # linear in time: a pattern may come from the repository
        try:
            return jsonschema_rs.Draft202012Validator(self.schema, pattern_options=options, validate_formats=True)
        except ValueError as error:
            return _Unusable(str(error).partition("\n")[0])

    @cached_property
    def leads(self) -> Branch:
        return branch(self.schema)


class Catalogue:
    """Kinds by group, from the shipped bundle and from CustomResourceDefinitions of the repository.

    Cheap to make: everything is read, unpacked and compiled when a document asks for it.
    """

    def __init__(self, source: Bundle | Archive, learned: "Mapping[str, Mapping[str, Defined]] | None" = None) -> None:
        self._archive = source if isinstance(source, Archive) else Archive(source)
        self._defined = learned or {}
        self._known: dict[KindName, _Known] = {}
        self._met: dict[tuple[str, str], _Known] = {}
        self._bare: dict[KindName, _Known] = {}
        self._merged: dict[str, dict[str, Served] | None] = {}

    @property
    def archive(self) -> Archive:
        """Where shipped schemas are unpacked."""
        return self._archive

    # --- what is known ------------------------------------------------------------------------------------------

    def with_crds(self, documents: Iterable[Document]) -> "Catalogue":
        """Return a catalogue that also knows the kinds which these CustomResourceDefinitions define.

        They win over what is shipped, since they are what the repository's clusters are to run. Documents of other
        kinds are ignored, definitions that do not hold a usable schema too: `validate` tells of those.
        """
        from reconciler.core.schemas.definitions import defined  # noqa: PLC0415 - few repositories hold definitions

        learned = {group: dict(kinds) for group, kinds in self._defined.items()}
        for document in documents:
            found = defined(document.data, self._configmap)
            if found is not None:
                learned.setdefault(found.group, {})[found.kind] = found
        return Catalogue(self._archive, learned)

    def _configmap(self) -> Schema:
        return self._archive.load("", "ConfigMap", "v1")

    def _kinds(self, group: str) -> dict[str, Served] | None:
        if group not in self._merged:
            self._merged[group] = self._merge(group)
        return self._merged[group]

    def _merge(self, group: str) -> dict[str, Served] | None:
        shipped, defined_here = self._archive.kinds(group), self._defined.get(group)
        if shipped is None and defined_here is None:
            return None
        return dict(shipped or {}) | {kind: found.served for kind, found in (defined_here or {}).items()}

    def served(self, group: str, kind: str) -> Served | None:
        """Return how a kind is served, None where it is not known."""
        return (self._kinds(group) or {}).get(kind)

    def is_namespaced(self, group: str, kind: str) -> bool | None:
        """Whether objects of a kind live in a namespace; None where the kind is not known."""
        found = self.served(group, kind)
        return None if found is None else found.namespaced

    def list_keys(self, group: str, kind: str, path: FieldPath) -> tuple[str, ...] | None:
        """Return the fields by which items of the list at `path` are told apart; None where they go by position."""
        schema = self._at(group, kind, path)
        if schema is None or schema.get("x-kubernetes-list-type") != "map":
            return None
        return tuple(schema["x-kubernetes-list-map-keys"])

    def is_quantity(self, group: str, kind: str, path: FieldPath) -> bool:
        """Whether the value at `path` is a quantity, so that 1Gi equals 1024Mi."""
        schema = self._at(group, kind, path)
        return schema is not None and schema.get("format") == "quantity"

    def _at(self, group: str, kind: str, path: FieldPath) -> Schema | None:
        found = self.served(group, kind)
        if found is None:
            return None
        name = KindName(group=group, version=found.versions[0], kind=kind)
        return shape.at(self._load(name, namespaced=found.namespaced).schema, path)

    def json_schema(self, kind: str) -> Schema | None:
        """Return the JSON Schema of a kind by its name, `Kind` or `Kind.group`; None where there is none."""
        name, _, wanted = kind.partition(".")
        groups = [wanted] if wanted else sorted({*self._archive.groups(), *self._defined}, key=_own_first)
        for group in groups:
            found = self.served(group, name)
            if found is not None:
                known = KindName(group=group, version=found.versions[0], kind=name)
                return self._load(known, namespaced=found.namespaced).schema
        return None

    def kinds(self) -> Iterator[KindName]:
        """Yield every known kind at its preferred version, our own first."""
        for group in sorted({*self._archive.groups(), *self._defined}, key=_own_first):
            for kind, served in sorted((self._kinds(group) or {}).items()):
                yield KindName(group=group, version=served.versions[0], kind=kind)

    def _load(self, name: KindName, *, namespaced: bool) -> _Known:
        known = self._known.get(name)
        if known is None:
            learned = self._defined.get(name.group, {}).get(name.kind)
            if learned is not None:
                schema = learned.schemas[name.version]
            else:
                schema = self._archive.load(name.group, name.kind, name.version)
            known = self._known[name] = _Known(name, schema, namespaced=namespaced)
        return known

    # --- what is wrong ------------------------------------------------------------------------------------------

    def validate(self, document: Document) -> tuple[Problem, ...]:
        """Return everything that a strict API server would refuse in `document`, with exact places."""
        found = list(self.findings(document.data))
        if document.ambiguous or found:
            known = self._met.get((document.api_version, document.kind)) or self._bare.get(_named(document))
            found = reread(document, known.schema, found) if known is not None else found
        if not found:
            return ()
        return tuple(finding.problem(lambda path, key: document.at(path, key=key)) for finding in found)

    def validate_body(self, body: dict[str, Any], place: SourceRef) -> tuple[Problem, ...]:
        """Do the same for an object that no file holds; every problem is placed at `place`."""
        return tuple(finding.problem(lambda _path, _key: place) for finding in self.findings(body))

    def findings(self, data: dict[str, Any]) -> Iterator[Finding]:
        """Yield what is wrong with an object, by the path of the value."""
        api_version, kind = data.get("apiVersion"), data.get("kind")
        if not (isinstance(api_version, str) and api_version and isinstance(kind, str) and kind):
            yield from _without_kind(data)
            return
        known = self._met.get((api_version, kind))
        if known is not None:
            yield from self._judge(known, data)
            return
        group, version = split_api_version(api_version)
        kinds = self._kinds(group)
        if kinds is None and not _KIND.fullmatch(kind):
            yield Finding(
                rule="schema.bad-value",
                path=("kind",),
                message=f"{words.shown(kind)} is not a valid kind",
                hint="use letters and digits, starting with a letter",
            )
        elif kinds is None:
            yield from self._unknown_group(group, kind)
            name = KindName(group=group, version=version, kind=kind)
            yield from self._judge(self._untaught(name, namespaced=None), data)
        elif kind not in kinds or version not in kinds[kind].versions:
            yield from self._unknown_kind(group, version, kind, kinds)
        else:
            name = KindName(group=group, version=version, kind=kind)
            known = self._met[api_version, kind] = self._load(name, namespaced=kinds[kind].namespaced)
            yield from self._judge(known, data)

    def _judge(self, known: _Known, data: dict[str, Any]) -> Iterator[Finding]:
        if isinstance(known.engine, _Unusable):
            yield _unusable(known)
            known = self._untaught(known.name, namespaced=known.namespaced)
        if not known.engine.is_valid(data):
            # What follows takes the types for granted.
            yield from words.findings(known.engine.iter_errors(data), known.schema, data)
            return
        if repeats(data, known.leads):
            yield from duplicates(data, known.leads)
        name = known.name
        if name.group not in OWN_GROUPS or data.get("metadata"):
            yield from metadata.metadata_findings(data, name.group, name.kind, namespaced=known.namespaced)
        yield from builtin_findings(data, name.group, name.kind)

    def _untaught(self, name: KindName, *, namespaced: bool | None) -> _Known:
        """Return what holds of every object, for a kind whose own schema nobody knows: it has metadata and a name."""
        known = self._bare.get(name)
        if known is None:
            from reconciler.core.schemas.definitions import any_object  # noqa: PLC0415 - few repositories need it

            known = self._bare[name] = _Known(name, any_object(self._configmap), namespaced=namespaced)
        return known

    def _unknown_group(self, group: str, kind: str) -> Iterator[Finding]:
        close = words.did_you_mean(group, [name for name in self._archive.groups() if name])
        if close and kind in (self._archive.kinds(close) or {}):
            version = (self._archive.kinds(close) or {})[kind].versions[0]
            yield Finding(
                rule="schema.unknown-kind",
                path=("apiVersion",),
                message=f"nothing is known about the group {group}, and {kind} is of another",
                hint=f"did you mean {close}/{version}?",
            )
            return
        yield Finding(
            rule="schema.unknown-group",
            path=("apiVersion",),
            message=f"nothing is known about the group {group or '(core)'}, so only the metadata is checked",
            hint=f"did you mean {close}?" if close else "add its CustomResourceDefinition to the repository",
            severity=Severity.WARNING,
        )

    def _unknown_kind(self, group: str, version: str, kind: str, kinds: dict[str, Served]) -> Iterator[Finding]:
        written = f"{group}/{version}" if group else version
        if kind in kinds:
            versions = [f"{group}/{served}" if group else served for served in kinds[kind].versions]
            yield Finding(
                rule="schema.unknown-version",
                path=("apiVersion",),
                message=f"{kind} is not served at {written}",
                hint=f"use {' or '.join(versions)}",
            )
            return
        yield Finding(
            rule="schema.unknown-kind",
            path=("kind",),
            message=f"{written} has no kind {words.shown(kind)}",
            hint=self._kind_meant(kind, kinds),
        )

    def _kind_meant(self, kind: str, kinds: dict[str, Served]) -> str:
        elsewhere = [group for group in self._archive.groups() if kind in (self._archive.kinds(group) or {})]
        if elsewhere:
            versions = [(self._archive.kinds(group) or {})[kind].versions[0] for group in elsewhere]
            names = [f"{group}/{version}".lstrip("/") for group, version in zip(elsewhere, versions, strict=True)]
            return f"{kind} is of apiVersion {' or '.join(names)}"
        close = words.did_you_mean(kind, sorted(kinds))
        return f"did you mean {close}?" if close else f"its kinds are {words.choices(sorted(kinds))}"


def _unusable(known: _Known) -> Finding:
    return Finding(
        rule="schema.unusable",
        path=("kind",),
        message=f"the definition of {known.name.kind} cannot be used ({known.engine.reason}), so it is not checked",
        hint="correct its CustomResourceDefinition",
        severity=Severity.WARNING,
    )


def _named(document: Document) -> KindName:
    group, version = split_api_version(document.api_version)
    return KindName(group=group, version=version, kind=document.kind)


def _own_first(group: str) -> tuple[bool, str]:
    return (group not in OWN_GROUPS, group)


def _without_kind(data: dict[str, Any]) -> Iterator[Finding]:
    for name in ("apiVersion", "kind"):
        value = data.get(name)
        if isinstance(value, str) and value:
            continue
        missing = value is None or value == ""
        yield Finding(
            rule="schema.missing-field" if missing else "schema.wrong-type",
            path=(name,),
            message="required, but missing" if missing else f"a string is wanted here, this is {words.called(value)}",
            hint=f"add {name}" if missing else "quote it",
        )
