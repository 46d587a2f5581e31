"""After any sequence of edits the warm plan has the bytes of the cold plan, and counts the same GPUs."""

import random

import pytest

from reconciler.plan.outputs.json_report import render_json
from reconciler.plan.planning import Planned
from reconciler.queues.queues import usage_by_cluster
from tests import sizes
from tests.index.fleets import (
    CRD,
    NAMESPACE,
    POLICY,
    START,
    MemoryFleet,
    config,
    config_map,
    evidence,
    job,
    pod,
    queue,
)

NAMES = ("one", "two", "three")
QUEUES = ("q1", "q2", "q3")
FOLDERS = ("jobs/a/", "jobs/b/", "queues/", "manifests/")
FOREIGN_QUEUE = "apiVersion: example.com/v1\nkind: TorchrunQueue\nmetadata: {name: q1, namespace: default}\nspec: {}\n"
EDITS = 25


class Editor:
    """Makes one random edit of a fleet at a time."""

    def __init__(self, fleet: MemoryFleet, seed: int) -> None:
        self.fleet = fleet
        self.random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.snapshots = [dict(fleet.cache.kept)]

    def edit(self) -> None:
        """Make one edit."""
        edits = [
            *(self.write,) * 6,
            *(self.comment, self.delete, self.rename) * 2,
            self.write_evidence,
            self.write_policy,
            self.write_config,
            self.write_global,
            self.commit,
            self.render,
            self.damage_cache,
            self.restore_cache,
        ]
        self.random.choice(edits)()

    def text(self) -> str:
        """Return a random source file."""
        pick = self.random.choice
        return pick(
            [
                job(pick(NAMES), of=pick(QUEUES), gpus=pick([0, 1, 8, 16, 48]), epochs=pick([1, 2, 3])),
                job(pick(NAMES), of=pick(QUEUES), gpus=pick([0, 1, 8, 16, 48])),
                queue(pick(QUEUES), pick([0, 8, 16]), pick([4, 8])),
                queue(pick(QUEUES)) + "---\n" + queue(pick(QUEUES), 8),
                pod(pick(NAMES), of=pick(QUEUES), image=pick(["busybox:1", "busybox"]), reads=pick(["c1", "c2"])),
                config_map(pick(NAMES), pick(NAMES)),
                pick(["", "kind: [", "# nothing\n", "apiVersion: v1\nkind: Widget\nmetadata: {name: x}\n"]),
                "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\nspec: {a: 1}\n",
                FOREIGN_QUEUE,
                "model_type: llama\nhidden_size: 4096\n",
            ]
        )

    def path(self) -> str:
        """Return a random source file that exists."""
        paths = sorted(path for path in self.fleet.files if path.startswith(FOLDERS))
        return self.random.choice(paths) if paths else "jobs/a/one.yaml"

    def write(self) -> None:
        """Write a file."""
        pick = self.random.choice
        self.fleet.write(pick([self.path(), f"{pick(FOLDERS)}{pick(NAMES)}.yaml"]), self.text())

    def comment(self) -> None:
        """Move everything in a file down by a line."""
        path = self.path()
        self.fleet.files[path] = b"# moved down\n" + self.fleet.files.get(path, b"")

    def delete(self) -> None:
        """Delete a file."""
        self.fleet.files.pop(self.path(), None)

    def rename(self) -> None:
        """Rename a file, perhaps into another folder, which other clusters select."""
        path = self.path()
        if path in self.fleet.files:
            self.fleet.files[f"{self.random.choice(FOLDERS)}moved.yaml"] = self.fleet.files.pop(path)

    def write_evidence(self) -> None:
        """Change the nodes, only the time, only the layout, or the cluster."""
        pick = self.random.choice
        text = evidence(pick([1, 8]), pick(["2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z"]))
        self.fleet.write(f"evidence/{pick('ab')}/nodes.yaml", pick([text, "# comment\n" + text]))

    def write_policy(self) -> None:
        """Change a policy."""
        self.fleet.write("policies/rule.yaml", POLICY.replace("VALUE", self.random.choice(["one", "other"])))

    def write_config(self) -> None:
        """Change the configuration."""
        pick = self.random.choice
        text = config(pick(["kai", "kueue", "none"]), pick(["warn", "deny"]), pick([8, 24]))
        self.fleet.write("reconciler.yaml", text)

    def write_global(self) -> None:
        """Change what every file depends on."""
        pick = self.random.choice
        text = pick([NAMESPACE.replace("VALUE", pick(NAMES)), CRD.replace("SCOPE", pick(["Cluster", "Namespaced"]))])
        self.fleet.write(f"{pick(FOLDERS)}global.yaml", text)

    def commit(self) -> None:
        """Move HEAD."""
        self.fleet.repository.save({})

    def render(self) -> None:
        """Commit what the sources render to."""
        for path, content in self.fleet.plan().contents().items():
            if content is None:
                self.fleet.files.pop(path, None)
            else:
                self.fleet.files[path] = content
        self.commit()

    def damage_cache(self) -> None:
        """Lose some values of the cache, and cut others."""
        for key in sorted(self.fleet.cache.kept):
            if self.random.random() < 0.2:
                self.fleet.cache.kept[key] = self.fleet.cache.kept[key][: self.random.choice([0, 10, -3])]

    def restore_cache(self) -> None:
        """Replace some values by older ones, as a concurrent run of an older tree does."""
        older = self.random.choice(self.snapshots)
        self.snapshots.append(dict(self.fleet.cache.kept))
        for key, value in older.items():
            if self.random.random() < 0.5:
                self.fleet.cache.kept[key] = value


@pytest.mark.parametrize("seed", range(24 if sizes.LARGE else 3))
def test_warm_plan_equals_cold_plan(seed: int) -> None:
    """F-141: a seed is a sequence of edits; the plan is compared after each of them."""
    fleet = MemoryFleet()
    editor = Editor(fleet, seed)
    fleet.warm()
    for _ in range(EDITS):
        editor.edit()
        planned = fleet.plan()
        assert render_json(planned.plan) == fleet.cold()
        _recount(planned)


def _recount(planned: Planned) -> None:
    """Count the GPUs of every queue from the summaries of all objects."""
    usage = usage_by_cluster(planned.index.first_summaries())
    if planned.plan.errors:
        return  # files with errors keep what exists, whatever the sources say
    expected = {
        (cluster, queue.name, product): gpus
        for cluster, of_cluster in usage.items()
        for (queue, product), gpus in of_cluster.requested.items()
        if gpus
    }
    found = {(line.cluster, line.queue, line.product): line.after for line in planned.plan.gpus}
    assert {key: gpus for key, gpus in found.items() if gpus} == expected


def test_edits_reach_every_kind_of_file() -> None:
    """The edits above are not all of one kind."""
    fleet = MemoryFleet()
    editor = Editor(fleet, 1)
    folders: set[str] = set()
    for _ in range(200):
        before = dict(fleet.files)
        editor.edit()
        edited = {path for path in {*before, *fleet.files} if before.get(path) != fleet.files.get(path)}
        folders |= {path.split("/")[0] for path in edited}
    assert folders >= {path.split("/")[0] for path in START}
