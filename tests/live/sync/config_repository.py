"""A config repository made from the template, for one KAI and one Kueue cluster, that is pushed to a Git server."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.bed.git_http import GitServer
from tests.cluster.kubeconfig import with_contexts

CLUSTERS = ("kai", "kueue")
ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "gitops-repo-template"
_AUTHOR = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Platform"), ("EMAIL", "platform@example.com"))
}
_SETTINGS = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {{name: fleet}}
spec:
  clusters:
    - name: kai
      backend: kai
      namespace: {name}-kai
      external: [Queue/default-parent-queue, Namespace/{name}-kai]
    - name: kueue
      backend: kueue
      namespace: {name}-kueue
      select: {{folders: [queues, jobs/vision]}}
      external: [Namespace/{name}-kueue]
  sources: [queues, jobs]
  policies: [policies]
  onImmutableChange: replace
  budgets: {{deletes: {{share: 1.0}}, disruption: {{share: 1.0}}, gpuQuotaChange: {{share: 1.0}}}}
"""
_PRODUCT, _MEMORY = "NVIDIA-H100-80GB-HBM3", "81559"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRepository:
    """A checkout whose `rendered/` is committed and pushed to `url`. Queue and namespaces begin with `name`."""

    name: str
    folder: Path
    url: str
    clusters: tuple[str, ...] = CLUSTERS

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace a text that a source file holds once."""
        text = (self.folder / path).read_text(encoding="utf-8")
        assert text.count(old) == 1, f"{path} holds {old!r} {text.count(old)} times"
        (self.folder / path).write_text(text.replace(old, new), encoding="utf-8")

    def remove(self, path: str) -> None:
        """Remove a source file."""
        (self.folder / path).unlink()

    def observe(self, server: Path, cluster: str) -> None:
        """Record the finished jobs of a cluster; its nodes are those of all tests, so their evidence stays as it was."""
        observe = ("observe", f"--cluster={cluster}", f"--kubeconfig={self.kubeconfig(server)}", "--allow-shrink")
        self._run(sys.executable, "-m", "reconciler", *observe)
        self._run("git", "checkout", "--quiet", "--", f"evidence/{cluster}/nodes.yaml")

    def push(self, message: str) -> str:
        """Commit the sources and what they render to, push, return the id of the commit."""
        self._run("git", "add", "--all")
        self._run("git", "commit", "--quiet", "--allow-empty", "--message", message)
        self._run(sys.executable, "-m", "reconciler", "commit", "-o", "name")
        self._run("git", "push", "--quiet", self.url, "main")
        return self._run("git", "rev-parse", "HEAD").strip()

    def kubeconfig(self, server: Path) -> Path:
        """Write a kubeconfig in which both clusters are the server of another one."""
        path = self.folder.parent / "kubeconfig"
        path.write_text(with_contexts(server, self.clusters), encoding="utf-8")
        return path

    def plan_live(self, server: Path) -> Any:
        """Return the saved plan of the last commit against the live objects."""
        out = self.folder.parent / "plan.json"
        flags = ("--live", "--revision=HEAD", f"--kubeconfig={self.kubeconfig(server)}", f"--out={out}")
        self._run(sys.executable, "-m", "reconciler", "plan", *flags)
        return json.loads(out.read_text(encoding="utf-8"))

    def apply(self, server: Path) -> list[Any]:
        """Apply the plan that was saved last; return the results."""
        flags = (f"--kubeconfig={self.kubeconfig(server)}", "--output=json", "--no-wait")
        out = self._run(sys.executable, "-m", "reconciler", "apply", str(self.folder.parent / "plan.json"), *flags)
        results: list[Any] = json.loads(out)
        return results

    def rendered(self, cluster: str) -> dict[str, str]:
        """Return the rendered files of a cluster by their path below `rendered/<cluster>/`."""
        folder = self.folder / "rendered" / cluster
        return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*.yaml"))}

    def _run(self, *argv: str) -> str:
        environment = {
            **os.environ,
            **_AUTHOR,
            "PYTHONPATH": str(ROOT),
            "RECONCILER_CACHE_DIR": str(self.folder.parent / "cache"),
            "RECONCILER_DECISION_LOG": str(self.folder.parent / "decisions.jsonl"),
            "RECONCILER_INVENTORY_NAMESPACE": f"{self.name}-inventory",
        }
        result = subprocess.run(
            argv, cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=120
        )
        assert result.returncode == 0, f"{argv}: {result.stdout}{result.stderr}"
        return result.stdout


def config_repository(name: str, folder: Path, server: GitServer, *, product: str, memory_mib: int) -> ConfigRepository:
    """Make the repository, for nodes of one product, without its first push."""
    for part in ("queues", "jobs", "policies"):
        shutil.copytree(TEMPLATE / part, folder / part)
    for cluster in CLUSTERS:
        evidence = folder / "evidence" / cluster / "nodes.yaml"
        evidence.parent.mkdir(parents=True)
        text = (TEMPLATE / "evidence" / "main" / "nodes.yaml").read_text(encoding="utf-8")
        evidence.write_text(text.replace(": main\n", f": {cluster}\n").replace(_MEMORY, str(memory_mib)))
    for path in folder.rglob("*.yaml"):
        text = path.read_text(encoding="utf-8").replace(_PRODUCT, product)
        for field in ("name", "jobQueue", "kai.scheduler/queue"):
            text = text.replace(f"{field}: h100\n", f"{field}: {name}\n")
        path.write_text(text, encoding="utf-8")
    (folder / "reconciler.yaml").write_text(_SETTINGS.format(name=name), encoding="utf-8")
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True)
    return ConfigRepository(name=name, folder=folder, url=server.create(f"fleets/{name}"))
