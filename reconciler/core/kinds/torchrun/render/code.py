"""The code of a job: the scripts that fill its workspace, and the pods that run them."""

from hashlib import sha256
from shlex import quote
from typing import Any

from msgspec import Struct

from reconciler.core.kinds.rendered import problem_at
from reconciler.core.kinds.torchrun.intent.sections import SourceKind, WorkspaceSection, WorkspaceSource
from reconciler.core.kinds.torchrun.render.command import as_kubelet_reads
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin, Reason, Traced

ROOT = "/workspace"
MARKER = f"{ROOT}/.sync-success"
"""File that exists once the code is complete."""

WAIT_SECONDS = 600
"""Seconds that training waits for its code: ten minutes, as in torchrun-controller."""

# Alpine's git image has wget and unzip too (busybox); s5cmd's image has tar and unzip.
_GIT_IMAGE = "alpine/git:2.49.1"
_S3_IMAGE = "peakcom/s5cmd:v2.3.0"

_BEGIN = f"""\
set -eu
cd {ROOT}
staging=.sync-staging
rm -rf "$staging"
mkdir "$staging"
trap 'rm -rf {ROOT}/.sync-staging {ROOT}/.sync-archive' EXIT
"""

# Names that begin with a dot are moved too; `..?*` are those that begin with two.
_END = """\
rm -f .sync-success .sync-archive
find . -mindepth 1 -maxdepth 1 ! -name "$staging" -exec rm -rf {} +
for entry in "$staging"/* "$staging"/.[!.]* "$staging"/..?*; do
  if [ -e "$entry" ] || [ -L "$entry" ]; then mv "$entry" .; fi
done
rmdir "$staging"
: > .sync-success
echo "workspace complete"
"""

_UNPACK_TAR = 'tar -xf .sync-archive -C "$staging"\n'
_UNPACK_TAR_GZ = 'tar -xzf .sync-archive -C "$staging"\n'
_UNPACK_ZIP = 'unzip -q .sync-archive -d "$staging"\n'
_TAR_GZ, _TAR = (".tar.gz", ".tgz"), (".tar",)


def default_image(source: WorkspaceSource) -> str:
    """Return the image whose tools the script of this source needs."""
    return _S3_IMAGE if source.kind is SourceKind.S3 else _GIT_IMAGE


def sync_script(source: WorkspaceSource) -> str:
    """Write the script that fetches `source` into the workspace."""
    return _BEGIN + _FETCHES[source.kind](source) + _END


def wait_script() -> str:
    """Write the script that waits until the workspace is complete, and fails after ten minutes."""
    return f"""\
set -eu
left={WAIT_SECONDS}
until [ -e {MARKER} ]; do
  if [ "$left" -le 0 ]; then
    echo "the workspace was not complete after {WAIT_SECONDS} s; see the logs of the pod that syncs it" >&2
    exit 1
  fi
  left=$((left - 2))
  sleep 2
done
"""


def _zip(source: WorkspaceSource) -> str:
    return f"wget -q -O .sync-archive {_operand(source.url)}\n" + _verify(source) + _unpack(source.url, _UNPACK_ZIP)


def _git(source: WorkspaceSource) -> str:
    url, ref = quote(source.url), quote(source.ref or "HEAD")
    # A server may refuse to give a single commit by its id; then all branches and tags are fetched.
    return f"""\
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=file:git:http:https:ssh
git init -q "$staging"
run() {{ git -c safe.directory='*' -c advice.detachedHead=false -C "$staging" "$@"; }}
if run fetch -q --depth 1 -- {url} {ref}; then
  run checkout -q --detach FETCH_HEAD
else
  run fetch -q -- {url} '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*'
  run checkout -q --detach {quote((source.ref or "HEAD") + "^{commit}")} --
fi
"""


def _s3(source: WorkspaceSource) -> str:
    if source.url.endswith("/"):
        return f'/s5cmd --log error cp {quote(source.url + "*")} "$staging"/\n'
    fetch = f"/s5cmd --log error cp {quote(source.url)} .sync-archive\n"
    return fetch + _verify(source) + _unpack(source.url, _UNPACK_TAR_GZ)


def _existing(_: WorkspaceSource) -> str:
    raise ValueError("an existing workspace is not fetched")


