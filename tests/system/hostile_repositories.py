"""Repositories that somebody prepared: what they hold, and the answer of each."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Hostile:
    """One repository: `make` prepares a fresh one, `rules` are those that have to be told, `words` what the text says."""

    name: str
    make: Callable[[Path], None]
    code: int = 3
    rules: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    limited: bool = True
    """Whether one second of processor time and 256 MiB have to do (not for tens of thousands of files)."""


def put(path: str, content: str | bytes) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        target = os.path.join(os.fsencode(root), os.fsencode(path))  # noqa: PTH118 - bytes: names may be no text
        os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - the same
        with open(target, "wb") as file:  # noqa: PTH123 - the same
            file.write(content.encode() if isinstance(content, str) else content)

    return make


def link(path: str, to: str) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.symlink_to(to)

    return make


def folder_link(path: str, to: str) -> Callable[[Path], None]:
    """Replace a folder by a link to another one."""

    def make(root: Path) -> None:
        shutil.rmtree(root / path)
        (root / path).symlink_to(to)

    return make


def both(*steps: Callable[[Path], None]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        for step in steps:
            step(root)

    return make


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True)


def committed(step: Callable[[Path], None]) -> Callable[[Path], None]:
    def make(root: Path) -> None:
        step(root)
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "hostile")

    return make


def _submodule(root: Path) -> None:
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},jobs/module")
    git(root, "commit", "--quiet", "--message", "submodule")
    (root / "jobs/module").mkdir()


def _fifo(root: Path) -> None:
    os.mkfifo(root / "jobs/pipe.yaml")


def _fifo_over_tracked(root: Path) -> None:
    (root / "jobs/vision/vit.yaml").unlink()
    os.mkfifo(root / "jobs/vision/vit.yaml")


def _socket(root: Path) -> None:
    here = os.open(root / "jobs", os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/socket.yaml")
    os.close(here)


def _filters(root: Path) -> None:
    put(".gitattributes", "*.yaml filter=evil diff=evil merge=evil textconv=evil\n")(root)
    for name in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "diff.evil.textconv",
        "diff.evil.command",
    ):
        git(root, "config", name, f"touch '{root}/../pwned'; cat")
    git(root, "config", "filter.evil.required", "true")
    put("jobs/vision/new.yaml", config_map("new"))(root)


def _hooks(root: Path) -> None:
    for name in (
        "pre-commit",
        "post-commit",
        "post-checkout",
        "post-index-change",
        "reference-transaction",
        "fsmonitor",
    ):
        hook = root / ".git/hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{root}/../pwned'\n")
        hook.chmod(0o755)
    git(root, "config", "core.fsmonitor", str(root / ".git/hooks/fsmonitor"))
    git(root, "config", "core.pager", f"touch '{root}/../pwned'")
    git(root, "config", "core.sshCommand", f"touch '{root}/../pwned'")
    put("jobs/vision/new.yaml", config_map("new"))(root)


def config_map(name: str, extra: str = "", data: str = "") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  labels: {{team: x}}\n{extra}" + (
        f"data:\n{data}" if data else ""
    )


def _queue_chain(count: int, *, top: str = "") -> str:
    """Return queues, each of which is the parent of the next one."""
    parents = [top, *(f"q{number}" for number in range(count - 1))]
    return "---\n".join(QUEUE.format(name=f"q{number}", parent=parent) for number, parent in enumerate(parents))


def _case_collision(root: Path) -> None:
    put("jobs/a/CONFIG.yaml", config_map("one"))(root)
    put("jobs/a/config.yaml", config_map("two"))(root)


def _many_files(root: Path) -> None:
    for number in range(20_000):
        folder = root / f"jobs/many/{number // 500:03}"
        if number % 500 == 0:
            folder.mkdir(parents=True)
        (folder / f"{number}.yaml").write_bytes(b"x\n")


LFS = (
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
)

CYCLE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: {name}}}
spec:
  queue:
    name: {name}
    parentQueue: {parent}
    resources: {{gpu: {{quota: 1, limit: 2, overQuotaWeight: 1}}}}
  image: registry.example.com/train:1
  nodeResources: {{gpus: 8, cpus: 96, memory: 960Gi}}
"""

QUOTA = """\
apiVersion: v1
kind: ResourceQuota
metadata: {{name: q, labels: {{team: x}}}}
spec: {{hard: {{requests.memory: "{size}"}}}}
"""

QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: {name}}}
spec: {{parentQueue: "{parent}", resources: {{gpu: {{quota: 1, limit: 2, overQuotaWeight: 1}}}}}}
"""
JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}, labels: {{team: x}}}}
spec:
  jobQueue: {queue}
  numGPUs: 1
  command: {command}
  workspaceStorage: {{source: git, url: 'https://git.example.com/a.git', ref: v1}}
"""


