"""How a job's code reaches its pods: what is fetched, when, and which part of a manifest an edit of it touches."""

from hashlib import sha256
from typing import Any

from msgspec import Struct

from reconciler.core.kinds.rendered import about
from reconciler.core.kinds.torchrun.intent.sections import Workspace
from reconciler.core.kinds.torchrun.intent.workspace import SourceKind, WorkspaceSource
from reconciler.core.kinds.torchrun.render.command import as_kubelet_reads
from reconciler.core.kinds.torchrun.render.workspace import MARKER, default_image, sync_script, wait_script
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin, Reason, Traced

DIGEST = "torchrun.ai/workspace-digest"
"""Annotation that names the code: digest over the source's address, ref and checksum."""

SYNC_PATH = "/workspace"
"""Where the sync script finds the volume."""

_FORWARDED = ("AWS_", "GOOGLE_", "AZURE_")
"""Environment variables that a sync needs for object stores, by prefix, as torchrun-controller forwards them."""

_RESOURCES = Traced(
    {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
    Reason(rule="torchrun.default", text="a sync requests 100m CPU and 1Gi, with a limit of 2Gi"),
)


class Code(Struct, frozen=True, kw_only=True):
    """The source of a workspace, or nothing to fetch (`source` is None)."""

    source: WorkspaceSource | None
    inplace: bool
    existing: bool
    image: Traced | None
    pull_policy: Traced | None
    origins: tuple[Origin, ...] = ()

    @property
    def digest(self) -> Traced:
        """Sixteen hex digits over everything that decides which code is fetched."""
        source = self.source
        parts = (source.kind.value, source.url, source.ref, source.sha256) if source else ()
        value = sha256("\0".join(parts).encode()).hexdigest()[:16]
        return Traced(
            value, Reason(rule="torchrun.workspace", text="named after the source of the code", origins=self.origins)
        )


def code_of(workspace: Workspace, anchor: Traced, problems: list[Problem], *, has_claim: bool) -> Code:
    """Read what is to be fetched; `anchor` is where problems point that concern no single field."""
    kind = SourceKind(workspace.source.value) if workspace.source else SourceKind.ZIP
    url = workspace.url
    fetched = (workspace.source, url, workspace.ref, workspace.sha256)
    inplace = bool(workspace.hot_reload and workspace.hot_reload.value == "inplace")
    source = WorkspaceSource(
        kind=kind,
        url=url.value if url else "",
        ref=workspace.ref.value if workspace.ref else "",
        sha256=workspace.sha256.value if workspace.sha256 else "",
    )
    _check(kind, workspace, anchor, problems, has_claim=has_claim)
    fetches = url is not None and kind is not SourceKind.EXISTING
    if inplace and not fetches and workspace.hot_reload:
        message = "the workspace has no source, so nothing can be reloaded"
        problems.append(about(workspace.hot_reload, "torchrun.hot-reload", message, "set the source of the workspace"))
    return Code(
        source=source if fetches else None,
        inplace=inplace,
        existing=kind is SourceKind.EXISTING,
        image=workspace.image,
        pull_policy=workspace.pull_policy,
        origins=tuple(origin for value in fetched if value for origin in value.reason.origins),
    )


def _check(kind: SourceKind, workspace: Workspace, anchor: Traced, problems: list[Problem], *, has_claim: bool) -> None:
    url = workspace.url
    if kind is SourceKind.EXISTING and url:
        message = "an existing workspace is not fetched, so the url is not used"
        problems.append(about(url, "torchrun.workspace", message, "remove the url, or set source to zip, git or s3"))
    elif kind in (SourceKind.GIT, SourceKind.S3) and url is None:
        message = f"source {kind.value} requires a url"
        problems.append(about(workspace.source or anchor, "torchrun.workspace", message, "give workspaceStorage.url"))
    elif kind is SourceKind.ZIP and url is None and not has_claim:
        message = "the workspace has no source, so pods start in an empty folder until the volume is filled"
        hint = "set workspaceStorage.url, or claimName of a volume that contains the code"
        problems.append(about(anchor, "torchrun.workspace-empty", message, hint, severity=Severity.WARNING))
    if workspace.ref and kind is not SourceKind.GIT:
        message = f"ref requires source git, but the source is {kind.value}"
        problems.append(about(workspace.ref, "torchrun.workspace", message, "remove it"))
    if workspace.sha256 and kind not in (SourceKind.ZIP, SourceKind.S3):
        message = f"sha256 requires an archive, but the source is {kind.value}"
        hint = "to pin a Git source, set ref to a commit" if kind is SourceKind.GIT else "remove it"
        problems.append(about(workspace.sha256, "torchrun.workspace", message, hint))


def sync_container(code: Code, source: WorkspaceSource, env: list[Any], sub_path: str) -> dict[str, Any]:
    """Return the container that fetches the code into the volume."""
    reason = Reason(rule="torchrun.workspace", text=f"fetches the {source.kind.value} source", origins=code.origins)
    script = Traced(as_kubelet_reads(sync_script(source)), reason)
    return _container("workspace-sync", code, script, env, sub_path)


def waiting_container(code: Code) -> dict[str, Any]:
    """Return the container that waits until the code has been fetched for the first time."""
    reason = Reason(rule="torchrun.workspace", text=f"training starts once {MARKER} exists", origins=code.origins)
    return _container("workspace-wait", code, Traced(wait_script(), reason), [], "")


def _container(name: str, code: Code, script: Traced, env: list[Any], sub_path: str) -> dict[str, Any]:
    mount = {"name": "workspace", "mountPath": SYNC_PATH} | ({"subPathExpr": sub_path} if sub_path else {})
    image = code.image
    if image is None and code.source:
        text = f"image that fetches a {code.source.kind.value} source"
        image = Traced(default_image(code.source), Reason(rule="torchrun.default", text=text))
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "command": ["/bin/sh", "-c", script],
        "resources": _RESOURCES,
        "volumeMounts": [mount],
    }
    if env:
        container["env"] = env
    if code.pull_policy:
        container["imagePullPolicy"] = code.pull_policy
    return container


def forwarded(env: list[Any]) -> list[Any]:
    """Return the variables that a sync may need to reach an object store."""
    return [item for item in env if str(_plain(item).get("name", "")).startswith(_FORWARDED)]


def _plain(item: Any) -> Any:
    return item.value if isinstance(item, Traced) else item
