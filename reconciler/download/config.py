"""The configuration of a download: what is fetched from where, to which paths below the mount."""

import re
from collections.abc import Iterator
from typing import Annotated, Any

import jsonschema_rs
import msgspec
from msgspec import Meta, Struct

from reconciler.errors import InvalidInput
from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.problems import Problem, Violation
from reconciler.kube.schemas.messages import bad_value, missing, violations
from reconciler.kube.yaml import read_written

WORKERS = 8
"""Files that are fetched at a time, unless the configuration or a flag says otherwise."""
MAX_WORKERS = 64
SECRETS = "/app/secrets"
STATE = ".downloads"
"""The folder below the root that holds markers and what is known of the files."""

_Name = Annotated[str, Meta(min_length=1)]
_Absolute = Annotated[str, Meta(pattern="^/")]
_Endpoint = Annotated[str, Meta(pattern=r"^(https?://[^\s/?#@]+(/[^\s?#@]*)?)?$")]
_Commit = Annotated[str, Meta(pattern="^([0-9a-f]{7,64})?$")]
_REPOSITORY = re.compile(r"(https?|ssh|git)://\S+|[\w.-]+@[\w.-]+:\S+")
_PASSWORD = re.compile(r"https?://[^/]*@|[a-z]+://[^/@]*:[^/@]*@")
_REVISION = re.compile(r"[\w.-]+(/[\w.-]+)*")
_SECRET = re.compile(r"(?!\.{1,2}$)[\w.-]{1,253}")
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


