"""The shell scripts that fill a workspace: a source in, POSIX `sh` text out.

Every script fails at the first failing command, fetches into a staging folder, replaces what was there only after all
of it arrived, and writes the marker last. So a marker is never seen beside code that is missing or half written, and a
failed download ends with a non-zero status that the pod shows.
"""

from shlex import quote

from reconciler.core.kinds.torchrun.intent.workspace import SourceKind, WorkspaceSource

ROOT = "/workspace"
MARKER = f"{ROOT}/.sync-success"
"""Exists once the code is complete."""

WAIT_SECONDS = 600
"""How long training waits for its code: ten minutes, as torchrun-controller waited for an upload."""

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
    return f"wget -q -O .sync-archive {_operand(source.url)}\n" + _checked(source) + _unpack(source.url, _UNPACK_ZIP)


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
    return fetch + _checked(source) + _unpack(source.url, _UNPACK_TAR_GZ)


def _existing(_: WorkspaceSource) -> str:
    raise ValueError("an existing workspace is not fetched")


def _unpack(url: str, otherwise: str) -> str:
    path = url.partition("?")[0].partition("#")[0].lower()
    if path.endswith(_TAR_GZ):
        return _UNPACK_TAR_GZ
    if path.endswith(_TAR):
        return _UNPACK_TAR
    return _UNPACK_ZIP if path.endswith(".zip") else otherwise


def _checked(source: WorkspaceSource) -> str:
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
