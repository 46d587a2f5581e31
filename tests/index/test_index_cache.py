"""What is remembered never changes a result: cold, warm and partly warm plans are the same bytes."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from reconciler import wiring
from reconciler.app.plan import plan
from reconciler.app.workspace import Workspace
from reconciler.outputs.json_report import render_json
from tests.cli.fleet import IDENTITY

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: cache}
spec:
  clusters:
    - name: a
      backend: BACKEND
      external: [Queue/default, PersistentVolumeClaim]
    - name: b
      backend: none
      select: {folders: [jobs/b, queues]}
  sources: [queues, jobs, manifests]
  rules:
    image-pinned: {action: ACTION}
    quota.max-gpus-per-namespace: {parameters: {max: MOST}}
"""
QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: NAME, namespace: default, labels: {team: one}}
spec:
  queue: {name: NAME, parentQueue: default, resources: {gpu: {quota: QUOTA, limit: 32}}}
  image: registry.example.com/train:2.7
  nodeResources: {gpus: 8, cpus: 96, memory: 960Gi}
"""
JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: NAME, namespace: default, labels: {team: one}}
spec:
  jobQueue: QUEUE
  numGPUs: GPUS
  command: python train.py --epochs EPOCHS
  reliability: {activeDeadlineSeconds: 3600}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {team: one, kai.scheduler/queue: QUEUE}}
spec:
  containers:
    - name: main
      image: IMAGE
      envFrom: [{configMapRef: {name: CONFIG}}]
"""
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME, namespace: default}\ndata: {key: VALUE}\n"
NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {tier: VALUE}}\n"
EVIDENCE = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: a}
spec:
  takenAt: "2026-11-01T00:00:00Z"
  nodes:
    - {name: n1, gpu: {product: H100, count: 8}}
    - {name: n2, gpu: {product: H100, count: COUNT}}
"""
POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labelled}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]
  validations: [{expression: "object.metadata.labels.team == 'VALUE'", message: "another team"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: labelled}
spec: {policyName: labelled, validationActions: [Deny]}
"""


def config(backend: str = "kai", action: str = "warn", most: int = 24) -> str:
    return CONFIG.replace("BACKEND", backend).replace("ACTION", action).replace("MOST", str(most))


def queue(name: str, quota: int = 16) -> str:
    return QUEUE.replace("NAME", name).replace("QUOTA", str(quota))


def job(name: str, of: str = "q1", gpus: int = 8, epochs: int = 3) -> str:
    text = JOB.replace("NAME", name).replace("QUEUE", of).replace("GPUS", str(gpus))
    return text.replace("EPOCHS", str(epochs))


def pod(name: str, of: str = "q1", image: str = "busybox:1", reads: str = "c1") -> str:
    text = POD.replace("NAME", name).replace("QUEUE", of).replace("IMAGE", image)
    return text.replace("CONFIG", reads)


START = {
    "reconciler.yaml": config(),
    "queues/q1.yaml": queue("q1"),
    "queues/q2.yaml": queue("q2"),
    "jobs/a/one.yaml": job("one"),
    "jobs/b/two.yaml": job("two", of="q2"),
    "manifests/p1.yaml": pod("p1"),
    "manifests/c1.yaml": CONFIG_MAP.replace("NAME", "c1"),
    "evidence/a/nodes.yaml": EVIDENCE.replace("COUNT", "8"),
}

