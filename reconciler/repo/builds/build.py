"""Builds among the source files: each is one file, whose content is what the program printed.

The file stands at the path of the kustomization or chart, in place of the files that the build reads. Before each of
its documents comments say where the object is from and what changed it, which leads findings back there.
"""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import SourceRef, split_api_version
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem
from reconciler.kube.secrets import mask_findings
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import Document, read
from reconciler.kube.yaml.parser import split
from reconciler.kube.yaml.writer import write
from reconciler.repo.builds.delivery import deliveries
from reconciler.repo.builds.inputs import FOLLOWED, BuildInputs, inputs_of, missing_problem, parents
from reconciler.repo.builds.programs import BuildFailed, find_program, run_build
from reconciler.repo.builds.variables import SWITCH, Substitution
from reconciler.repo.config.builds import ROOT, Build, Tool
from reconciler.repo.files import BlobIds, TreeFiles, below
from reconciler.repo.port import Cache, Repository
from reconciler.version import __version__

ORIGIN, CHANGED = "# from: ", "# changed by: "
"""Comments before a document: the file that it is from, and the kustomizations that changed it, in order."""

_NOTHING = b"# no objects\n"  # a file without content would look lost
_ORIGIN_KEY = "config.kubernetes.io/origin"
_TRANSFORMATIONS_KEY = "alpha.config.kubernetes.io/transformations"
_HELM_SOURCE = later(rb"^# Source: (\S+)$", re.MULTILINE)
_LOGGED = later(r"""E\d{4} [\d:.]+ +\d+ \S+\] "command failed" err=(?:("(?:[^"\\]|\\.)*")$|<(.*)>$)""")
"""What kubectl logs of an error: with the time and the id of the process, which differ in each run."""
IsNamespaced = Callable[[str, str], "bool | None"]
"""Returns whether objects of a group and kind are in a namespace; None: unknown."""


class Built(Struct, frozen=True, kw_only=True):
    """The result of one build of one revision: the path and id of its file, and what it was made from."""

    build: Build  # with what its delivery adds
    oid: str
    inputs: Mapping[str, str]  # blob ids by path
    delivery: str = ""  # the blob id of the file with the object that delivers it
    problems: tuple[Problem, ...] = ()


class _Saved(Struct, frozen=True, array_like=True):
    """The result of a build in the cache. One that failed, or that fetches something, is not kept."""

    content: bytes
    problems: tuple[Problem, ...] = ()


def build_all(
    builds: Sequence[Build], tree: TreeFiles, repository: Repository, cache: Cache | None, is_namespaced: IsNamespaced
) -> Iterator[Built]:
    """Build what differs from the last runs, and yield the results of all entries."""
    files = tree.written
    delivering = {build.delivery for build in builds}
    followed = [path for path in files if posixpath.basename(path) in FOLLOWED or path in delivering]
    contents = dict(zip(followed, repository.read([files[path] for path in followed]), strict=True))
    folders = sorted({parent for path in files for parent in parents(path)}) if any(delivering) else []
    for written in builds:
        build = with_delivery(written, contents, files, folders)
        if build is None and below(files, written.path):
            yield Built(build=written, oid=repository.hold(_NOTHING), inputs={}, problems=(_undelivered(written),))
            continue
        build = build or written
        inputs = inputs_of(build, files, lambda paths: [contents[path] for path in paths], tree.irregular)
        if not inputs.files:
            yield Built(build=build, oid="", inputs={}, problems=(missing_problem(build),))
            continue
        saved = _Saved(_NOTHING, inputs.problems)
        if not inputs.problems:
            saved = _saved(build, inputs, repository, cache, is_namespaced)
        oid = repository.hold(saved.content)
        yield Built(
            build=build, oid=oid, inputs=inputs.files, delivery=files.get(build.delivery, ""), problems=saved.problems
        )


def with_delivery(
    build: Build, contents: Mapping[str, bytes], files: Collection[str], folders: Sequence[str]
) -> Build | None:
    """Return a build with what its delivery adds; its entry says the rest. None if nothing delivers it there."""
    if not build.delivery:
        return build
    raw = contents.get(build.delivery, b"")
    for one in deliveries(read(build.delivery, raw).documents, folders):
        is_cluster = not (build.clusters and one.cluster) or one.cluster in build.clusters
        is_release = build.tool is Tool.KUSTOMIZE or one.release == build.release
        if one.path == build.path and not one.left_out and is_cluster and is_release:
            values = [path for path in one.values if path in files or not one.skips_missing_values]
            has_variables = one.substitute is not None or build.variables is not None
            return replace(
                build,
                overrides={**build.overrides, **one.overrides},
                variables={**(build.variables or {}), **(one.substitute or {})} if has_variables else None,
                values=tuple(values) or build.values,
                inline_values=one.inline_values or build.inline_values,
            )
    return None


