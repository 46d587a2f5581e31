"""Where the code of a job comes from: `WorkspaceSource`, what a sync script is written from."""

from enum import StrEnum

from msgspec import Struct


class SourceKind(StrEnum):
    """How the workspace is filled: an archive, a Git repository, an object store, or what lies there already."""

    ZIP = "zip"
    GIT = "git"
    S3 = "s3"
    EXISTING = "existing"


class WorkspaceSource(Struct, frozen=True, kw_only=True):
    """What to fetch. `ref` is Git's branch, tag or commit (empty: the remote's HEAD).

    `sha256` is the archive's digest in lower-case hex (empty: the archive is not checked).
    """

    kind: SourceKind
    url: str = ""
    ref: str = ""
    sha256: str = ""
