"""`FileRecord`: what the index keeps of one compiled source file. Workers send it back, and the store keeps it."""

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from hashlib import blake2b
from operator import attrgetter

import msgspec
from msgspec import Struct

from reconciler.index.compile import CompiledFile
from reconciler.index.dependencies import encode_dependencies
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.problems import Problem
from reconciler.policy.verdict import Verdict


class FileFindings(Struct, frozen=True, array_like=True):
    """The findings of a `CompiledFile` about one file. Most files have none."""

    problems: tuple[Problem, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    pending: tuple[str, ...] = ()
    exceeded: tuple[Verdict, ...] = ()


class FileRecord(Struct, frozen=True, array_like=True):
    """One compiled source file without its manifests. Summaries and findings are decoded on demand: few are needed.

    `dependencies` is an encoded set (`index.dependencies`). `objects` are the paths and blob ids of the rendered
    objects, alternating. `links` digests identities and references of the objects, `amounts` their GPUs and quotas:
    while no file's digest changes, rules over all objects have the same verdicts.
    """

    blob: str
    is_definition: bool
    dependencies: bytes
    objects: str
    links: bytes
    amounts: bytes
    encoded_summaries: bytes
    encoded_findings: bytes  # empty if there are none
    replaceable: str = ""  # paths of jobs that `onImmutableChange` lets replace, joined
    is_needed: bool = False  # a definition that is read in each run, not only where a file looks it up

    @property
    def findings(self) -> FileFindings:
        """Problems, verdicts and pending jobs."""
        return _findings.decode(self.encoded_findings) if self.encoded_findings else _NO_FINDINGS

    @property
    def summaries(self) -> tuple[ObjectSummary, ...]:
        """One for each rendered object, in the order of the documents."""
        return _summaries.decode(self.encoded_summaries)

    @property
    def paths(self) -> list[str]:
        """Paths of the rendered objects."""
        return self.objects.split(SEPARATOR)[::2] if self.objects else []

    @property
    def blobs(self) -> list[str]:
        """Blob ids of the rendered objects."""
        return self.objects.split(SEPARATOR)[1::2] if self.objects else []


class CompiledRecord(Struct, frozen=True, array_like=True):
    """The reply of a worker for one file: its record, and the bytes of those objects that will be needed."""

    record: FileRecord
    contents: dict[str, bytes]


SEPARATOR = "\0"  # in no name of Kubernetes, and in no path
_IDENTITY = ("cluster", "group", "kind", "namespace", "name", "path", "source", "line", "column")
_LINKED = (*_IDENTITY, "references")
_AMOUNTS = tuple(name for name in ObjectSummary.__struct_fields__ if name not in {*_LINKED, "digest"})
_NO_FINDINGS = FileFindings()
_encoder = msgspec.msgpack.Encoder()
_findings = msgspec.msgpack.Decoder(FileFindings)
_summaries = msgspec.msgpack.Decoder(tuple[ObjectSummary, ...])
_compiled = msgspec.msgpack.Decoder(CompiledRecord)

encode_compiled: Callable[[CompiledRecord], bytes] = _encoder.encode
decode_compiled: Callable[[bytes], CompiledRecord] = _compiled.decode
identity: Callable[[ObjectSummary], tuple[str | int, ...]] = attrgetter(*_IDENTITY)
"""What an object is, and the place that it is rendered from."""
short_digest = partial(blake2b, digest_size=16)
"""There is one for each file, so it is short."""


class RenderedPaths(Struct, frozen=True, dict=True):
    """The rendered paths of the objects of all files. Of two objects with one path the first counts.

    desired: blob ids by path. has_duplicates: two objects have one path.
    """

    records: Mapping[str, FileRecord]
    desired: Mapping[str, str]
    has_duplicates: bool = False
    known_sources: Mapping[str, str] | None = None

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """Source files by path."""
        if self.known_sources is not None:
            return self.known_sources
        return {path: source for source, record in reversed([*self.records.items()]) for path in record.paths}

    def after(self, new: Mapping[str, FileRecord]) -> "RenderedPaths":
        """Return the paths with other records of a few files: only theirs change, unless two objects share one."""
        records = {**self.records, **new}
        if self.has_duplicates:
            return rendered_paths(records)
        desired, sources = {**self.desired}, {**self.sources}
        for path in [path for source in new for path in self.records[source].paths]:
            del desired[path], sources[path]
        count = len(desired)
        for source, record in new.items():
            desired.update(zip(record.paths, record.blobs, strict=True))
            sources.update(dict.fromkeys(record.paths, source))
            count += len(record.paths)
        return (
            RenderedPaths(records, desired, known_sources=sources) if len(desired) == count else rendered_paths(records)
        )


def rendered_paths(records: Mapping[str, FileRecord]) -> RenderedPaths:
    """Return the paths of the rendered objects of all files."""
    objects = SEPARATOR.join([record.objects for record in records.values() if record.objects])
    parts = objects.split(SEPARATOR) if objects else []
    paths, blobs = parts[::2], parts[1::2]
    desired = dict(zip(paths, blobs, strict=True))
    has_duplicates = len(desired) != len(paths)
    if has_duplicates:
        desired |= zip(reversed(paths), reversed(blobs), strict=True)
    return RenderedPaths(records, desired, has_duplicates)


def summarize_file(
    compiled: CompiledFile, *, blob: str, is_definition: bool = False, is_needed: bool = False
) -> FileRecord:
    """Return the record of a compiled file."""
    summaries = [rendered.summary for rendered in compiled.objects]
    findings = FileFindings(compiled.problems, compiled.verdicts, compiled.pending, compiled.exceeded)
    links, amounts = attrgetter(*_LINKED), attrgetter(*_AMOUNTS)
    return FileRecord(
        blob=blob,
        is_definition=is_definition,
        dependencies=encode_dependencies(compiled.dependencies),
        objects=SEPARATOR.join([part for row in summaries for part in (row.path, row.digest)]),
        links=short_digest(_encoder.encode([links(row) for row in summaries])).digest(),
        amounts=short_digest(_encoder.encode([amounts(row) for row in summaries])).digest(),
        encoded_summaries=_encoder.encode(summaries),
        encoded_findings=_encoder.encode(findings) if findings != _NO_FINDINGS else b"",
        replaceable=SEPARATOR.join(compiled.replaceable),
        is_needed=is_needed,
    )
