"""The completion script in a real shell, and the list of kinds that `schema` prints."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.fleet import run_verb

ASK = """
source <(reconciler completion bash)
COMP_WORDS=({words}) COMP_CWORD={at}
_reconciler_completion reconciler
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("reconciler pl", 1, {"plan"}),
        ("reconciler ''", 1, {"init", "lint", "plan", "verify", "completion"}),
        ("reconciler plan --ba", 2, {"--base"}),
        ("reconciler plan -o ''", 3, {"text", "json", "markdown", "sarif"}),
        ("reconciler completion z", 2, {"zsh"}),
    ],
)
def test_bash_completes_verbs_flags_and_values(words: str, at: int, expected: set[str]) -> None:
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    call = ["bash", "--norc", "-c", ASK.format(words=words, at=at)]
    ran = subprocess.run(call, env=environ, check=True, capture_output=True, text=True, timeout=60)
    assert expected <= set(ran.stdout.split()), ran.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = run_verb(capsys, ["completion", shell])
    assert ran.code == 0
    assert f"{shell}_complete" in ran.out


def test_kinds_are_listed_with_the_version_that_is_written_in_files(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.split() for line in run_verb(capsys, ["schema"]).out.splitlines()]
    assert ["TorchrunJob", "torchrun.ai/v1alpha1"] in lines
    assert ["ConfigMap", "v1"] in lines
