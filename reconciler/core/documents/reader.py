"""Bytes of a file in, documents and problems out; never an exception. (Filled by the reader.)"""

from dataclasses import dataclass

from reconciler.core.documents.document import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one file may cost. Defaults follow what an API server accepts (etcd takes 1.5 MiB a request)."""

    file_bytes: int = 3 * 1024 * 1024
    depth: int = 100
    nodes: int = 300_000
    documents: int = 10_000


def read(path: str, raw: bytes, limits: Limits = Limits()) -> Reading:  # noqa: B008
    """Read all documents of a file."""
    raise NotImplementedError