names = st.sampled_from(["one", "two", "three"])
queues = st.sampled_from(["q1", "q2", "q3"])
sources = st.sampled_from(
    [*sorted(path for path in START if "/" in path), "jobs/a/three.yaml", "manifests/extra.yaml", "policies/rule.yaml"]
)
texts = st.one_of(
    st.builds(job, names, of=queues, gpus=st.sampled_from([0, 1, 8, 16, 48]), epochs=st.integers(1, 3)),
    st.builds(queue, queues, st.sampled_from([0, 8, 16])),
    st.builds(
        pod, names, of=queues, image=st.sampled_from(["busybox:1", "busybox"]), reads=st.sampled_from(["c1", "c2"])
    ),
    st.builds(lambda name, value: CONFIG_MAP.replace("NAME", name).replace("VALUE", value), names, names),
    st.builds(lambda value: NAMESPACE.replace("VALUE", value), names),
    st.sampled_from(["", "kind: [", "# nothing\n", "apiVersion: v1\nkind: Widget\nmetadata: {name: x}\n"]),
)
edits = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(["jobs/a/", "jobs/b/", "queues/", "manifests/"]), names, texts),
    st.tuples(st.just("comment"), sources),
    st.tuples(st.just("delete"), sources),
    st.tuples(st.just("rename"), sources, st.sampled_from(["jobs/b/moved.yaml", "manifests/moved.yaml"])),
    st.tuples(st.just("evidence"), st.sampled_from(["1", "8"])),
    st.tuples(st.just("policy"), st.sampled_from(["one", "other"])),
    st.tuples(st.just("config"), st.builds(config, st.sampled_from(["kai", "kueue", "none"]), st.sampled_from(["warn", "deny"]), st.sampled_from([8, 24]))),
    st.tuples(st.just("forget")),
    st.tuples(st.just("corrupt"), st.integers(0, 10_000)),
    st.tuples(st.just("render")),
)  # fmt: skip


def open_workspace(root: str, flags: dict[str, str]) -> Workspace:
    return wiring.open_run(root, flags, {**os.environ, **IDENTITY}).workspace


def plan_json(root: str, flags: dict[str, str]) -> str:
    return render_json(plan(open_workspace(root, flags)).plan)


class Repository:
    """A repository with two ways to plan it: with a cache that stays, and with none."""

    def __init__(self, top: Path) -> None:
        self.root, self.cache = top / "repo", top / "cache"
        self.root.mkdir()
        for path, text in START.items():
            self.write(path, text)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit()

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def git(self, *arguments: str) -> None:
        environ = {**os.environ, **IDENTITY}
        subprocess.run(["git", "-C", str(self.root), *arguments], check=True, capture_output=True, env=environ)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "edit")

    def plan(self, **flags: str) -> str:
        return plan_json(str(self.root), flags)

    def warm(self) -> str:
        return self.plan(cache_dir=str(self.cache))

    def cold(self) -> str:
        return self.plan(cache="off")

    def apply(self, edit: tuple[str, ...]) -> None:
        target = self.root / edit[1] if len(edit) > 1 and "/" in str(edit[1]) else self.root
        match edit:
            case ("write", folder, name, text):
                self.write(f"{folder}{name}.yaml", text)
            case ("comment", path) if target.is_file():
                self.write(path, "# moved down\n" + target.read_text())
            case ("delete", _):
                target.unlink(missing_ok=True)
            case ("rename", path, new) if target.is_file():
                self.write(new, target.read_text())
                target.unlink()
            case ("evidence", count):
                self.write("evidence/a/nodes.yaml", EVIDENCE.replace("COUNT", count))
            case ("policy", value):
                self.write("policies/rule.yaml", POLICY.replace("VALUE", value))
            case ("config", text):
                self.write("reconciler.yaml", text)
            case ("forget",):
                shutil.rmtree(self.cache, ignore_errors=True)
            case ("corrupt", at):
                self._corrupt(int(at))
            case ("render",):
                self._render()

    def _corrupt(self, at: int) -> None:
        for file in self.cache.glob("*.cache"):
            raw = bytearray(file.read_bytes())
            raw[at % len(raw)] ^= 0xFF
            file.write_bytes(raw)

    def _render(self) -> None:
        """Commit what the sources mean now, as far as they can be rendered: the next plan is nearly empty."""
        planned = plan(open_workspace(str(self.root), {"cache": "off"}))
        for path, content in planned.contents().items():
            if content is None:
                (self.root / path).unlink(missing_ok=True)
            else:
                self.write(path, content.decode())
        self.commit()


@contextmanager
def repository() -> Iterator[Repository]:
    with tempfile.TemporaryDirectory() as name:
        yield Repository(Path(name))


# Each example is some ten whole plans: few of them, and no shrinking, which would take minutes.
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(edits, min_size=3, max_size=6))
def test_a_warm_plan_is_the_cold_plan(steps: list[tuple[str, ...]]) -> None:
    """F-141: after any sequence of edits the plan from memory has the bytes of the plan from nothing."""
    with repository() as made:
        made.warm()
        for step in steps:
            made.apply(step)
            assert made.warm() == made.cold()
        assert made.warm() == made.cold()


