"""Create a temporary config repository, change it, plan it, commit it and plan again: `make demo`."""

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

_AUTHOR = {
    "GIT_AUTHOR_NAME": "Demo",
    "GIT_AUTHOR_EMAIL": "demo@example.com",
    "GIT_COMMITTER_NAME": "Demo",
    "GIT_COMMITTER_EMAIL": "demo@example.com",
}
_EDITS = (
    ("queues/h100.yaml", "quota: 32", "quota: 48"),
    ("jobs/vision/vit.yaml", "numGPUs: 16 ", "numGPUs: 32 "),
    ("jobs/language/llama-lora.yaml", "--max_seq_length 4096", "--max_seq_length 8192"),
)
_MESSAGE = "vit: 32 GPUs; llama-lora: longer samples"


def main() -> int:
    """Run the demo in a temporary folder; return the exit code of the first step that fails."""
    with tempfile.TemporaryDirectory(prefix="reconciler-demo-") as scratch:
        fleet = Path(scratch) / "fleet"
        steps = [
            partial(_run, "reconciler", "init", "fleet", cwd=Path(scratch)),
            partial(_edit, fleet),
            partial(_run, "reconciler", "plan", cwd=fleet),
            partial(
                _run,
                "git",
                "commit",
                "--quiet",
                "--all",
                "--message",
                _MESSAGE,
                cwd=fleet,
            ),
            partial(_run, "reconciler", "commit", "-o", "name", cwd=fleet),
            partial(_run, "git", "--no-pager", "log", "--stat", "-1", cwd=fleet),
            partial(_run, "reconciler", "plan", "--exit-code", cwd=fleet),
            partial(_run, "reconciler", "verify", cwd=fleet),
        ]
        for step in steps:
            if code := step():
                return code
    return 0


def _edit(fleet: Path) -> int:
    for path, old, new in _EDITS:
        text = (fleet / path).read_text()
        if old not in text:
            print(f"{path} does not hold {old!r}", file=sys.stderr)
            return 1
        (fleet / path).write_text(text.replace(old, new))
        _say(f"edit {path}: {old.strip()} -> {new.strip()}")
    return 0


def _run(*command: str, cwd: Path) -> int:
    _say(" ".join(f'"{word}"' if " " in word else word for word in command))
    program, *rest = command
    argv = [sys.executable, "-m", "reconciler", *rest] if program == "reconciler" else [program, *rest]
    return subprocess.run(argv, cwd=cwd, env={**os.environ, **_AUTHOR}, check=False).returncode


def _say(line: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}$ {line}{plain}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