class _ConfigPart(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A part of the file, as users of Kaiwo write it."""


class SecretRef(_ConfigPart, frozen=True, kw_only=True):
    """The place of a secret: the key of a Secret mounted below `secrets`, or a file. Empty: there is none."""

    file: str = ""
    secret_name: str = ""
    secret_key: str = ""

    def __bool__(self) -> bool:
        return bool(self.file or self.secret_name or self.secret_key)


class ObjectFile(_ConfigPart, frozen=True, kw_only=True):
    """One object; an empty `target_path` is its own path, and one that ends in `/` is a folder."""

    path: _Name
    target_path: str = ""


class ObjectFolder(_ConfigPart, frozen=True, kw_only=True):
    """All objects below a path (empty or `.`: the whole bucket) that the glob matches."""

    path: str = ""
    target_path: str = ""
    glob: _Name = "**/*"


class Bucket(_ConfigPart, frozen=True, kw_only=True):
    """Objects of one bucket or container."""

    name: _Name
    files: tuple[ObjectFile, ...] = ()
    folders: tuple[ObjectFolder, ...] = ()


class S3Download(_ConfigPart, frozen=True, kw_only=True):
    """Buckets of Amazon S3, or of the server at `endpoint_url`; without keys they are read unsigned."""

    endpoint_url: _Endpoint = ""
    access_key_id: SecretRef = SecretRef()
    secret_key: SecretRef = SecretRef()
    buckets: tuple[Bucket, ...] = ()


class GcsDownload(_ConfigPart, frozen=True, kw_only=True):
    """Buckets of Google Cloud Storage. The secret holds the JSON of a service account."""

    application_credentials: SecretRef = SecretRef()
    buckets: tuple[Bucket, ...] = ()


class AzureDownload(_ConfigPart, frozen=True, kw_only=True):
    """Containers of Azure Blob Storage."""

    connection_string: SecretRef
    containers: tuple[Bucket, ...] = ()


class GitDownload(_ConfigPart, frozen=True, kw_only=True):
    """Files of a commit, else of the head of a branch, else of the remote's HEAD; `path` selects a folder or file."""

    repository: _Name
    branch: str = ""
    commit: _Commit = ""
    username: SecretRef = SecretRef()
    token: SecretRef = SecretRef()
    path: str = ""
    target_path: str = ""


class HubDownload(_ConfigPart, frozen=True, kw_only=True):
    """A repository of models on the Hugging Face Hub, or some files of it, at a revision."""

    repo_id: str
    files: tuple[_Name, ...] = ()
    revision: str = ""


class DownloadConfig(_ConfigPart, frozen=True, kw_only=True):
    """A whole file. `root` and `hf_home` are mounts, and everything else is below one of them."""

    root: _Absolute
    marker: Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$")]
    hf_home: str = ""
    secrets: _Absolute = SECRETS
    max_workers: Annotated[int, Meta(ge=1, le=MAX_WORKERS)] = WORKERS
    s3: tuple[S3Download, ...] = ()
    gcs: tuple[GcsDownload, ...] = ()
    azure_blob: tuple[AzureDownload, ...] = ()
    git: tuple[GitDownload, ...] = ()
    hf: tuple[HubDownload, ...] = ()


def read_config(path: str, raw: bytes) -> DownloadConfig:
    """Read a configuration. Raises `InvalidInput` with all problems and their places."""
    reading = read_written(path, raw)
    problems: tuple[Problem, ...] = reading.problems
    if not problems and len(reading.documents) != 1:
        place = SourceRef(path=path)
        problems = (Problem(rule="download.document", place=place, message="must be one document", hint="split it"),)
    if not problems:
        problems = reading.documents[0].problems(_violations(reading.documents[0].data))
    if problems:
        raise InvalidInput(sorted(problems, key=lambda problem: problem.sort_key), where=f"in {path}")
    return msgspec.convert(reading.documents[0].data, DownloadConfig)


def below(path: str) -> str:
    """Return a path as one below a folder, without `.` and empty parts; `ValueError` says why it is none."""
    if path.startswith("/"):
        raise ValueError("is absolute")
    parts = [part for part in path.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ValueError("leaves its folder by `..`")
    if not path.isprintable():
        raise ValueError("has control characters")
    if parts[:1] == [STATE]:
        raise ValueError(f"is in {STATE}, which belongs to this command")
    return "/".join(parts)


def object_target(one: ObjectFile) -> str:
    """Return the path of an object below the mount."""
    name = one.path.rstrip("/").rpartition("/")[2] if one.target_path.endswith("/") else ""
    return below(f"{one.target_path}{name}" if one.target_path else one.path.lstrip("/"))


def _violations(data: dict[str, Any]) -> list[Violation]:
    schema = msgspec.json.schema(DownloadConfig)
    engine = jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions())
    found = list(violations(engine.iter_errors(data), schema, data))
    return found or list(_contradictions(msgspec.convert(data, DownloadConfig)))


def _contradictions(config: DownloadConfig) -> Iterator[Violation]:
    """Yield what a schema cannot say."""
    for name, mount in (("root", config.root), ("hfHome", config.hf_home)):
        if ".." in mount.split("/") or (mount and not mount.startswith("/")):
            yield bad_value((name,), "is not an absolute path without `..`", "name the mount of a volume")
    if config.hf and not config.hf_home:
        yield missing(("hfHome",), "name the mount that holds the models")
    buckets: list[tuple[FieldPath, Bucket]] = []
    for index, s3 in enumerate(config.s3):
        path: FieldPath = ("s3", index)
        if bool(s3.access_key_id) != bool(s3.secret_key):
            yield missing((*path, "secretKey" if s3.access_key_id else "accessKeyId"), "a key has two parts")
        yield from _ref((*path, "accessKeyId"), s3.access_key_id)
        yield from _ref((*path, "secretKey"), s3.secret_key)
        buckets += [((*path, "buckets", number), bucket) for number, bucket in enumerate(s3.buckets)]
    for index, gcs in enumerate(config.gcs):
        yield from _ref(("gcs", index, "applicationCredentials"), gcs.application_credentials)
        buckets += [(("gcs", index, "buckets", number), bucket) for number, bucket in enumerate(gcs.buckets)]
    for index, azure in enumerate(config.azure_blob):
        yield from _ref(("azureBlob", index, "connectionString"), azure.connection_string, is_required=True)
        buckets += [(("azureBlob", index, "containers", number), one) for number, one in enumerate(azure.containers)]
    yield from _targets(buckets)
    for index, git in enumerate(config.git):
        yield from _git(("git", index), git)
    for index, hub in enumerate(config.hf):
        yield from _hub(("hf", index), hub)


def _ref(path: FieldPath, ref: SecretRef, *, is_required: bool = False) -> Iterator[Violation]:
    hint = "write secretName and secretKey, or the path of a mounted file"
    if not ref:
        if is_required:
            yield bad_value(path, "names no secret", hint)
    elif bool(ref.file) == bool(ref.secret_name or ref.secret_key):
        yield bad_value(path, "names a file and a Secret", hint)
    elif ref.file:
        if not ref.file.startswith("/"):
            yield bad_value((*path, "file"), "is not an absolute path", hint)
    elif not (_SECRET.fullmatch(ref.secret_name) and _SECRET.fullmatch(ref.secret_key)):
        yield bad_value(path, "is not the name and the key of a Secret", hint)


def _targets(buckets: list[tuple[FieldPath, Bucket]]) -> Iterator[Violation]:
    """Yield the targets that leave the mount, and those that two objects share."""
    seen = set[str]()
    for path, bucket in buckets:
        for index, folder in enumerate(bucket.folders):
            yield from _below((*path, "folders", index, "targetPath"), folder.target_path)
        for index, one in enumerate(bucket.files):
            place = (*path, "files", index, "targetPath" if one.target_path else "path")
            try:
                target = object_target(one)
            except ValueError as error:
                yield _outside(place, error)
                continue
            if not target:
                yield bad_value(place, "names no file", "write the path of the file below the mount")
            elif target in seen:
                yield bad_value(place, f"{target} is the target of another object", "choose another path")
            seen.add(target)


def _below(place: FieldPath, path: str) -> Iterator[Violation]:
    try:
        below(path)
    except ValueError as error:
        yield _outside(place, error)


def _outside(place: FieldPath, error: ValueError) -> Violation:
    return Violation(
        rule="download.target", path=place, message=str(error), hint="write a path below the mount, such as data/train"
    )


def _git(path: FieldPath, git: GitDownload) -> Iterator[Violation]:
    yield from _below((*path, "path"), git.path)
    yield from _below((*path, "targetPath"), git.target_path)
    yield from _ref((*path, "username"), git.username)
    yield from _ref((*path, "token"), git.token)
    place = (*path, "repository")
    if not _REPOSITORY.fullmatch(git.repository):
        yield bad_value(place, "is not the address of a Git server", "write https://HOST/PATH or git@HOST:PATH")
    elif _PASSWORD.match(git.repository):
        yield bad_value(place, "contains a user or a password", "use username and token, which name Secrets")
    elif (git.token or git.username) and not git.repository.startswith("http"):
        yield bad_value(place, "takes no username and token", "write the https address of the repository")
    if git.username and not git.token:
        yield missing((*path, "token"), "add the token or password of the user")
    if git.branch and not _is_branch(git.branch):
        yield bad_value((*path, "branch"), "is not the name of a branch", "write it without refs/heads/")


def _is_branch(name: str) -> bool:
    return bool(_REVISION.fullmatch(name)) and ".." not in name and not name.startswith("-")


def _hub(path: FieldPath, hub: HubDownload) -> Iterator[Violation]:
    if not _HUB_NAME.fullmatch(hub.repo_id) or ".." in hub.repo_id or "--" in hub.repo_id:
        yield bad_value((*path, "repoId"), "is not a repository of the Hub", "write OWNER/NAME")
    if hub.revision and not _is_branch(hub.revision):
        yield bad_value((*path, "revision"), "is not a branch, tag or commit", "write main, or 40 hexadecimal digits")
    for index, file in enumerate(hub.files):
        yield from _below((*path, "files", index), file)
