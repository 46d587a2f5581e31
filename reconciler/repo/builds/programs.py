"""The user's own `kustomize` and `helm`, each in a limited child process in a folder that holds what it may read."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ConfigError, OutsideError
from reconciler.processes import ChildCommand, ChildProcess, ProcessUnavailable, without_credentials
from reconciler.repo.builds.inputs import KUSTOMIZATIONS, generated_resources
from reconciler.repo.config.builds import ROOT, Build, Tool
from reconciler.repo.port import Cache

SECONDS = 120.0
"""Time for one build. Large overlays (1,000 objects) take under 10 s."""
_MEMORY_BYTES = 2 << 30
_FILE_BYTES = 256 << 20
MAX_OUTPUT_BYTES = 64 << 20
_NOWHERE = "http://127.0.0.1:9"
"""A proxy that nobody serves (the discard port), for a program that may not use the network."""
_HINTS = {
    Tool.KUSTOMIZE: "install it (https://kubectl.docs.kubernetes.io/installation/kustomize), or kubectl, in PATH",
    Tool.HELM: "install it (https://helm.sh/docs/intro/install) in PATH",
}


class BuildFailed(OutsideError):
    """A program refused a build; `lines` are its own last messages."""

    def __init__(self, message: str, lines: list[str]) -> None:
        super().__init__(message)
        self.lines = lines


class BuildProgram(Struct, frozen=True, kw_only=True):
    """An installed program: how it is called, and its version as it says it (`v5.8.1`)."""

    argv: tuple[str, ...]
    version: str


def find_program(tool: Tool, wanted: str, cache: Cache | None) -> BuildProgram:
    """Return the program that builds. Raises `OutsideError` without one, `ConfigError` with another version.

    Its version is asked once, and again when its file is another one.
    """
    program = _found(tool, os.environ.get("PATH", ""), cache)
    if wanted and program.version.lstrip("v") != wanted.lstrip("v"):
        raise ConfigError(
            f"{' '.join(program.argv)} has version {program.version}, but spec.builds.{tool} pins {wanted}",
            hint="install the pinned version, or change spec.builds in reconciler.yaml",
        )
    return program


def _found(tool: Tool, path: str, cache: Cache | None) -> BuildProgram:
    if tool is Tool.HELM:
        if helm := shutil.which("helm", path=path):
            return BuildProgram(argv=(helm,), version=_version((helm, "version", "--template", "{{.Version}}"), cache))
    elif kustomize := shutil.which("kustomize", path=path):
        return BuildProgram(argv=(kustomize, "build"), version=_version((kustomize, "version"), cache))
    elif kubectl := shutil.which("kubectl", path=path):
        said = _version((kubectl, "version", "--client", "--output", "json"), cache)
        return BuildProgram(argv=(kubectl, "kustomize"), version=str(json.loads(said or "{}").get("kustomizeVersion")))
    raise OutsideError(f"{tool} is not installed, and spec.sources wants a build by it", hint=_HINTS[tool])


def _version(argv: tuple[str, ...], cache: Cache | None) -> str:
    state = Path(argv[0]).stat()
    key = f"program:{argv}:{state.st_ino}:{state.st_size}:{state.st_mtime_ns}"
    if cache is not None and (known := cache.get(key)) is not None:
        return known.decode()
    said = _output(argv).strip()
    if cache is not None:
        cache.put(key, said.encode())
    return said


def _output(argv: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory(prefix="reconciler-build-") as scratch:
        (Path(scratch) / "repository").mkdir()
        return _run(argv, Path(scratch), Path(scratch), network=False).decode("utf-8", "replace")


def run_build(program: BuildProgram, build: Build, contents: Mapping[str, bytes]) -> bytes:
    """Build in a folder with these files, and return the documents. Raises `BuildFailed`, or `OutsideError`.

    The program finds no plugins, no configuration of the user and, unless the entry allows it, no network.
    """
    with tempfile.TemporaryDirectory(prefix="reconciler-build-") as scratch:
        root = Path(scratch) / "repository"
        for path, content in contents.items():
            target = root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        root.mkdir(exist_ok=True)
        prefix = "" if build.path == ROOT else f"{build.path}/"
        if build.tool is Tool.KUSTOMIZE:
            # A kustomization around the overlay adds what the delivery adds, and has each object say where it is from.
            has_own = any(f"{prefix}{name}" in contents for name in KUSTOMIZATIONS)
            wrapper = {
                "resources": [build.path] if has_own else generated_resources(build.path, contents),
                **build.overrides,
                "buildMetadata": ["originAnnotations", "transformerAnnotations"],
            }
            folder = root
            if has_own and build.path == ROOT:  # its kustomization stands where the one around it would
                folder, wrapper["resources"] = Path(scratch), ["repository"]
            (folder / "kustomization.yaml").write_text(json.dumps(wrapper))
            argv = (*program.argv, "--load-restrictor", "LoadRestrictionsNone", str(folder))
            return _run(argv, root, Path(scratch), network=build.network)
        if build.network and (root / build.path / "Chart.yaml").exists():
            _run((*program.argv, "dependency", "build", build.path), root, Path(scratch), network=True)
        return _run((*program.argv, *_template(build, Path(scratch))), root, Path(scratch), network=build.network)


def _template(build: Build, scratch: Path) -> tuple[str, ...]:
    inline = scratch / "inline-values.json"
    inline.write_text(json.dumps(dict(build.inline_values)))
    return (
        *("template", build.release, f"./{build.path}", "--include-crds", "--skip-tests"),
        *(("--namespace", build.namespace) if build.namespace else ()),
        *(("--kube-version", build.kube_version) if build.kube_version else ()),
        *(part for path in build.values for part in ("--values", path)),
        *("--values", str(inline)),
    )


def _run(argv: tuple[str, ...], folder: Path, scratch: Path, *, network: bool) -> bytes:
    """Run a program in a folder; its home, empty, is below `scratch` too."""
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    environ = without_credentials(os.environ)
    environ |= {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_CACHE_HOME": str(home),
        "XDG_DATA_HOME": str(home),
    }
    environ |= {"HELM_PLUGINS": str(home), "GIT_TERMINAL_PROMPT": "0"}
    if not network:
        environ |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE)
        environ |= {"NO_PROXY": "", "no_proxy": "", "GIT_ALLOW_PROTOCOL": "none", "PATH": str(home)}
    name = Path(argv[0]).name
    command = ChildCommand(
        name=name,
        argv=argv,
        folder=folder,
        environ=environ,
        memory_bytes=_MEMORY_BYTES,
        file_bytes=_FILE_BYTES,
    )
    child = ChildProcess(command, interactive=True)
    try:
        code, output = child.collect(seconds=SECONDS, max_bytes=MAX_OUTPUT_BYTES)
        lines = [line.replace(f"{scratch}/", "").replace("repository/", "") for line in child.messages()]
    except ProcessUnavailable as error:
        raise BuildFailed(str(error), []) from error
    finally:
        child.end()
    if code:
        raise BuildFailed(f"{name} failed with exit code {code}", lines)
    return output
