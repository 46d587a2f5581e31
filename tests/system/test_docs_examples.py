"""Every console example in README.md, CONTRIBUTING.md and docs/ runs as printed.

A `console` block holds commands (`$ …`) and, after each, the lines that it prints. The blocks of a page run in order, in
one temporary folder. `…` on a line of its own stands for any number of lines, inside a line for any text. A command without
printed output may print anything. Every command has to succeed. `GOLDEN=1` rewrites outputs without such a line.
Blocks marked `console cluster` need `make cluster`; `tests/live/sync/test_tour.py` runs them.

Documents in `yaml` blocks are valid.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from tests.cli.fleet import IDENTITY
from tests.ready import new_cache

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(
        page for page in (ROOT / "docs").rglob("*.md") if "reference" not in page.parts and "adr" not in page.parts
    ),
]
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)

NOT_RUN = {
    "make": "builds an environment or a control plane; CI runs the targets themselves",
    "pip install": "needs the network",
    "ADO_AUTOCONF_PYTHON=~/ado/bin/python pytest": "needs an interpreter with ado-autoconf",
    "reconciler size record --python": "needs an interpreter with ado-autoconf",
}
"""Commands that no test can run, by their first words, with the reason."""

BEFORE = {
    "docs/adopting.md": (
        "git init -q -b main fleet && mkdir -p fleet/kueue fleet/teams/vision",
        "git -C fleet add . && git -C fleet commit -q -m 'as it is'",
    )
}
"""Commands that make what a page starts with: before the files of `SETUP`, and after them."""

SETUP = {
    "docs/adopting.md": {
        "fleet/kueue/flavor.yaml": (
            "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: h100}\nspec: {}\n"
        ),
        "fleet/kueue/vision.yaml": (
            "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: vision}\nspec:\n"
            "  namespaceSelector: {}\n  resourceGroups:\n    - coveredResources: [nvidia.com/gpu]\n"
            "      flavors: [{name: h100, resources: [{name: nvidia.com/gpu, nominalQuota: 64}]}]\n---\n"
            "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {name: vision, namespace: ml}\n"
            "spec: {clusterQueue: vision}\n"
        ),
        "fleet/teams/vision/serve.yaml": (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: serve\n  namespace: ml\n  labels:\n"
            "    kueue.x-k8s.io/queue-name: vision\n    team: vision\nspec:\n  replicas: 2\n"
            "  selector: {matchLabels: {app: serve}}\n  template:\n"
            "    metadata: {labels: {app: serve}}\n    spec:\n      containers:\n        - name: main\n"
            "          image: serve:1\n          resources:\n            limits:\n              nvidia.com/gpu: 1\n"
        ),
        "fleet/teams/vision/values.yaml": "replicas: 3\n",
    },
    "docs/sizing.md": {
        "fleet/ask.py": "import json, sys\njson.dump({'workers': 1, 'gpus': 2, 'error': ''}, open(sys.argv[1], 'w'))\n",
        "fleet/runs.csv": (
            "id,model,method,gpu_model,gpus,seq,per_gpu_batch,precision,optimizer,framework\n"
            "a,meta-llama/Llama-3.1-8B,lora,NVIDIA-A100-SXM4-80GB,1,4096,4,bf16,adamw_torch,fms-hf-tuning\n"
            "b,my-org/secret-13b,full,NVIDIA-A100-SXM4-80GB,8,2048,1,,,\n"
        ),
    },
}
"""Files that a page takes for granted. They are written after the command that creates their folder."""


class Example(Struct, frozen=True):
    """A command, the lines that the page prints after it, and where those begin and end in the page."""

    command: str
    output: str
    start: int
    end: int


def examples(text: str, blocks: re.Pattern[str] = BLOCK) -> Iterator[Example]:
    """Yield the commands of a page, in order."""
    for block in blocks.finditer(text):
        part, at = block[1], block.start(1)
        while part:
            length = _command_length(part) if part.startswith("$ ") else len(part)
            printed = re.match(r"(?:(?!\$ ).*\n)*", part[length:])
            end = length + (printed.end() if printed else 0)
            yield Example(part[2:length].rstrip("\n"), part[length:end], at + length, at + end)
            part, at = part[end:], at + end


def _command_length(part: str) -> int:
    """Return where the command ends: after its line, its continued lines, or its here-document."""
    first, _, rest = part.partition("\n")
    length = len(first) + 1
    if here := re.search(r"<<'?(\w+)'?", first):
        return length + rest.index(f"{here[1]}\n") + len(here[1]) + 1
    while part[:length].endswith("\\\n"):
        length = part.index("\n", length) + 1
    return length


def reason_not_run(command: str) -> str | None:
    """Return why a command is not run; None if it is."""
    return next((reason for words, reason in NOT_RUN.items() if f"{command} ".startswith(f"{words} ")), None)


def matches(printed: str, expected: str) -> bool:
    """Compare an output with the lines of a page, `…` being a wildcard."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else ".*?".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, printed) is not None


