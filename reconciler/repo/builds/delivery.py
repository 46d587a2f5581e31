"""What delivers a repository to clusters: Flux's Kustomizations and HelmReleases, Argo CD's Applications and sets.

In: documents of a repository. Out: `Delivery` values, one for each folder and cluster, from which `reconciler init
--existing` makes the sources of `reconciler.yaml`. See fluxcd.io/flux/components and argo-cd.readthedocs.io.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import Document, read

_OVERRIDES = {
    "targetNamespace": "namespace",  # of a Flux Kustomization
    "namePrefix": "namePrefix",
    "nameSuffix": "nameSuffix",
    "images": "images",
    "patches": "patches",
    "components": "components",
    "replicas": "replicas",
    "commonAnnotations": "commonAnnotations",
}
_PARAMETER = later(r"\{\{-?\s*\.?([A-Za-z0-9_.\-\[\]]+)\s*-?\}\}")
_ACTION = later(r"\{\{.*?\}\}")
_ESCAPED_DOT = later(r"(?<!\\)\.")
_INTEGER = later(r"-?[1-9][0-9]*|0")
_CLUSTER_FOLDER = later(r"^(?:.*/)?clusters?/([a-z0-9.-]+)(?:/|$)")
_CONSTANTS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
_URL = later(r"(?:[a-z+]+://)?(?:[^@/]*@)?([^:/]+)(?::\d+(?=/))?[:/]+(.+?)(?:\.git)?/*", re.IGNORECASE)
_PARAMETERS = Mapping[str, Any]


class Delivery(Struct, frozen=True, kw_only=True):
    """A folder of a repository that a controller delivers to a cluster, and how it is built.

    `left_out` says why nothing can be built of it here.
    `substitute_from` names ConfigMaps whose data are variables too, and `optional_from` those of them that may be
    missing. With `skips_missing_values`, files of `values` that the repository lacks are no error.
    """

    place: SourceRef
    name: str
    kind: str
    path: str = ""
    cluster: str = ""  # empty: the only one, or not known
    overrides: Mapping[str, Any] = {}
    substitute: Mapping[str, str] | None = None
    substitute_from: tuple[str, ...] = ()
    optional_from: tuple[str, ...] = ()
    release: str = ""
    namespace: str = ""
    values: tuple[str, ...] = ()
    skips_missing_values: bool = False
    inline_values: Mapping[str, Any] = {}
    left_out: str = ""
    repository: str = ""  # its URL; a name or nothing where no object says the URL


def deliveries(documents: Iterable[Document], folders: Iterable[str]) -> Iterator[Delivery]:
    """Yield what the controllers of a repository deliver. `folders` are all of the repository, for sets over them."""
    known, every = list(folders), list(documents)
    urls = {
        one.key.name: text(mapping(one.data.get("spec")).get("url")) for one in every if one.kind == "GitRepository"
    }
    for document in every:
        reader = _READERS.get((document.group, document.kind))
        for found in reader(document, known) if reader is not None else ():
            yield replace(found, repository=urls.get(found.repository, found.repository))


def is_same_repository(one: str, other: str) -> bool:
    """Return whether two URLs name one repository: over SSH or HTTPS, with or without a user and `.git`."""
    return _address(one) == _address(other)


def _address(url: str) -> str:
    found = _URL.fullmatch(url.strip())
    return f"{found[1]}/{found[2]}".lower() if found else url


def is_delivery(document: Document) -> bool:
    """Return whether a document is about delivery, and not about what runs in a cluster."""
    return document.group in _GROUPS or (document.group, document.kind) in _READERS


def _flux_kustomization(document: Document, _: Sequence[str]) -> Iterator[Delivery]:
    spec = mapping(document.data.get("spec"))
    source, build = mapping(spec.get("sourceRef")), mapping(spec.get("postBuild"))
    if text(source.get("kind")) != "GitRepository":
        yield _left_out(document, f"it is delivered from a {text(source.get('kind'))}, not from a Git repository")
        return
    substituted = build.get("substitute")
    others = [mapping(one) for one in sequence(build.get("substituteFrom"))]
    named = tuple(text(one.get("name")) for one in others)
    yield Delivery(
        place=document.source,
        name=document.key.name,
        kind=document.kind,
        path=_folder(text(spec.get("path"))),
        cluster=_cluster_of(document.source.path),
        overrides={new: spec[old] for old, new in _OVERRIDES.items() if spec.get(old)},
        substitute={name: str(value) for name, value in mapping(substituted).items()} if substituted or named else None,
        substitute_from=named,
        optional_from=tuple(text(one.get("name")) for one in others if one.get("optional") is True),
        repository=text(source.get("name")),
    )


def _flux_release(document: Document, _: Sequence[str]) -> Iterator[Delivery]:
    spec = mapping(document.data.get("spec"))
    chart = mapping(mapping(spec.get("chart")).get("spec"))
    by_name = mapping(spec.get("chartRef"))
    if by_name:
        chart = {"chart": by_name.get("name"), "sourceRef": by_name}
    elif not chart:
        return  # a patch of a release
    source = text(mapping(chart.get("sourceRef")).get("kind"))
    if by_name or source != "GitRepository":
        yield _left_out(
            document, f"its chart {text(chart.get('chart'))} is in a {source or 'registry'}, not in this repository"
        )
        return
    namespace = text(spec.get("targetNamespace")) or document.key.namespace
    folder = _folder(text(chart.get("chart")))
    yield Delivery(
        place=document.source,
        name=document.key.name,
        kind=document.kind,
        path=folder,
        cluster=_cluster_of(document.source.path),
        release=text(spec.get("releaseName")) or document.key.name,
        namespace=namespace,
        values=tuple(_folder(text(path)) for path in sequence(chart.get("valuesFiles"))),
        inline_values=mapping(spec.get("values")),
        repository=text(mapping(chart.get("sourceRef")).get("name")),
    )


def _argo_application(document: Document, _: Sequence[str]) -> Iterator[Delivery]:
    yield from _application(document, document.key.name, mapping(document.data.get("spec")))


def _application(document: Document, name: str, spec: Mapping[str, Any]) -> Iterator[Delivery]:
    destination = mapping(spec.get("destination"))
    cluster = text(destination.get("name")) or _cluster_of(document.source.path)
    sources = [mapping(one) for one in sequence(spec.get("sources"))] or [mapping(spec.get("source"))]
    for source in sources:
        if source.get("chart"):
            yield _left_out(document, f"its chart {text(source.get('chart'))} is in a registry, not in this repository")
            continue
        if "path" not in source:
            continue  # a source of values only (`ref`)
        yield _argo_source(document, name, source, cluster, text(destination.get("namespace")))


def _argo_source(document: Document, name: str, source: Mapping[str, Any], cluster: str, namespace: str) -> Delivery:
    folder, helm, kustomize = (
        _folder(text(source.get("path"))),
        mapping(source.get("helm")),
        mapping(source.get("kustomize")),
    )
    overrides = {new: kustomize[new] for new in _OVERRIDES.values() if kustomize.get(new)}
    if isinstance(overrides.get("images"), list):
        overrides["images"] = [_image(one) for one in overrides["images"]]
    inline = dict(mapping(helm.get("valuesObject")))
    for one in read("", text(helm.get("values")).encode()).documents:
        inline = {**one.data, **inline}
    for parameter in map(mapping, sequence(helm.get("parameters"))):
        parts = [part.replace("\\.", ".") for part in _ESCAPED_DOT.split(text(parameter.get("name")))]
        written = parameter.get("value")
        _set(inline, parts, written if parameter.get("forceString") else _typed(written))
    return Delivery(
        place=document.source,
        name=name,
        kind=document.kind,
        path=folder,
        cluster=cluster,
        overrides=overrides,
        release=text(helm.get("releaseName")) or name,
        namespace=namespace,
        values=tuple(_value_file(folder, text(path)) for path in sequence(helm.get("valueFiles"))),
        skips_missing_values=helm.get("ignoreMissingValueFiles") is True,
        inline_values=inline,
        repository=text(source.get("repoURL")),
    )


def _typed(written: Any) -> Any:
    """Return the value of a parameter as `helm --set` takes it: a number without leading zeros, true, false, null."""
    if not isinstance(written, str):
        return written
    return int(written) if _INTEGER.fullmatch(written) else _CONSTANTS.get(written, written)


def _value_file(folder: str, name: str) -> str:
    """Return the path of a file with values: below the chart, or below the root of another source (`$values/…`)."""
    if name.startswith("$"):
        return _folder(name.partition("/")[2])
    parts: list[str] = []
    for part in f"{folder}/{name}".split("/"):
        parts = parts[:-1] if part == ".." else [*parts, part] if part not in {"", "."} else parts
    return "/".join(parts)


def _image(written: Any) -> Any:
    """Return an image of an Application (`name=new:tag`, `name:tag`, `name@digest`) as a kustomization has it."""
    if not isinstance(written, str):
        return written
    name, is_renamed, new = written.partition("=")
    target, _, digest = (new if is_renamed else name).partition("@")
    base, _, tag = target.rpartition(":") if ":" in target.rpartition("/")[2] else (target, "", "")
    image = {"name": name if is_renamed else base, "newTag": tag, "digest": digest}
    image["newName"] = base if is_renamed else ""
    return {key: value for key, value in image.items() if value}


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        values[part] = dict(mapping(values.get(part)))
        values = values[part]
    values[path[-1]] = value


def _argo_set(document: Document, folders: Sequence[str]) -> Iterator[Delivery]:
    spec = mapping(document.data.get("spec"))
    template = mapping(spec.get("template"))
    for parameters in _generated([mapping(one) for one in sequence(spec.get("generators"))], folders):
        if "left_out" in parameters:
            yield _left_out(document, parameters["left_out"])
            continue
        made = mapping(_filled(template, parameters))
        if action := next(_actions(made), ""):
            yield _left_out(
                document, f"its template uses functions, which are not followed: {action}; name its folders yourself"
            )
            continue
        yield from _application(document, text(mapping(made.get("metadata")).get("name")), mapping(made.get("spec")))


def _generated(generators: Iterable[Mapping[str, Any]], folders: Sequence[str]) -> Iterator[_PARAMETERS]:
    """Yield the parameters of a set's generators that a repository alone decides."""
    for generator in generators:
        if "list" in generator:
            yield from (mapping(one) for one in sequence(mapping(generator["list"]).get("elements")))
        elif "git" in generator and mapping(generator["git"]).get("directories"):
            yield from _directories(sequence(mapping(generator["git"]).get("directories")), folders)
        elif "git" in generator:
            yield {"left_out": "its generator `git` reads files, which is not followed: name its folders yourself"}
        elif "matrix" in generator:
            inner = sequence(mapping(generator["matrix"]).get("generators"))
            for chosen in product(*([*_generated([mapping(one)], folders)] for one in inner)):
                yield {key: value for part in chosen for key, value in part.items()}
        else:
            name = next(iter(generator), "empty")
            yield {"left_out": f"its generator `{name}` depends on more than the repository: name its folders yourself"}