def _many_secrets() -> str:
    """Return 1,000 Secrets of 2.7 KB with an error each, whose messages must not repeat any of 2,000 values."""
    head = "apiVersion: v1\nkind: Secret\nmetadata: {name: s%d, labels: {team: x}}\n"
    values = "stringData:\n  a: %d\n  b: %s\n"
    return "---\n".join(
        (head + values) % (number, 474700000 + number, f"hunter{number:04}" * 270) for number in range(1000)
    )


CASES = (
    # What is no file
    Hostile(name="symlink below jobs", make=link("jobs/passwd.yaml", "/etc/passwd"), rules=("git.symlink",)),
    Hostile(name="symlink, committed", make=committed(link("jobs/passwd.yaml", "/etc/passwd")), rules=("git.symlink",)),
    Hostile(name="symlink without a suffix", make=link("jobs/passwd", "/etc/passwd"), rules=("git.symlink",)),
    Hostile(name="symlink to a folder", make=link("jobs/etc", "/etc"), rules=("git.symlink",)),
    Hostile(
        name="symlink below rendered",
        make=link("rendered/main/default/job-probe.yaml", "/etc/passwd"),
        rules=("git.symlink",),
    ),
    Hostile(name="symlink as rendered", make=folder_link("rendered", "/etc"), rules=("git.symlink",)),
    Hostile(name="symlink as rendered, inside", make=folder_link("rendered", "jobs"), rules=("git.symlink",)),
    Hostile(
        name="symlink as rendered, committed", make=committed(folder_link("rendered", "/etc")), rules=("git.symlink",)
    ),
    Hostile(name="symlink as a cluster", make=folder_link("rendered/main", "../jobs"), rules=("git.symlink",)),
    Hostile(name="symlink as jobs", make=folder_link("jobs", "/etc"), rules=("git.symlink",)),
    Hostile(
        name="symlink below evidence", make=link("evidence/main/nodes.yaml", "/etc/passwd"), rules=("git.symlink",)
    ),
    Hostile(name="symlink below policies", make=link("policies/p.yaml", "/etc/passwd"), rules=("git.symlink",)),
    Hostile(name="symlink as settings", make=link("reconciler.yaml", "/etc/passwd"), code=2),
    Hostile(name="submodule", make=_submodule, rules=("git.submodule",)),
    Hostile(name="named pipe", make=_fifo, code=0),
    Hostile(name="named pipe over a file", make=_fifo_over_tracked, rules=("git.special-file",)),
    Hostile(name="socket", make=_socket, code=0),
    Hostile(name="LFS pointer", make=put("jobs/lfs.yaml", LFS), rules=("git.lfs-pointer",), words=("git lfs",)),
    Hostile(name="filters", make=_filters, code=0),
    Hostile(name="hooks", make=_hooks, code=0),
    # Objects without a name, or with one that no file can have
    Hostile(
        name="a Job without metadata",
        make=put(
            "jobs/a.yaml",
            "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}\n",
        ),
        rules=("schema.missing-field",),
    ),
    Hostile(
        name="a definition without a name",
        make=put(
            "jobs/a.yaml",
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {}\nspec: {group: a.b, names: {plural: "
            "xs, kind: X}, scope: Namespaced, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: "
            "{type: object}}}]}\n",
        ),
        rules=("schema.missing-field",),
    ),
    *(
        Hostile(
            name=f"a name with U+{ord(sign):04X}",
            make=put(
                "jobs/a.yaml",
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"
                f'metadata: {{name: "a\\x{ord(sign):02x}b", namespace: x}}\nrules: []\n',
            ),
            rules=("schema.bad-name",),
        )
        for sign in "\n\t\0"
    ),
    Hostile(
        name="a kind with a newline",
        make=put("jobs/a.yaml", 'apiVersion: example.org/v1\nkind: "F\\no"\nmetadata: {name: a}\n'),
        rules=("schema.bad-value",),
    ),
    # Names of files
    Hostile(name="file name with ..", make=put("jobs/..yaml", config_map("a")), code=0),
    Hostile(name="file name, percent", make=put("jobs/%2fetc%2fpasswd.yaml", config_map("a")), code=0),
    Hostile(name="file name, newline", make=put("jobs/a\n::error::b.yaml", config_map("a")), rules=("git.file-name",)),
    Hostile(name="file name, dash", make=put("jobs/--output=x.yaml", config_map("a")), code=0),
    Hostile(name="folder name, dash", make=put("jobs/-rf/a.yaml", config_map("a")), code=0),
    Hostile(name="file name, no UTF-8", make=put("jobs/a\udcff.yaml", config_map("a")), rules=("git.file-name",)),
    Hostile(name="file name, escape", make=put("jobs/a\x1b[31mred.yaml", config_map("a")), rules=("git.file-name",)),
    Hostile(
        name="file name, long", make=put(f"jobs/{'d' * 200}/{'e' * 200}/{'f' * 240}.yaml", config_map("a")), code=0
    ),
    Hostile(name="file names, case", make=_case_collision, rules=("git.case-collision",)),
    Hostile(
        name="file name, Windows", make=put("jobs/aux.yaml", config_map("a")), code=0, rules=("git.reserved-name",)
    ),
    Hostile(name="file name, colon", make=put("jobs/a:b.yaml", config_map("a")), code=0, rules=("git.reserved-name",)),
    # Size
    Hostile(name="100 MB", make=put("jobs/large.yaml", b"a: " + b"x" * 100_000_000), rules=("yaml.file-size",)),
    Hostile(
        name="10,000 documents",
        make=put("jobs/many.yaml", "".join(f"---\n{config_map(f'c{n}')}" for n in range(10_000))),
        code=0,
        limited=False,
    ),
    Hostile(name="20,000 files", make=_many_files, limited=False, rules=("yaml.not-a-mapping",)),
    Hostile(
        name="object over 1.5 MiB",
        make=put("jobs/b.yaml", config_map("b", data="".join(f"  k{n}: '{'x' * 1000}'\n" for n in range(1600)))),
        rules=("schema.object-size",),
    ),
    Hostile(
        name="annotations",
        make=put("jobs/b.yaml", config_map("b", extra=f"  annotations: {{a: {'x' * 263_000}}}\n")),
        rules=("schema.bad-annotation",),
    ),
    Hostile(
        name="label",
        make=put("jobs/b.yaml", config_map("b", extra="").replace("team: x", f"team: {'x' * 64}")),
        rules=("schema.bad-label",),
    ),
    # Values
    *(
        Hostile(
            name=f"quantity {size}",
            make=put("jobs/b.yaml", QUOTA.format(size=size)),
            rules=("schema.bad-quantity",),
        )
        for size in ("1e400Gi", "0x10", "1 Gi", "NaN")
    ),
    Hostile(
        name="a version that is not served any more",
        make=put("jobs/b.yaml", "apiVersion: batch/v1beta1\nkind: CronJob\nmetadata: {name: c}\nspec: {}\n"),
        rules=("schema.unknown-version",),
    ),
    # Identity
    Hostile(
        name="generateName",
        make=put("jobs/b.yaml", config_map("b").replace("  name: b", "  generateName: b-")),
        rules=("schema.missing-field",),
        words=("generateName cannot be applied",),
    ),
    Hostile(
        name="no name",
        make=put("jobs/b.yaml", config_map("b").replace("  name: b\n", "")),
        rules=("schema.missing-field",),
    ),
    Hostile(
        name="one identity, two files",
        make=both(put("jobs/b.yaml", config_map("b")), put("jobs/c.yaml", config_map("b"))),
        code=4,
        words=("jobs/b.yaml", "jobs/c.yaml"),
    ),
    Hostile(
        name="one identity, one file",
        make=put("jobs/b.yaml", config_map("b") + "---\n" + config_map("b")),
        code=4,
        words=("jobs/b.yaml:1", "jobs/b.yaml:7"),
    ),
    Hostile(
        name="unknown kind",
        make=put("jobs/b.yaml", config_map("b").replace("ConfigMap", "ConfigMpa")),
        rules=("schema.unknown-kind",),
        words=("did you mean",),
    ),
    Hostile(
        name="secret",
        make=put(
            "jobs/b.yaml",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s, labels: {team: x}}\nstringData: {p: hunter2}\n",
        ),
        code=4,
        words=("no-secrets-in-git",),
    ),
    Hostile(name="secrets, 3 MB", make=put("jobs/b.yaml", _many_secrets()), rules=("schema.wrong-type",)),
    Hostile(
        name="list kind",
        make=put(
            "jobs/b.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {team: x}}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, bad: 1}}\n",
        ),
        rules=("schema.unknown-field",),
        words=("jobs/b.yaml:5:",),
    ),
    Hostile(
        name="JSON",
        make=put("jobs/b.json", '{"apiVersion": "v1",\n "kind": "ConfigMap",\n "metadata": {"name": "a", "bad": 1}}\n'),
        rules=("schema.unknown-field",),
        words=("jobs/b.json:3:",),
    ),
    # Between documents
    Hostile(
        name="queue cycle",
        make=both(
            put("queues/a.yaml", CYCLE.format(name="a", parent="b")),
            put("queues/b.yaml", CYCLE.format(name="b", parent="a")),
        ),
        code=4,
        words=("queues/a.yaml", "a < b < a"),
    ),
    Hostile(name="queues, 2,500 levels", make=put("queues/chain.yaml", _queue_chain(2_500)), code=0, limited=False),
    Hostile(
        name="queue cycle of 2,500",
        make=put("queues/chain.yaml", _queue_chain(2_500, top="q2499")),
        code=4,
        words=("queues/chain.yaml", "q0 < q2499 < q2498 < 2495 more < q2 < q1 < q0"),
        limited=False,
    ),
    Hostile(
        name="unknown queue",
        make=put("jobs/j.yaml", JOB.format(name="j", queue="h1000", command="x")),
        words=("did you mean",),
    ),
)