class Shell:
    """A shell that keeps its folder from command to command."""

    def __init__(self, folder: Path, home: Path, *more_programs: Path, **more: str) -> None:
        self.folder = folder
        self._home = home
        programs = home / "bin"
        programs.mkdir(parents=True)
        program = programs / "reconciler"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reconciler "$@"\n')
        program.chmod(0o755)
        self._environ = {
            **IDENTITY,
            "PATH": os.pathsep.join([*map(str, (programs, *more_programs)), os.environ["PATH"]]),
            "PYTHONPATH": str(ROOT),
            "HOME": str(home),
            "EDITOR": "true",
            "COLUMNS": "100",
            "LANG": "C.UTF-8",
            "RECONCILER_CACHE_DIR": new_cache(home),
            **more,
        }

    def run(self, command: str) -> tuple[int, str]:
        """Return exit code and output, standard error included."""
        where = self._home / "folder"
        script = f"{command}\ncode=$?\npwd > {where}\nexit $code\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self._environ, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=120, check=False,
        )  # fmt: skip
        self.folder = Path(where.read_text().rstrip("\n"))
        return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_examples_run_as_printed(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    shell = Shell(tmp_path, tmp_path / "home")
    pending = dict(SETUP.get(str(page.relative_to(ROOT)), {}))
    corrections = []
    for command in BEFORE.get(str(page.relative_to(ROOT)), ()):
        code, printed = shell.run(command)
        assert code == 0, printed
        write_pending(pending, tmp_path)
    for example in examples(text):
        if reason_not_run(example.command):
            continue
        code, printed = shell.run(example.command)
        write_pending(pending, tmp_path)
        assert code == 0, f"$ {example.command}\n{printed}"
        if example.output and not matches(printed, example.output):
            if os.environ.get("GOLDEN") and "…" not in example.output.splitlines():
                corrections.append((example, printed))
            else:
                pytest.fail(f"{page.name} prints something else after:\n$ {example.command}\n{printed}")
    for example, printed in reversed(corrections):
        text = text[: example.start] + printed + text[example.end :]
    if corrections:
        page.write_text(text)
        pytest.fail(f"{page.name} was rewritten: review the difference")


def write_pending(pending: dict[str, str], folder: Path) -> None:
    """Write the files whose folders are there."""
    for path in [path for path in pending if (folder / path).parent.is_dir()]:
        (folder / path).write_text(pending.pop(path))


def test_every_exception_is_used() -> None:
    """A command that no page uses any more is dropped from the lists, too."""
    commands = [example.command for page in PAGES for example in examples(page.read_text())]
    for words in NOT_RUN:
        assert any(f"{command} ".startswith(f"{words} ") for command in commands), words


def test_a_wrong_output_and_a_wrong_command_are_found(tmp_path: Path) -> None:
    """The comparison can fail."""
    assert matches("one\ntwo\nthree\n", "one\n…\n")
    assert matches("one\ntwo\nthree\n", "…\nthree\n")
    assert matches("chosen 2 GPUs: long\n", "chosen 2 GPUs: …\n")
    assert not matches("one\ntwo\n", "one\n")
    assert not matches("chosen 4 GPUs\n", "chosen 2 GPUs\n")
    assert not matches("one\ntwo\n", "two\n…\n")
    shell = Shell(tmp_path, tmp_path / "home")
    assert shell.run("reconciler plann")[0] == 2
    assert shell.run("mkdir a && cd a")[0] == 0
    assert shell.folder == tmp_path / "a"
    [first, second] = examples("```console\n$ cat > f <<'END'\n$ x\nEND\n$ echo a \\\n  b\na b\n```\n")
    assert (first.command, first.output) == ("cat > f <<'END'\n$ x\nEND", "")
    assert (second.command, second.output) == ("echo a \\\n  b", "a b\n")


FRAGMENTS = {"ReconcilerConfig": "  clusters: [{name: main}]\n", "HealthPolicy": ""}
"""Kinds of which pages show only a part of `spec`, with what such a part leaves out."""


def yaml_problems(text: str, catalogue: Catalogue) -> list[str]:
    """Return what is wrong with documents, or with a part of the `spec` of one."""
    if not text.startswith("spec:\n"):
        return _document_problems(text, catalogue) if re.match(r"apiVersion:", text) else []  # files of other programs
    found = []
    for kind, left_out in FRAGMENTS.items():
        head = f"apiVersion: gpureconciler.io/v1alpha1\nkind: {kind}\nmetadata: {{name: example}}\n"
        rest = left_out if left_out.partition(":")[0] not in text else ""
        found.append(_document_problems(head + text + rest, catalogue))
    return min(found, key=len)


def _document_problems(text: str, catalogue: Catalogue) -> list[str]:
    reading = read("example.yaml", text.encode())
    refused = [problem for document in reading.documents for problem in catalogue.validate(document)]
    return [str(problem) for problem in (*reading.problems, *refused)]


@pytest.mark.parametrize("page", [page for page in PAGES if YAML.search(page.read_text())], ids=lambda page: page.name)
def test_documents_on_pages_are_valid(page: Path) -> None:
    catalogue = Catalogue(resources)
    for block in YAML.finditer(page.read_text()):
        assert yaml_problems(block[1], catalogue) == []


def test_an_invalid_document_is_found() -> None:
    catalogue = Catalogue(resources)
    assert yaml_problems("spec:\n  budgets: {deletes: {count: 1}}\n", catalogue) == []
    assert yaml_problems("spec:\n  jobs: {exclude: true}\n", catalogue) == []
    assert len(yaml_problems("spec:\n  budgets: {deletions: 1}\n", catalogue)) == 1
    assert len(yaml_problems("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: no}\n", catalogue)) == 1
    assert yaml_problems("mode: apply\n", catalogue) == []