def edited(change: Callable[[Repository], object]) -> tuple[str, str]:
    with repository() as made:
        made.apply(("render",))
        before = made.warm()
        change(made)
        after = made.warm()
        assert after == made.cold()
        return before, after


def test_a_plan_of_nothing_new_writes_no_cache() -> None:
    with repository() as made:
        made.warm()
        before = {file.name: file.stat().st_ino for file in made.cache.glob("*.cache")}
        made.warm()
        assert before
        assert {file.name: file.stat().st_ino for file in made.cache.glob("*.cache")} == before


def test_a_job_sees_that_its_queue_came_or_changed() -> None:
    before, after = edited(lambda made: made.write("queues/q2.yaml", queue("q3")))
    assert before != after
    before, after = edited(lambda made: made.write("queues/q1.yaml", queue("q1").replace("gpus: 8", "gpus: 4")))
    assert before != after


def test_the_names_that_a_wrong_queue_is_compared_with_are_those_of_now() -> None:
    """A file whose job names no known queue depends on all of them."""

    def change(made: Repository) -> None:
        made.write("jobs/a/one.yaml", job("one", of="q9"))
        made.warm()
        made.write("queues/q9x.yaml", queue("q9x"))

    edited(change)


def test_a_namespace_that_moves_to_another_cluster_is_seen() -> None:
    def change(made: Repository) -> None:
        made.write("manifests/ns.yaml", NAMESPACE.replace("VALUE", "x"))
        made.warm()
        made.apply(("rename", "manifests/ns.yaml", "jobs/b/ns.yaml"))

    edited(change)


def test_gpus_are_counted_again_where_a_job_changes_size() -> None:
    before, after = edited(lambda made: made.write("jobs/a/one.yaml", job("one", gpus=16)))
    assert '"after": 16' in after
    assert before != after


def _plan(root: str, cache: str) -> str:
    return plan_json(root, {"cache_dir": cache})


def test_two_processes_at_once_share_a_cache() -> None:
    with repository() as made:
        cold = made.cold()
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            plans = [pool.submit(_plan, str(made.root), str(made.cache)) for _ in range(6)]
            assert {plan.result() for plan in plans} == {cold}


@pytest.mark.parametrize("flags", [{"processes": "1"}, {"processes": "2"}, {"cluster": "a"}])
def test_settings_of_a_run_do_not_mix(flags: dict[str, str]) -> None:
    """One cluster's memory is not another's, and the number of workers changes nothing."""
    with repository() as made:
        made.warm()
        one = made.plan(cache_dir=str(made.cache), **flags)
        assert one == made.plan(cache="off", **flags)
        assert made.warm() == made.cold()


def test_of_two_queues_with_one_name_the_first_file_counts_whichever_was_read_last() -> None:
    edited(lambda made: made.write("queues/a.yaml", queue("q2", 8)))


def test_what_is_taken_away_while_a_plan_goes_on_is_compiled_again() -> None:
    """The parts of a memory lie in several files, which another process may delete or replace at any time."""
    with repository() as made:
        made.warm()
        cold = made.cold()
        workspace = open_workspace(str(made.root), {"cache_dir": str(made.cache)})
        for file in made.cache.glob("*.cache"):
            file.unlink()
        assert render_json(plan(workspace).plan) == cold


def test_a_head_that_moved_is_listed_by_what_differs() -> None:
    """From the files of one commit to those of the next, and back, with files that came, went and changed."""
    with repository() as made:
        made.apply(("render",))
        made.warm()
        made.write("jobs/a/two.yaml", job("two", of="q1"))
        made.write("queues/q1.yaml", queue("q1", 16))
        made.commit()
        assert made.warm() == made.cold()
        made.git("rm", "--quiet", "jobs/a/one.yaml")
        made.commit()
        assert made.warm() == made.cold()
        made.git("checkout", "--quiet", "HEAD~2")
        assert made.warm() == made.cold()
        made.git("reflog", "expire", "--expire=now", "--all")
        made.git("checkout", "--quiet", "--orphan", "other")
        made.commit()
        made.git("gc", "--quiet", "--prune=now")
        assert made.warm() == made.cold()
