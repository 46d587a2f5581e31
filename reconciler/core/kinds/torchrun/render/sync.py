"""The shell scripts that put a job's code into its workspace, and that wait for it.

The folder of a job on the volume holds the versions of its code in `.sync`, each complete before it has its name.
`.sync/current` names the one in use: replacing that link switches all files at once. The entries of the folder are
links into it. Nothing that the script did not write is deleted; what jobs wrote between the files of one version
moves along to the next.
"""

from shlex import quote

from reconciler.core.kinds.torchrun.intent.sections import SourceKind, WorkspaceSource

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
