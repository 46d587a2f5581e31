"""Leads the places of a plan from the results of builds back to the lines that people write.

A build is one file to everything before (`repo.builds`). Here its lines become the line of the overlay, the patch, the
base, the template or the values that set the value. Only the places that a plan shows are looked up. Where the line is
not known, the place is the file that the object is from; where that is not known either, the kustomization or chart.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.values import mapping, metadata_map, sequence, text, value_at
from reconciler.kube.yaml import Document, read
from reconciler.repo.builds import Built
from reconciler.repo.builds.build import CHANGED, ORIGIN
from reconciler.repo.builds.inputs import KUSTOMIZATIONS
from reconciler.repo.config.builds import ROOT, Tool
from reconciler.repo.files import CONFIG_PATH
from reconciler.repo.port import Repository
from reconciler.repo.revision import LoadedRevision

_T = TypeVar("_T")
_VALUES = later(r"\.Values\.([A-Za-z0-9_.-]+)")
_DOT = later(r"(?<!\\)\.")
_SUBCHART = later(r"(?<=/)charts/([^/]+)/")
_IDENTITY: tuple[FieldPath, ...] = (("apiVersion",), ("kind",), ("metadata", "name"))
"""Fields by which a patch finds its object: it does not set them."""
_VALUE_KEY = later(r"""(?:^|[\s{,-])["']?value["']?:""")
_KUSTOMIZE_OF_DELIVERIES: tuple[FieldPath, ...] = (
    ("spec",),
    ("spec", "source", "kustomize"),
    ("spec", "template", "spec", "source", "kustomize"),
)
"""Where objects of Flux and Argo CD have what they add to an overlay."""
_VALUES_OF_DELIVERIES: tuple[FieldPath, ...] = (
    ("spec", "values"),
    ("spec", "source", "helm", "valuesObject"),
    ("spec", "template", "spec", "source", "helm", "valuesObject"),
)
_MAX_DOCUMENTS = 256  # parsed results and files that are remembered


def lead_back(value: _T, repository: Repository, head: LoadedRevision, base: LoadedRevision) -> _T:
    """Return a plan (or any tree of structs) whose places in builds are those in the files that people write.

    A place is looked up in the head's build, or in the base's where the head lacks it.
    """
    builds = {one.build.source: one for one in (*base.builds, *head.builds)}
    if not builds:
        return value
    result: _T = _Leading(builds, (_Origins(repository, head), _Origins(repository, base))).walk(value)
    return result


class _Leading:
    """Replaces the places in a tree of structs."""

    def __init__(self, builds: Mapping[str, Built], sides: tuple["_Origins", ...]) -> None:
        self._builds = builds
        self._sides = sides
        sources = "|".join(map(re.escape, sorted(builds, reverse=True)))
        self._written = re.compile(rf"({sources})(?::(\d+):(\d+))?")
        self._place = lru_cache(None)(self._find)

    def walk(self, node: Any) -> Any:
        if isinstance(node, SourceRef):
            return self._place(node) if node.path in self._builds else node
        if isinstance(node, str):
            return self._written.sub(self._in_text, node) if "#" in node else node
        if isinstance(node, Struct):
            changed = {name: new for name, old in asdict(node).items() if (new := self.walk(old)) is not old}
            return replace(node, **changed) if changed else node
        if isinstance(node, tuple):
            items = tuple(map(self.walk, node))
            return items if any(new is not old for new, old in zip(items, node, strict=True)) else node
        return {self.walk(key): self.walk(item) for key, item in node.items()} if isinstance(node, dict) else node

    def _find(self, ref: SourceRef) -> SourceRef:
        found = (side.find(ref) for side in self._sides if ref.line and ref.path in side.builds)
        return next((one for one in found if one is not None), SourceRef(path=ref.path.partition("#")[0]))

    def _in_text(self, match: "re.Match[str]") -> str:
        return str(self._place(SourceRef(path=match[1], line=int(match[2] or 0), column=int(match[3] or 0))))


class _BuiltField(Struct, frozen=True, kw_only=True, eq=False):
    """A field of a document of a build."""

    built: Built
    document: Document
    field: FieldPath
    original: str = ""  # the name of the object in the file that it is from; empty: not known

    @property
    def value(self) -> Any:
        return value_at(self.document.data, self.field)

    def counterpart(self, other: Document) -> FieldPath:
        """Return the same field of another version of the object."""
        return _counterpart(self.document.data, other.data, self.field)

    def is_named(self, name: str) -> bool:
        """Return whether a name is one that the object has, or had between its prefixes and suffixes."""
        return self.original in name and name in self.document.key.name

    def is_set_by(self, patch: Document, *, by_target: bool) -> bool:
        """Return whether a patch of the object sets the value itself, not only something in it."""
        is_same = by_target or (patch.kind == self.document.kind and self.is_named(patch.key.name))
        if not is_same or not self.field or self.field in _IDENTITY:
            return False
        value = value_at(patch.data, self.counterpart(patch))
        return value is not None and not isinstance(value, Mapping)

    def is_target(self, target: Mapping[str, Any]) -> bool:
        """Return whether a patch's target may be the object; kinds and names in it match as a whole."""
        document = self.document
        if not _has_labels(document, text(target.get("labelSelector"))):
            return False
        if not _matches(text(target.get("kind")), document.kind):
            return False
        name, names = text(target.get("name")), {self.original or document.key.name, document.key.name}
        return not name or self.is_named(name) or any(_matches(name, one) for one in names)


class _Origins:
    """The places behind the builds of one revision."""

    def __init__(self, repository: Repository, revision: LoadedRevision) -> None:
        self._repository = repository
        self._revision = revision
        self.builds = {one.build.source: one for one in revision.builds if one.oid}
        self._documents = lru_cache(_MAX_DOCUMENTS)(self._read_documents)

    def find(self, ref: SourceRef) -> SourceRef | None:
        """Return the line behind a place in a build; None where the build has no such line."""
        built = self.builds[ref.path]
        documents = self._documents(built.oid, ref.path)
        document = next((one for one in reversed(documents) if one.source.line <= ref.line), None)
        if document is None:
            return None
        field = self._fields(document).get((ref.line, ref.column))
        if field is None:
            return None
        origin, changes = _comments(document)
        asked = _BuiltField(built=built, document=document, field=field)
        return (
            self._in_chart(asked, origin) if built.build.tool is Tool.HELM else self._in_overlay(asked, origin, changes)
        )

    @cached_property
    def _contents(self) -> Mapping[str, bytes]:
        """The sources and results of all builds, by blob id: read in one call."""
        oids = {
            oid for built in self.builds.values() for oid in (built.oid, built.delivery, *built.inputs.values()) if oid
        }
        wanted = [*oids, *filter(None, [self._revision.files.settings.get(CONFIG_PATH)])]
        return dict(zip(wanted, self._repository.read(wanted), strict=True))

    def _read_documents(self, oid: str, path: str) -> tuple[Document, ...]:
        return read(path, self._contents[oid]).documents

    def _file(self, built: Built, path: str) -> tuple[Document, ...]:
        oid = built.inputs.get(path)
        return () if oid is None else self._documents(oid, path)

    @cached_property
    def _settings(self) -> tuple[Document, ...]:
        oid = self._revision.files.settings.get(CONFIG_PATH)
        return () if oid is None else self._documents(oid, CONFIG_PATH)

    def _fields(self, document: Document) -> dict[tuple[int, int], FieldPath]:
        """Return the fields of a document by the places of their values and keys."""
        found: dict[tuple[int, int], FieldPath] = {(document.source.line, document.source.column): ()}
        for field in _paths(document.data):
            for key in (True, False):
                place = document.at(field, key=key)
                found.setdefault((place.line, place.column), field)
        return found

    # Kustomize.

    def _in_overlay(self, asked: "_BuiltField", origin: str, changes: Sequence[str]) -> SourceRef | None:
        """Return the patch or transformer that set a field last, else the line of the base."""
        candidates = self._file(asked.built, origin)
        found = _same_object(asked.document, candidates)
        asked = replace(asked, original=found.key.name if found else "")
        for name in reversed(changes):
            place = next(self._in_kustomization(asked, name), None)
            if place is not None:
                return place
        if found is not None:
            return found.at(asked.counterpart(found))
        if origin.rpartition("/")[2] in KUSTOMIZATIONS and candidates:
            return self._in_generator(candidates[0], asked.document)
        return SourceRef(path=origin) if origin in asked.built.inputs else None

    def _in_kustomization(self, asked: "_BuiltField", name: str) -> Iterator[SourceRef]:
        """Yield the places in a kustomization, and in the patches that it names, that set a field."""
        for overlay, prefix in self._kustomizations(asked.built, name):
            data = mapping(value_at(overlay.data, prefix))
            folder = "" if prefix else name.rpartition("/")[0]
            for kind in ("patches", "patchesStrategicMerge", "patchesJson6902"):
                for at, entry in _entries(data, kind):
                    if asked.is_target(mapping(entry.get("target"))):
                        yield from self._in_file(asked, folder, entry)
                        inner = () if isinstance(value_at(data, at), str) else ("patch",)
                        yield from _in_place(asked, overlay, (*prefix, *at, *inner), entry)
            for at in (*_replacement(data, asked), *_transformer(data, asked)):
                yield overlay.at((*prefix, *at))

    def _kustomizations(self, built: Built, name: str) -> Iterator[tuple[Document, FieldPath]]:
        """Yield a kustomization; the one around the overlay is written in the settings."""
        for document in self._file(built, name):
            yield document, ()
        if "/" not in name and name not in built.inputs:
            for document in self._delivery(built):
                yield from ((document, prefix) for prefix in _KUSTOMIZE_OF_DELIVERIES)
            for document in self._settings:
                yield document, (*built.build.field, "overrides")

    def _delivery(self, built: Built) -> tuple[Document, ...]:
        return self._documents(built.delivery, built.build.delivery) if built.delivery else ()

    def _in_file(self, asked: "_BuiltField", folder: str, entry: Mapping[str, Any]) -> Iterator[SourceRef]:
        path = posixpath.normpath(posixpath.join(folder, text(entry.get("path"))))
        for one in self._file(asked.built, path):
            if asked.is_set_by(one, by_target="target" in entry):
                yield one.at(asked.counterpart(one))
        oid = asked.built.inputs.get(path)
        raw = self._contents[oid] if oid else b""
        if line := _operation_line(raw.decode("utf-8", "replace"), asked.field):
            yield SourceRef(path=path, line=line, column=1)

    @staticmethod
    def _in_generator(kustomization: Document, document: Document) -> SourceRef:
        name = document.key.name
        for kind in ("configMapGenerator", "secretGenerator"):
            for index, entry in enumerate(sequence(kustomization.data.get(kind))):
                if text(mapping(entry).get("name")) in name:
                    return kustomization.at((kind, index))
        return kustomization.source

    # Helm.

    def _in_chart(self, asked: "_BuiltField", origin: str) -> SourceRef | None:
        """Return the value that a template's line uses for a field, else that line, else the template."""
        built, field = asked.built, asked.field
        charts = tuple(_SUBCHART.findall(origin.removeprefix(built.build.path)))
        oid = built.inputs.get(origin)
        if oid is None:
            return None
        lines = self._contents[oid].decode("utf-8", "replace").splitlines()
        key = next((part for part in reversed(field) if isinstance(part, str)), "")
        has_key = re.compile(rf"[\s-]*[\"']?{re.escape(key)}[\"']?:")
        of_key = [number for number, line in enumerate(lines, 1) if has_key.match(line)]
        for number in of_key:
            for used in _VALUES.findall(lines[number - 1]):
                place = self._in_values(built, tuple(used.rstrip(".").split(".")), charts)
                if place is not None:
                    return place
        # In a `range`, a `with` or a named template, the value has the name of the field more often than not.
        if not of_key or any("{{" in lines[number - 1] for number in of_key):
            place = self._alike_in_values(built, key, asked.value)
            if place is not None:
                return place
        if len(of_key) == 1:
            return SourceRef(path=origin, line=of_key[0], column=1)
        return SourceRef(path=origin)

    def _alike_in_values(self, built: Built, key: str, value: Any) -> SourceRef | None:
        """Return the only value of this name that is the value of a field; None without one, or where several are."""
        if isinstance(value, dict | list) or value is None:
            return None
        folder = "" if built.build.path == ROOT else f"{built.build.path}/"
        paths = (*reversed(built.build.values), f"{folder}values.yaml")
        documents = [*self._delivery(built), *(one for path in paths for one in self._file(built, path))]
        found = [
            document.at(path)
            for document in documents
            for path in _paths(document.data)
            if path[-1] == key and str(value_at(document.data, path)) == str(value)
        ]
        return found[0] if len(found) == 1 else None

    def _in_values(self, built: Built, name: FieldPath, charts: FieldPath) -> SourceRef | None:
        """Return where a value is set last: in the entry, in its files, in the `values.yaml` of a chart.

        charts: the names of the charts in the chart down to the one with the template, whose values are below them.
        """
        build, folder = built.build, "" if built.build.path == ROOT else f"{built.build.path}/"
        whole = (*charts, *name)
        for document in self._delivery(built):
            for prefix in _VALUES_OF_DELIVERIES:
                if value_at(document.data, (*prefix, *whole)) is not None:
                    return document.at((*prefix, *whole))
        if value_at(build.inline_values, whole) is not None:
            return next((one.at((*build.field, "inlineValues", *whole)) for one in self._settings), None)
        files = [(path, whole) for path in reversed(build.values)]
        for depth in range(len(charts) + 1):
            inner = "".join(f"charts/{chart}/" for chart in charts[:depth])
            files.append((f"{folder}{inner}values.yaml", (*charts[depth:], *name)))
        for path, field in files:
            for document in self._file(built, path):
                if value_at(document.data, field) is not None:
                    return document.at(field)
        return None


def _comments(document: Document) -> tuple[str, list[str]]:
    """Return the file that a document of a build is from, and the kustomizations that changed it, in order."""
    origin = ""
    changes: list[str] = []
    lines = document.text.decode("utf-8", "replace").split("\n")
    for number in range(document.source.line - 2, -1, -1):
        line = lines[number]
        if line.startswith(ORIGIN):
            origin = line.removeprefix(ORIGIN)
        elif line.startswith(CHANGED):
            changes.insert(0, line.removeprefix(CHANGED))
        else:
            break
    return origin, changes


def _paths(node: Any, at: FieldPath = ()) -> Iterator[FieldPath]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, list):
        items = enumerate(node)
    for key, item in items:
        yield (*at, key)
        yield from _paths(item, (*at, key))


def _counterpart(result: Any, other: Any, field: FieldPath) -> FieldPath:
    """Return the field of another version of an object; elements of lists are the same by name, else by position."""
    found: list[str | int] = []
    for part in field:
        if isinstance(part, int) and isinstance(other, list):
            name = mapping(value_at(result, (part,))).get("name")
            position = next((at for at, item in enumerate(other) if name and mapping(item).get("name") == name), part)
            found.append(position)
            result, other = value_at(result, (part,)), value_at(other, (position,))
        else:
            found.append(part)
            result, other = value_at(result, (part,)), value_at(other, (part,))
    return tuple(found)


def _same_object(document: Document, candidates: Sequence[Document]) -> Document | None:
    """Return the document of a file that an object was built from; its name may have got a prefix or suffix."""
    alike = [one for one in candidates if one.kind == document.kind]
    named = [one for one in alike if one.key.name and one.key.name in document.key.name]
    return max(named, key=lambda one: len(one.key.name), default=alike[0] if len(alike) == 1 else None)


def _has_labels(document: Document, selector: str) -> bool:
    """Return whether an object may match a selector: only the labels that it requires (`a=b`) are compared."""
    labels = metadata_map(document.data, "labels")
    parts = [part.partition("=") for part in selector.split(",")]
    return all(labels.get(key.strip()) == value.strip("= ") for key, sign, value in parts if sign and key[-1:] != "!")


def _matches(expression: str, name: str) -> bool:
    try:
        return not expression or re.fullmatch(expression, name) is not None
    except re.error:  # Go's syntax, which Python lacks: it may match
        return True


def _replacement(data: Mapping[str, Any], asked: _BuiltField) -> Iterator[FieldPath]:
    """Yield the field paths of a kustomization's replacements, the last first, that name a field of an object."""
    keys = [part for part in asked.field if isinstance(part, str)]
    for at, entry in reversed([*_entries(data, "replacements")]):
        for number, target in enumerate(map(mapping, sequence(entry.get("targets")))):
            if asked.is_target(mapping(target.get("select"))):
                for position, written in enumerate(sequence(target.get("fieldPaths"))):
                    if _keys(text(written)) == keys:
                        yield (*at, "targets", number, "fieldPaths", position)


def _keys(path: str) -> list[str]:
    """Return the keys of a field path of a replacement, without elements of lists: `a.[b=c].d`, `a.*.d`, `a.0.d`."""
    parts = [part.replace("\\.", ".").strip("[]") for part in _DOT.split(path)]
    return [part for part in parts if part != "*" and not part.isdigit() and "=" not in part]


def _transformer(data: Mapping[str, Any], asked: _BuiltField) -> Iterator[FieldPath]:
    """Yield the fields of a kustomization whose transformer sets a field of an object."""
    field, value = asked.field, asked.value
    if field[-1:] == ("image",) and isinstance(value, str):
        for at, entry in _entries(data, "images"):
            parts = {key: text(entry.get(key)) for key in ("digest", "newTag", "newName")}
            image = re.escape(parts["newName"] or text(entry.get("name")))
            if re.match(rf"{image}(?:[:@]|$)", value):
                yield from ((*at, key) for key, part in parts.items() if part and part in value)
    elif field in {("spec", "replicas"), ("spec", "parallelism")}:
        for at, entry in _entries(data, "replicas"):
            if asked.is_named(text(entry.get("name"))) and entry.get("count") == value:
                yield (*at, "count")
    elif field == ("metadata", "namespace") and data.get("namespace") == value:
        yield ("namespace",)
    elif field == ("metadata", "name"):
        yield from ((key,) for key in ("namePrefix", "nameSuffix") if text(data.get(key)))
    elif {"labels", "annotations"} & {*field[-2:-1]}:
        yield from _added(data, str(field[-1]), value)


def _added(data: Mapping[str, Any], key: str, value: Any) -> Iterator[FieldPath]:
    """Yield the fields of a kustomization that add a label or an annotation."""
    for name in ("commonLabels", "commonAnnotations"):
        if mapping(data.get(name)).get(key) == value:
            yield (name, key)
    for at, entry in _entries(data, "labels"):
        if mapping(entry.get("pairs")).get(key) == value:
            yield (*at, "pairs", key)


def _in_place(asked: _BuiltField, overlay: Document, at: FieldPath, entry: Mapping[str, Any]) -> Iterator[SourceRef]:
    """Yield the lines of a patch that is written in a kustomization."""
    written = text(entry.get("patch"))
    first = overlay.at(at).line if written else 0  # the line of the `|`: the patch begins below it
    for one in read("", written.encode()).documents if written else ():
        if asked.is_set_by(one, by_target="target" in entry):
            yield SourceRef(path=overlay.source.path, line=first + one.at(asked.counterpart(one)).line, column=1)
    if line := _operation_line(written, asked.field):
        yield SourceRef(path=overlay.source.path, line=first + line, column=1)


def _entries(data: Mapping[str, Any], name: str) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """Yield the entries of a list of mappings, each with its place; a text alone is a patch, or its file."""
    for index, entry in enumerate(sequence(data.get(name))):
        yield (name, index), _patch_entry(entry) if isinstance(entry, str) else mapping(entry)


def _patch_entry(written: str) -> Mapping[str, str]:
    return {"patch" if "\n" in written else "path": written}


def _operation_line(patch: str, field: FieldPath) -> int:
    """Return the line of a JSON patch with the operation on a field or a parent of it; 0 without one."""
    lines = patch.splitlines()
    for length in range(len(field), 1, -1):
        pointer = "/" + "/".join(str(part).replace("~", "~0").replace("/", "~1") for part in field[:length])
        for number, line in enumerate(lines, 1):
            if re.search(rf"[\"']?path[\"']?:\s*[\"']?{re.escape(pointer)}(?:[\"'\s,}}]|$)", line):
                return _value_line(lines, number) if length == len(field) else number
    return 0


def _value_line(lines: Sequence[str], number: int) -> int:
    """Return the line of the value in the operation with this line."""
    first = last = number - 1
    while first > 0 and not lines[first].lstrip().startswith(("-", "{")):
        first -= 1
    while last + 1 < len(lines) and not lines[last + 1].lstrip().startswith(("-", "{")):
        last += 1
    return next((at + 1 for at in range(first, last + 1) if _VALUE_KEY.search(lines[at])), number)
