"""The code of a job: where it comes from, and the containers that fetch it."""

from hashlib import sha256
from shlex import quote
from typing import Any

from msgspec import Struct

from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.intent.sections import SourceKind, WorkspaceSection, WorkspaceSource
from reconciler.kinds.torchrun.render.command import as_kubelet_reads
from reconciler.kinds.torchrun.render.template import Template
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason, Traced
from reconciler.kube.secrets import mask_text

# The shell scripts that put a job's code into its workspace, and that wait for it.
# The folder of a job on the volume holds the versions of its code in `.sync`, each complete before it has its name.
# `.sync/current` names the one in use: replacing that link switches all files at once. The entries of the folder are
# links into it. Nothing that the script did not write is deleted; what jobs wrote between the files of one version
# moves along to the next.


ROOT = "/workspace"

MARKER = f"{ROOT}/.sync-success"
"""File that exists once the code is complete."""

WAIT_SECONDS = 600
"""Seconds that training waits for its code: ten minutes, as in torchrun-controller."""

# The trap runs also after a failure. Without locks two pods may do the same work at once, each in a folder of its own.
_BEGIN = """\
set -eu
cd {root}
version={version}
mkdir -p .sync
exec 9>.sync/lock
if flock 9; then rm -rf .sync/new.*; else echo "the volume has no locks; going on without one" >&2; fi
staging=$(mktemp -d "$PWD/.sync/new.XXXXXX")
trap 'rm -rf "$staging" "$staging".*' EXIT
chmod 755 "$staging"
archive=$staging.archive
files() {{  # never empty, as patterns of grep must be
  echo .
  find . \\( -name .git -o -name __pycache__ \\) -prune -o \\( -type f -o -type l \\) -print
}}
if [ ! -d ".sync/$version" ]; then
"""

_COMPLETE = """\
(cd "$staging" && files) > "$staging.files"
(cd "$staging" && find . -type f -exec sha256sum {} +) > "$staging.sums"
mv -f "$staging.files" ".sync/$version.files"
mv -f "$staging.sums" ".sync/$version.sums"
mv -T "$staging" ".sync/$version" || [ -d ".sync/$version" ]
fi
old=$(readlink .sync/current || :)
"""

# Names that begin with a dot are linked too; `..?*` are those that begin with two.
_SWITCH = """\
entries() { for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
  if [ -e "$entry" ] || [ -L "$entry" ]; then printf '%s\\n' "${entry##*/}"; fi
done; }
entries ".sync/$version" | while IFS= read -r name; do
  if { [ -e "./$name" ] || [ -L "./$name" ]; } && [ "$(readlink "./$name" || :)" != ".sync/current/$name" ]; then
    echo "$name is part of the code, and something else has that name in the workspace: rename one of them" >&2
    exit 1
  fi
done
if [ "$old" != "$version" ]; then
  ln -s "$version" "$staging.link"
  mv -fT "$staging.link" .sync/current
fi
"""

_KEEP = """\
if [ -n "$old" ] && [ "$old" != "$version" ] && [ -d ".sync/$old" ]; then
  (cd ".sync/$old" && files) | grep -vxFf ".sync/$old.files" | while IFS= read -r file; do
    to=.sync/$version/$file
    if [ -e "$to" ] || [ -L "$to" ] || ! mkdir -p "${to%/*}" || ! mv ".sync/$old/$file" "$to"; then
      echo "$file stays in .sync/$old: the code has something else of that name" >&2
    fi
  done
fi
"""

_LINK = """\
entries ".sync/$version" | while IFS= read -r name; do
  [ -L "./$name" ] || ln -sn ".sync/current/$name" "./$name" 2>/dev/null || [ -L "./$name" ]
done
entries . | while IFS= read -r name; do
  if [ "$(readlink "./$name" || :)" = ".sync/current/$name" ] && [ ! -e "./$name" ] && [ ! -L ".sync/current/$name" ]
  then rm "./$name"; fi
done
"""

