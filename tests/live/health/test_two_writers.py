"""Two sources on one cluster, two clusters in one repository, and people who edit a file while the controller commits."""

import os
from pathlib import Path

import yaml
from msgspec.structs import replace

from reconciler.console.access import ClusterFlags
from reconciler.controller.health import health_round
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.health.state_store import OWNER
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.exports.fleet_gauges import samples_at
from reconciler.nodehealth.nodes import TAINT
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push
from tests.live.health.conftest import taints
from tests.live.health.fleet import FAST, NAMESPACE, LiveFleet, lost
from tests.live.health.test_rounds import Round, fleet, policy, run

__all__ = ["fleet", "run"]
CLAIM = ObjectKey(group="", kind="ConfigMap", namespace=NAMESPACE, name=OWNER)


def unclaimed(cluster: KubernetesCluster) -> None:
    body = cluster.get(CLAIM)
    if body is not None:
        cluster.delete(CLAIM, uid=body["metadata"]["uid"], propagation="Background")


def test_a_second_source_of_a_cluster_does_nothing_and_says_why(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """Two breakers would let twice as many nodes through, and each would remove the taints of the other."""
    push(person, policy(FAST))
    first = run()
    assert first.failure is None, first.failure
    bad, worse = fleet.names[3], fleet.names[4]
    fleet.report(bad, lost())
    run()
    fleet.report(worse, lost())
    second = run(name="second")
    assert second.failure is not None
    assert "the source default/fleet (cluster main) decides about the nodes" in second.failure.message
    assert second.gauges == {}, "and it counts no node"
    assert taints(fleet.node(bad)) == [TAINT]
    assert taints(fleet.node(worse)) == []
    watching = run(name="third", mode=Mode.OBSERVE)
    assert watching.failure is None, "a source that only looks may look"
    counted = samples_at([*first.gauges.values(), *watching.gauges.values()], fleet.clock.at)
    assert sum(counted["gpuhealth_nodes"].values()) == len(fleet.names)
    unclaimed(fleet.cluster)
    assert run(name="second").failure is None, "handed over"
    handed = run()
    assert handed.failure is not None
    assert "default/second" in handed.failure.message


def test_an_edit_of_the_mirrored_file_while_the_controller_pushes_survives(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """The controller prolongs a quarantine; a person commits a comment to the same file before its push arrives."""
    push(person, policy(FAST))
    bad = fleet.names[0]
    fleet.report(bad, lost())
    mirrored = run()
    assert mirrored.pushed == server.tip()
    path = server.git("show", "--format=", "--name-only", "main")
    person.git("pull", "-q", "--rebase", "origin", "main")
    theirs: list[str] = []

    def edit(request: str) -> None:
        if "git-receive-pack" in request and not theirs:
            theirs.append("begun")
            text = (person.folder / path).read_text()
            theirs[0] = push(person, {path: f"# ticket 4711\n{text}".encode()}, "ticket")

    server.before = edit
    fleet.clock.pause(90_000.0)  # the taint ends, and the check still fails
    fleet.report(bad, lost())
    made = run()
    server.before = lambda _: None
    assert made.failure is None, made.failure
    assert theirs, "the controller tried to push"
    content = server.git("show", f"main:{path}")
    assert content.startswith("# ticket 4711\n"), content
    assert yaml.safe_load(content)["spec"]["until"] == "2026-09-23T15:13:20Z"
    assert server.git("merge-base", theirs[0], "main") == theirs[0], "no push was forced over their commit"
    assert server.git("merge-base", mirrored.pushed, "main") == mirrored.pushed


def test_a_quarantine_that_a_person_confirms_meanwhile_is_theirs(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """The check passes and the controller removes its file; a person confirmed it before that push arrived."""
    push(person, policy({**FAST, "lifecycle": {"ttl": "1h", "healthyDelay": "1m"}}))
    bad = fleet.names[0]
    fleet.report(bad, lost())
    mirrored = run()
    path = server.git("show", "--format=", "--name-only", mirrored.pushed)
    person.git("pull", "-q", "--rebase", "origin", "main")
    body = yaml.safe_load((person.folder / path).read_text())
    del body["metadata"]["annotations"], body["spec"]["until"]
    theirs: list[str] = []

    def confirm(request: str) -> None:
        if "git-receive-pack" in request and "health/" not in request and not theirs:
            theirs.append("begun")
            theirs[0] = push(person, {path: yaml.safe_dump(body).encode()}, "confirmed")

    server.before = confirm
    for _ in range(3):
        fleet.clock.pause(4000.0)
        fleet.deep_pass(bad)
        run()
    server.before = lambda _: None
    assert theirs, "the controller tried to push"
    assert yaml.safe_load(server.git("show", f"main:{path}")) == body
    assert server.git("merge-base", theirs[0], "main") == theirs[0]


def test_two_clusters_in_one_repository_are_two_fleets(
    fleet: LiveFleet,
    health_server: ApiServer,
    private_server: ApiServer,
    server: GitServer,
    person: Sandbox,
) -> None:
    """A node of one cluster has a namesake in the other: file, taint, state and case are those of its own cluster."""
    clock, health_cluster = fleet.clock, KubernetesCluster(load_access({}, kubeconfig=str(health_server.kubeconfig)))
    unclaimed(health_cluster)
    kubeconfig = _both(private_server.kubeconfig, health_server.kubeconfig, server.folder / "both")
    config = yaml.safe_load((person.folder / "reconciler.yaml").read_text())
    (main,) = config["spec"]["clusters"]
    config["spec"]["clusters"] = [
        {**main, "name": name, "select": {"folders": [f"jobs/{name}"]}} for name in ("east", "west")
    ]
    rules = policy(FAST)["jobs/health.yaml"]
    files = {f"jobs/{name}/health.yaml": rules for name in ("east", "west")}
    push(person, {"reconciler.yaml": yaml.safe_dump(config).encode(), **files})
    source = ConfigSource(namespace="default", name="both", url=server.url, mode=Mode.COMMIT, timeout=20)

    def both() -> PassOutcome:
        access = ClusterFlags(kubeconfig=str(kubeconfig))
        return health_round(
            Request(source=source, folder=str(server.folder / "two"), access=access), dict(os.environ), clock
        )

    bad = fleet.names[0]
    twin = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": bad, "labels": {"nvidia.com/gpu.product": "A"}}}
    health_cluster.apply(twin)
    first = both()
    assert first.failure is None, first.failure
    fleet.report(bad, lost())
    made = both()
    assert made.failure is None, made.failure
    assert taints(fleet.node(bad)) == [TAINT]
    namesake = health_cluster.get(ObjectKey(group="", kind="Node", namespace="", name=bad))
    assert namesake is not None
    assert TAINT not in taints(namesake)
    written = server.git("show", "--format=", "--name-only", made.pushed).split()
    assert written == [f"jobs/east/quarantine/{bad}.yaml"]
    counted = samples_at(made.gauges.values(), clock.at)["gpuhealth_nodes"]
    assert counted["quarantined", "h100"] == 1
    assert sum(value for (_, pool), value in counted.items() if pool == "h100") == len(fleet.names)
    key = replace(CLAIM, name=OWNER)
    claims = [(cluster.get(key) or {})["data"]["source"] for cluster in (fleet.cluster, health_cluster)]
    assert claims == ["default/both (cluster east)", "default/both (cluster west)"]
    health_cluster.delete(
        ObjectKey(group="", kind="Node", namespace="", name=bad),
        uid=namesake["metadata"]["uid"],
        propagation="Background",
    )
    unclaimed(health_cluster)
    health_cluster.close()


def _both(east: Path, west: Path, path: Path) -> Path:
    """Write a kubeconfig with a context for each cluster."""
    merged: dict[str, object] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for name, one in (("east", east), ("west", west)):
        known = yaml.safe_load(one.read_text())
        merged["clusters"] += [{**known["clusters"][0], "name": name}]  # type: ignore[operator]
        merged["users"] += [{**known["users"][0], "name": name}]  # type: ignore[operator]
        merged["contexts"] += [{"name": name, "context": {"cluster": name, "user": name}}]  # type: ignore[operator]
    path.write_text(yaml.safe_dump(merged))
    return path