def _directories(entries: Iterable[Any], folders: Sequence[str]) -> Iterator[_PARAMETERS]:
    chosen: dict[str, None] = {}
    for entry in map(mapping, entries):
        pattern = re.compile(re.escape(text(entry.get("path"))).replace(r"\*\*", ".*").replace(r"\*", "[^/]*"))
        for folder in folders:
            if pattern.fullmatch(folder):
                chosen[folder] = None
                if entry.get("exclude"):
                    del chosen[folder]
    for folder in chosen:
        name = folder.rpartition("/")[2]
        yield {"path": folder, "path.path": folder, "path.basename": name, "path.basenameNormalized": name}


def _filled(node: Any, parameters: _PARAMETERS) -> Any:
    """Return a template with `{{name}}` and `{{.name}}` replaced."""
    if isinstance(node, str):
        return _PARAMETER.sub(lambda match: _parameter(parameters, match[1]), node)
    if isinstance(node, dict):
        return {key: _filled(value, parameters) for key, value in node.items()}
    return [_filled(item, parameters) for item in node] if isinstance(node, list) else node


def _actions(node: Any) -> Iterator[str]:
    """Yield what is left to replace in a template."""
    if isinstance(node, str):
        yield from _ACTION.findall(node)
    elif isinstance(node, dict | list):
        for item in node.values() if isinstance(node, dict) else node:
            yield from _actions(item)


def _parameter(parameters: _PARAMETERS, name: str) -> str:
    value: Any = parameters.get(name)
    if value is None:
        value = parameters
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    return "" if value is None else str(value)


def _left_out(document: Document, reason: str) -> Delivery:
    return Delivery(place=document.source, name=document.key.name, kind=document.kind, left_out=reason)


def _folder(path: str) -> str:
    return path.removeprefix("./").strip("/") or "."


def _cluster_of(path: str) -> str:
    """Return the cluster that a file is for, where the folders say so: `clusters/<name>/…`."""
    match = _CLUSTER_FOLDER.match(path.rpartition("/")[0])
    return match[1] if match else ""


_READERS: Mapping[tuple[str, str], Callable[[Document, Sequence[str]], Iterator[Delivery]]] = {
    ("kustomize.toolkit.fluxcd.io", "Kustomization"): _flux_kustomization,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): _flux_release,
    ("argoproj.io", "Application"): _argo_application,
    ("argoproj.io", "ApplicationSet"): _argo_set,
}
_GROUPS = frozenset({"kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "source.toolkit.fluxcd.io"})