# A version is kept while processes that started with it may still read from it: until there are two newer ones.
_FORGET = """\
for sums in .sync/*.sums; do
  other=${sums##*/} other=${other%.sums}
  case $other in "$version" | "$old" | new.*) continue ;; esac
  [ -d ".sync/$other" ] || continue
  (
    cd ".sync/$other"
    sha256sum -c "../$other.sums" 2>/dev/null | sed -n 's/: OK$//p' | while IFS= read -r file; do rm -f "$file"; done
    while IFS= read -r file; do if [ -L "$file" ]; then rm -f "$file"; fi; done < "../$other.files"
    find . -depth -mindepth 1 -type d -exec rmdir {} + 2>/dev/null || :
  )
  if rmdir ".sync/$other" 2>/dev/null; then rm -f "$sums" ".sync/$other.files"; fi
done
"""

_END = """\
: > .sync-success
echo "workspace complete"
"""


def sync_script(source: WorkspaceSource, version: str) -> str:
    """Write the script that fetches `source` into the workspace, as the version of that name."""
    begin = _BEGIN.format(root=ROOT, version=quote(version))
    return begin + _FETCHES[source.kind](source) + _COMPLETE + _SWITCH + _KEEP + _LINK + _FORGET + _END


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


_UNPACK_TAR = 'tar -xf "$archive" -C "$staging"\n'

_UNPACK_TAR_GZ = 'tar -xzf "$archive" -C "$staging"\n'

_UNPACK_ZIP = 'unzip -q "$archive" -d "$staging"\n'

_TAR_GZ, _TAR = (".tar.gz", ".tgz"), (".tar",)


def _zip(source: WorkspaceSource) -> str:
    return f'wget -q -O "$archive" {_operand(source.url)}\n' + _verify(source) + _unpack(source.url, _UNPACK_ZIP)


def _git(source: WorkspaceSource) -> str:
    url, ref = quote(source.url), quote(source.ref or "HEAD")
    # A server may refuse to give a single commit by its id; then all branches and tags are fetched.
    return f"""\
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=file:git:http:https:ssh
git init -q "$staging"
run() {{ git -c safe.directory='*' -c advice.detachedHead=false -c gc.auto=0 -C "$staging" "$@"; }}
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
    fetch = f'/s5cmd --log error cp {quote(source.url)} "$archive"\n'
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
    return f"printf '%s  %s\\n' {quote(source.sha256)} \"$archive\" | sha256sum -c - >/dev/null\n"


def _operand(text: str) -> str:
    """Quote an operand so that it cannot be read as an option: wget has no `--` in every build."""
    return quote(text if not text.startswith("-") else f"./{text}")


_FETCHES = {
    SourceKind.ZIP: _zip,
    SourceKind.GIT: _git,
    SourceKind.S3: _s3,
    SourceKind.EXISTING: _existing,
}

# Alpine's git image has wget and unzip too (busybox); s5cmd's image has tar and unzip.
_GIT_IMAGE = "alpine/git:2.49.1"

_S3_IMAGE = "peakcom/s5cmd:v2.3.0"


def default_image(source: WorkspaceSource) -> str:
    """Return the image whose tools the script of this source needs."""
    return _S3_IMAGE if source.kind is SourceKind.S3 else _GIT_IMAGE


DIGEST = "torchrun.ai/workspace-digest"
"""Annotation that names the code: digest over the source's address, ref and checksum."""

_FORWARDED = ("AWS_", "GOOGLE_", "AZURE_", "S3_", "GIT_", "SSL_CERT_")
"""Prefixes of environment variables that a sync needs: for object stores as in torchrun-controller, and for Git."""

_PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"))

_SECURITY = (
    *("allowPrivilegeEscalation", "readOnlyRootFilesystem", "runAsGroup", "runAsNonRoot", "runAsUser"),
    "seccompProfile",
)
"""Fields of the trainer's security context that the sync has too; what it is allowed besides is for the trainer."""