def _undelivered(build: Build) -> Problem:
    what = f"{build.path} as {build.release}" if build.release else build.path
    return Problem(
        rule="build.delivery",
        place=SourceRef(path=build.source),
        message=f"{build.delivery} has no object that delivers {what}",
        hint="correct delivery in spec.sources of reconciler.yaml, or write what it adds there",
    )


def _saved(
    build: Build, inputs: BuildInputs, repository: Repository, cache: Cache | None, is_namespaced: IsNamespaced
) -> _Saved:
    program = find_program(build.tool, build.version, cache)
    if inputs.is_remote:  # what it fetches may change while the files stay the same
        cache = None
    identity = msgspec.json.encode((__version__, program.version, build, sorted(inputs.files.items())))
    key = f"build:{sha256(identity).hexdigest()}"
    if cache is not None and (known := cache.get(key)) is not None:
        with suppress(msgspec.MsgspecError):  # written by another version: built again
            return msgspec.msgpack.decode(known, type=_Saved)
    paths = list(inputs.files)
    contents = dict(zip(paths, repository.read(inputs.files.values()), strict=True))
    try:
        printed = run_build(program, build, contents)
    except BuildFailed as error:
        return _Saved(_NOTHING, (failed_problem(build, error, contents),))
    saved = normalize(build, printed, is_namespaced)
    if cache is not None:
        cache.put(key, msgspec.msgpack.encode(saved))
    return saved


def failed_problem(build: Build, error: BuildFailed, contents: Mapping[str, bytes]) -> Problem:
    """Return the problem of a build that a program refused. Secrets among its values are masked in the message."""
    folder = "" if build.path == ROOT else f" {build.path}"
    problem = Problem(
        rule="build.failed",
        place=SourceRef(path=build.source),
        message=_said(error.lines) or str(error),
        hint=f"try it: kustomize build{folder}" if build.tool is Tool.KUSTOMIZE else f"try it: helm template{folder}",
    )
    values = [path for path in contents if posixpath.basename(path) == "values.yaml" or path in build.values]
    documents = (document.data for path in values for document in read(path, contents[path]).documents)
    (masked,) = mask_findings([problem], (*documents, build.inline_values))
    return masked


def _said(lines: Sequence[str]) -> str:
    """Return a program's last messages without what its log adds: Helm says an error twice, kubectl with the time."""
    plain = [line.strip() for line in lines if not line.startswith("level=")]
    found = " ".join(plain or lines)
    if logged := _LOGGED.search(found):
        found = found[: logged.start()] + (_unquoted(logged[1]) if logged[1] else logged[2].strip())
    found = found.removeprefix("Error: ").removeprefix("error: ").rstrip()
    return found.removesuffix("Use --debug flag to render out invalid YAML").rstrip()


def _unquoted(written: str) -> str:
    try:
        return msgspec.json.decode(written, type=str)
    except msgspec.DecodeError:  # Go's escapes that JSON lacks
        return written[1:-1]


def normalize(build: Build, printed: bytes, is_namespaced: IsNamespaced) -> _Saved:
    """Return the documents of a build as our writer writes them, each with its origin, and what is wrong with them."""
    reading = read(build.source, printed)
    substitution = None if build.variables is None else Substitution(build.variables)
    origins = _helm_origins(build, printed) if build.tool is Tool.HELM else {}
    parts: list[bytes] = []
    for document in reading.documents:
        body: Mapping[str, Any] = document.data
        comments = origins.get(document.index, "")
        if build.tool is Tool.KUSTOMIZE:
            body, comments = _without_origin(body, _prefix(build))
        body = _placed(body, build.namespace, namespaced=is_namespaced(*_group_kind(document)))
        content = write(body)
        if substitution is not None and not _keeps_variables(document):
            content = substitution.apply(content.decode()).encode()
        parts.append(comments.encode() + content)
    problems = [*reading.problems]
    if substitution is not None:
        problems += _variable_problems(build, substitution)
    return _Saved(b"---\n".join(parts) or _NOTHING, tuple(problems))