def _unpack(url: str, otherwise: str) -> str:
    path = url.partition("?")[0].partition("#")[0].lower()
    if path.endswith(_TAR_GZ):
        return _UNPACK_TAR_GZ
    if path.endswith(_TAR):
        return _UNPACK_TAR
    return _UNPACK_ZIP if path.endswith(".zip") else otherwise


def _verify(source: WorkspaceSource) -> str:
    if not source.sha256:
        return ""
    return f"printf '%s  %s\\n' {quote(source.sha256)} .sync-archive | sha256sum -c - >/dev/null\n"


def _operand(text: str) -> str:
    """Quote an operand so that it cannot be read as an option: wget has no `--` in every build."""
    return quote(text if not text.startswith("-") else f"./{text}")


_FETCHES = {
    SourceKind.ZIP: _zip,
    SourceKind.GIT: _git,
    SourceKind.S3: _s3,
    SourceKind.EXISTING: _existing,
}


DIGEST = "torchrun.ai/workspace-digest"
"""Annotation that names the code: digest over the source's address, ref and checksum."""

SYNC_PATH = "/workspace"
"""Mount path of the volume in the sync script."""

_FORWARDED = ("AWS_", "GOOGLE_", "AZURE_")
"""Environment variables that a sync needs for object stores, by prefix, the same as in torchrun-controller."""

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
        """Sixteen hex digits over everything that determines the code."""
        source = self.source
        parts = (source.kind.value, source.url, source.ref, source.sha256) if source else ()
        value = sha256("\0".join(parts).encode()).hexdigest()[:16]
        return Traced(
            value, Reason(rule="torchrun.workspace", text="named after the source of the code", origins=self.origins)
        )


def resolve_code(workspace: WorkspaceSection, anchor: Traced, problems: list[Problem], *, has_claim: bool) -> Code:
    """Resolve the source of the code; `anchor` is the place of problems that concern no single field."""
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
        problems.append(
            problem_at(workspace.hot_reload, "torchrun.hot-reload", message, "set the source of the workspace")
        )
    return Code(
        source=source if fetches else None,
        inplace=inplace,
        existing=kind is SourceKind.EXISTING,
        image=workspace.image,
        pull_policy=workspace.pull_policy,
        origins=tuple(origin for value in fetched if value for origin in value.reason.origins),
    )


def _check(
    kind: SourceKind, workspace: WorkspaceSection, anchor: Traced, problems: list[Problem], *, has_claim: bool
) -> None:
    url = workspace.url
    if kind is SourceKind.EXISTING and url:
        message = "an existing workspace is not fetched, so the url is not used"
        problems.append(
            problem_at(url, "torchrun.workspace", message, "remove the url, or set source to zip, git or s3")
        )
    elif kind in (SourceKind.GIT, SourceKind.S3) and url is None:
        message = f"source {kind.value} requires a url"
        problems.append(
            problem_at(workspace.source or anchor, "torchrun.workspace", message, "set workspaceStorage.url")
        )
    elif kind is SourceKind.ZIP and url is None and not has_claim:
        message = "the workspace has no source, so pods start in an empty folder until the volume is filled"
        hint = "set workspaceStorage.url, or claimName of a volume that contains the code"
        problems.append(problem_at(anchor, "torchrun.workspace-empty", message, hint, severity=Severity.WARNING))
    if workspace.ref and kind is not SourceKind.GIT:
        message = f"ref requires source git, but the source is {kind.value}"
        problems.append(problem_at(workspace.ref, "torchrun.workspace", message, "remove it"))
    if workspace.sha256 and kind not in (SourceKind.ZIP, SourceKind.S3):
        message = f"sha256 requires an archive, but the source is {kind.value}"
        hint = "to pin a Git source, set ref to a commit" if kind is SourceKind.GIT else "remove it"
        problems.append(problem_at(workspace.sha256, "torchrun.workspace", message, hint))


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


def forward_environment(env: list[Any]) -> list[Any]:
    """Return the variables that a sync may need to reach an object store."""
    return [item for item in env if str(_plain(item).get("name", "")).startswith(_FORWARDED)]


def _plain(item: Any) -> Any:
    return item.value if isinstance(item, Traced) else item