_SYNC_USER = Traced(
    65532,
    Reason(rule="torchrun.default", text="the default images run as root, which runAsNonRoot of the queue forbids"),
)

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
    if url and mask_text(url.value) != url.value:
        message = "the url contains a credential, which everyone who can read the repository or the Job can see"
        hint = "give it as a variable from a Secret: GIT_CONFIG_* with http.extraHeader, or AWS_ keys"
        problems.append(problem_at(url, "torchrun.workspace-secret", message, hint))
    if url and has_claim and not _is_pinned(kind, workspace):
        message = "the content at the url can change, but a volume that already has the code keeps the old version"
        hint = "set ref to a commit" if kind is SourceKind.GIT else "set sha256 of the archive"
        problems.append(problem_at(url, "torchrun.workspace-unpinned", message, hint, severity=Severity.WARNING))
    if workspace.ref and kind is not SourceKind.GIT:
        message = f"ref requires source git, but the source is {kind.value}"
        problems.append(problem_at(workspace.ref, "torchrun.workspace", message, "remove it"))
    if workspace.sha256 and kind not in (SourceKind.ZIP, SourceKind.S3):
        message = f"sha256 requires an archive, but the source is {kind.value}"
        hint = "to pin a Git source, set ref to a commit" if kind is SourceKind.GIT else "remove it"
        problems.append(problem_at(workspace.sha256, "torchrun.workspace", message, hint))


_COMMIT = later(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1 or SHA-256


def _is_pinned(kind: SourceKind, workspace: WorkspaceSection) -> bool:
    if kind is SourceKind.GIT:
        return workspace.ref is not None and bool(_COMMIT.fullmatch(workspace.ref.value))
    return workspace.sha256 is not None


def sync_container(
    code: Code, source: WorkspaceSource, template: Template, env: list[Any], folder: str
) -> dict[str, Any]:
    """Return the container that fetches the code into a folder of the volume."""
    reason = Reason(rule="torchrun.workspace", text=f"fetches the {source.kind.value} source", origins=code.origins)
    script = Traced(as_kubelet_reads(sync_script(source, code.digest.value)), reason)
    container = _container("workspace-sync", code, template, script, folder)
    if env:
        container["env"] = env
    return container


def waiting_container(code: Code, template: Template, folder: str) -> dict[str, Any]:
    """Return the container that waits until the code has been fetched for the first time."""
    reason = Reason(rule="torchrun.workspace", text=f"training starts once {MARKER} exists", origins=code.origins)
    return _container("workspace-wait", code, template, Traced(wait_script(), reason), folder)


def _container(name: str, code: Code, template: Template, script: Traced, folder: str) -> dict[str, Any]:
    image = code.image
    if image is None and code.source:
        text = f"image that fetches a {code.source.kind.value} source"
        image = Traced(default_image(code.source), Reason(rule="torchrun.default", text=text))
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "command": ["/bin/sh", "-c", script],
        "resources": _RESOURCES,
        "volumeMounts": [{"name": "workspace", "mountPath": ROOT, "subPath": folder}],
    }
    security = _security_context(code, template)
    if security:
        container["securityContext"] = security
    if code.pull_policy:
        container["imagePullPolicy"] = code.pull_policy
    return container


def _security_context(code: Code, template: Template) -> dict[str, Any]:
    """Return the restrictions of the trainer, with a user for default images where the queue forbids root."""
    pod, trainer = (
        found.value if found and isinstance(found.value, dict) else {}
        for found in (template.pod.get("securityContext"), template.trainer.get("securityContext"))
    )
    security: dict[str, Any] = {key: trainer[key] for key in _SECURITY if key in trainer}
    dropped = trainer["capabilities"].get("drop") if isinstance(trainer.get("capabilities"), dict) else None
    if dropped:
        security["capabilities"] = {"drop": dropped}
    merged = {**pod, **trainer}
    if merged.get("runAsNonRoot") is True and "runAsUser" not in merged and code.image is None:
        security["runAsUser"] = _SYNC_USER
    return security


def forward_environment(env: list[Any]) -> list[Any]:
    """Return the variables that a sync may need to reach its source: credentials, endpoints, proxies."""
    return [item for item in env if _is_forwarded(str(_plain(item).get("name", "")))]


def _is_forwarded(name: str) -> bool:
    return name.startswith(_FORWARDED) or name.upper() in _PROXIES


def _plain(item: Any) -> Any:
    return item.value if isinstance(item, Traced) else item