def _prefix(build: Build) -> str:
    return "repository/" if build.path == ROOT else ""


def _group_kind(document: Document) -> tuple[str, str]:
    return split_api_version(document.api_version)[0], document.kind


def _without_origin(body: Mapping[str, Any], prefix: str) -> tuple[Mapping[str, Any], str]:
    """Return an object without the annotations that say where it is from, and the comments that say so."""
    metadata = mapping(body.get("metadata"))
    annotations = dict(mapping(metadata.get("annotations")))
    origin = _parsed(annotations.pop(_ORIGIN_KEY, ""))
    changes = _parsed(annotations.pop(_TRANSFORMATIONS_KEY, ""))
    kept = {**metadata, "annotations": annotations}
    if not annotations:
        del kept["annotations"]
    from_file = text(mapping(origin).get("path")) or text(mapping(origin).get("configuredIn"))
    by = dict.fromkeys(text(mapping(one).get("configuredIn")) for one in sequence(changes))
    comments = [f"{ORIGIN}{from_file.removeprefix(prefix)}\n"] if from_file else []
    comments += [f"{CHANGED}{name.removeprefix(prefix)}\n" for name in by if name]
    return {**body, "metadata": kept}, "".join(comments)


def _parsed(annotation: object) -> Any:
    if not isinstance(annotation, str) or not annotation.strip():
        return None
    if annotation.lstrip().startswith("-"):  # the reader takes mappings
        documents = read("", b"items:\n" + annotation.encode()).documents
        return documents[0].data.get("items") if documents else None
    documents = read("", annotation.encode()).documents
    return documents[0].data if documents else None


def _helm_origins(build: Build, printed: bytes) -> dict[int, str]:
    """Return the comments of Helm's documents: the template of each. Helm names the chart, not its folder."""
    found: dict[int, str] = {}
    folder = "" if build.path == ROOT else f"{build.path}/"
    for chunk in split(printed):
        if source := _HELM_SOURCE.search(chunk.text):
            inside = source[1].decode("utf-8", "replace").partition("/")[2]
            found[chunk.index] = f"{ORIGIN}{folder}{inside}\n"
    return found


def _placed(body: Mapping[str, Any], namespace: str, *, namespaced: bool | None) -> Mapping[str, Any]:
    """Return an object in the namespace of its delivery if it has none, and in none if its kind is cluster-scoped.

    Kustomize does not know which kinds of operators are cluster-scoped, and adds a namespace that servers ignore.
    """
    metadata = mapping(body.get("metadata"))
    if namespaced and namespace and not metadata.get("namespace"):
        return {**body, "metadata": {**metadata, "namespace": namespace}}
    if namespaced is False and "namespace" in metadata:
        return {**body, "metadata": {key: value for key, value in metadata.items() if key != "namespace"}}
    return body


def _keeps_variables(document: Document) -> bool:
    metadata = document.metadata
    return "disabled" in (
        mapping(metadata.get("labels")).get(SWITCH),
        mapping(metadata.get("annotations")).get(SWITCH),
    )


def _variable_problems(build: Build, substitution: Substitution) -> Iterator[Problem]:
    place = SourceRef(path=build.source)
    if substitution.unknown:
        names = ", ".join(f"${{{name}}}" for name in substitution.unknown)
        yield Problem(
            rule="build.variable",
            place=place,
            message=f"no value for {names}",
            hint="add it to substitute in spec.sources of reconciler.yaml, or give it a default: ${NAME:=default}",
        )
    if substitution.refused:
        yield Problem(
            rule="build.variable",
            place=place,
            message=f"Flux cannot substitute {', '.join(substitution.refused)}",
            hint="write $$ for a dollar sign that stays",
        )


def sources_with(builds: Sequence[Built], sources: BlobIds, plain: Iterable[str]) -> BlobIds:
    """Return the source files with the results of builds, in order, without the files in the folders that are built.

    plain: the source folders that are read as they are. One inside a built folder stays.
    """
    folders = {_prefix_of(one.build.path): True for one in builds} | {_prefix_of(folder): False for folder in plain}

    def is_built(path: str) -> bool:
        return folders[max((folder for folder in folders if path.startswith(folder)), key=len)]

    merged = {path: oid for path, oid in sources.items() if not is_built(path)}
    merged |= {one.build.source: one.oid for one in builds if one.oid}
    return dict(sorted(merged.items()))


def _prefix_of(folder: str) -> str:
    return "" if folder == ROOT else f"{folder}/"
