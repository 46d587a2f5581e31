"""Rounds with Git: what the fast lane did becomes a commit, what people decide becomes a branch for each case."""

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from reconciler.console.access import ClusterFlags
from reconciler.controller.health import health_round
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.health.state_store import LABEL
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.exports.labels import AUTOPILOT_HEALTH
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.nodes import TAINT
from reconciler.nodehealth.report import ProfileRun
from reconciler.settings import ALERT_WEBHOOKS, DEEP_RUNS
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.chart.permissions import account, granted
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push
from tests.live.health.conftest import SetClock, taints
from tests.live.health.fleet import FAST, NAMESPACE, LiveFleet, lost
from tools.chart.access import access

Round = Callable[..., PassOutcome]
POLICY = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "HealthPolicy", "metadata": {"name": "fleet"}}
_numbers = itertools.count(1)


def policy(spec: dict[str, object]) -> dict[str, bytes | None]:
    return {"jobs/health.yaml": yaml.safe_dump({**POLICY, "spec": spec}).encode()}


@pytest.fixture
def fleet(lane_cluster: KubernetesCluster, clock: SetClock) -> LiveFleet:
    made = LiveFleet(lane_cluster, clock, "unused")
    for name in made.add(10):
        made.report(name)
    return made


@pytest.fixture
def run(server: GitServer, person: Sandbox, private_server: ApiServer, tmp_path: Path, clock: SetClock) -> Round:
    source = ConfigSource(namespace="default", name="fleet", url=server.url, mode=Mode.COMMIT, timeout=20)

    def make(
        kubeconfig: Path = private_server.kubeconfig,
        user: str = "",
        secret: dict[str, bytes] | None = None,
        **changes: object,
    ) -> PassOutcome:
        request = Request(
            source=replace(source, **changes),
            folder=str(tmp_path / "state"),
            secret=secret or {},
            access=ClusterFlags(kubeconfig=str(kubeconfig), user=user),
        )
        return health_round(request, dict(os.environ), clock)

    return make


def test_what_the_fast_lane_did_is_a_commit_and_a_branch(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-096: report, taint, mirrored file by the controller, and a branch that asks for a decision."""
    tip = push(person, policy(FAST))
    first = run()
    assert first.failure is None, first.failure
    assert (first.push_result, server.tip()) == ("unchanged", tip)
    bad = fleet.names[3]
    fleet.report(bad, lost())
    made = run()
    assert made.failure is None, made.failure
    assert taints(fleet.node(bad)) == [TAINT]
    assert made.pushed == server.tip()
    assert server.git("show", "-s", "--format=%an %s", "main") == f"gpu-reconciler Node health: quarantined {bad}"
    path = server.git("show", "--format=", "--name-only", "main")
    body = yaml.safe_load(server.git("show", f"main:{path}"))
    assert body["metadata"]["annotations"] == {"gpureconciler.io/origin": "fast-lane"}
    assert body["spec"]["node"] == bad
    assert body["spec"]["until"] == "2026-09-22T14:13:20Z"
    again = run()
    assert again.pushed == ""
    (branch,) = [name for name in server.git("branch", "--format=%(refname:short)").split() if name != "main"]
    assert branch == f"health/{bad}-20260921-1413"
    assert server.git("rev-parse", f"{branch}^") == made.pushed
    confirmed = yaml.safe_load(server.git("show", f"{branch}:{path}"))
    assert "annotations" not in confirmed["metadata"]
    assert "until" not in confirmed["spec"]
    before = server.git("rev-parse", branch)
    run()
    assert server.git("rev-parse", branch) == before, "the same case is not pushed again"


def test_without_git_the_fast_lane_works_and_the_commit_follows(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-096: disconnected Git."""
    push(person, policy(FAST))
    run()
    server.fault = "down"
    bad = fleet.names[0]
    fleet.report(bad, lost())
    made = run()
    assert taints(fleet.node(bad)) == [TAINT]
    assert made.failure is not None
    assert made.failure.reason
    server.fault = ""
    assert run().pushed == server.tip()
    assert bad in server.git("ls-tree", "-r", "--name-only", "main")


def branches(server: GitServer) -> list[str]:
    return [name for name in server.git("branch", "--format=%(refname:short)").split() if name != "main"]


def fenced(fleet: LiveFleet, person: Sandbox, run: Round) -> str:
    """Let the fast lane take a node; return its name. Its case has a branch after this."""
    push(person, policy(FAST))
    bad = fleet.names[0]
    fleet.report(bad, lost())
    for _ in range(2):
        assert run().failure is None
    return bad


def test_a_merged_case_lasts_and_a_deep_pass_proposes_the_way_back(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-096: confirm by a merge, deep PASS, release by a merge: the taint goes and the branch, too."""
    bad = fenced(fleet, person, run)
    (branch,) = branches(server)
    person.git("fetch", "-q", "origin")
    person.git("pull", "-q", "--rebase", "origin", "main")
    person.git("merge", "-q", f"origin/{branch}")
    person.git("push", "-q", "origin", "main")
    for _ in range(2):
        run()
    assert branches(server) == [], "a merged branch is removed"
    assert taints(fleet.node(bad)) == [TAINT]
    fleet.clock.pause(86400.0)
    for _ in range(3):
        fleet.clock.pause(700.0)
        fleet.deep_pass(bad)
        made = run()
        assert made.failure is None, made.failure
    assert taints(fleet.node(bad)) == [TAINT], "what was merged is undone by a merge"
    (release,) = branches(server)
    change, path = server.git("diff", "--name-status", f"main...{release}").split()
    assert (change, Path(path).name) == ("D", f"{bad}.yaml")
    person.git("fetch", "-q", "origin")
    person.git("pull", "-q", "--rebase", "origin", "main")
    person.git("merge", "-q", f"origin/{release}")
    person.git("push", "-q", "origin", "main")
    for _ in range(3):
        run()
    assert taints(fleet.node(bad)) == []
    assert branches(server) == []


def test_a_drained_node_is_told_and_its_repair_is_a_branch(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-096: `stage: drain` is merged; once no pod with GPUs is left, the case proposes `stage: repair`."""
    bad = fleet.names[0]
    spec = {"node": bad, "reason": "slow", "action": "reset_gpu", "stage": "drain"}
    kind = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": "NodeQuarantine", "metadata": {"name": bad}}
    path = "jobs/quarantine.yaml"
    push(person, {**policy(FAST), path: yaml.safe_dump({**kind, "spec": spec}).encode()})
    for _ in range(2):
        made = run()
        assert made.failure is None, made.failure
    assert "remediating" in fleet.node(bad)["metadata"]["labels"].values()
    (branch,) = branches(server)
    proposed = yaml.safe_load(server.git("show", f"{branch}:{path}"))
    assert proposed["spec"] == {**spec, "stage": "repair"}
    text = server.git("show", "-s", "--format=%B", branch)
    assert text.startswith(f"Node health: remediate {bad}")
    assert "drained: no pod with GPUs is left" in text


def test_a_closed_case_stays_closed_for_a_day_and_the_taint_goes(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-102: closed means not again for 24 h for the same evidence."""
    bad = fenced(fleet, person, run)
    server.git("branch", "-D", *branches(server))
    for _ in range(3):
        fleet.clock.pause(60.0)
        fleet.report(bad, lost())
        run()
    assert branches(server) == []
    assert taints(fleet.node(bad)) == []
    assert "quarantine/" not in server.git("ls-tree", "-r", "--name-only", "main")


def test_edits_of_people_on_the_branch_and_in_the_file_survive(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round
) -> None:
    """F-102: a person adds a comment on the branch of the case; the next evidence amends nothing of it."""
    bad = fenced(fleet, person, run)
    (branch,) = branches(server)
    person.git("fetch", "-q", "origin")
    person.git("checkout", "-q", "-b", "mine", f"origin/{branch}")
    path = server.git("diff", "--name-only", f"main...{branch}")
    mine = person.folder / path
    mine.write_text("# ticket 4711\n" + mine.read_text())
    person.git("commit", "-q", "-am", "ticket")
    person.git("push", "-q", "origin", f"mine:{branch}")
    person.git("checkout", "-q", "main")
    tip = server.git("rev-parse", branch)
    fleet.clock.pause(60.0)
    fleet.report(bad, lost(), lost("0000:aa:00.0"))
    run()
    assert server.git("show", f"{branch}:{path}").startswith("# ticket 4711")
    assert server.git("merge-base", branch, tip) == tip, "their commit is still there"


def test_while_the_api_server_is_away_nothing_is_proposed(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round, tmp_path: Path
) -> None:
    """F-102: no decision without a look at the cluster."""
    push(person, policy(FAST))
    tip = server.tip()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nusers: [{name: x, user: {}}]\n"
        "clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: x, context: {cluster: x, user: x}}]\n"
    )
    made = run(kubeconfig)
    assert made.failure is not None
    assert (server.tip(), branches(server)) == (tip, [])


def damaged(fleet: LiveFleet, server: ApiServer, person: Sandbox, folder: Path) -> Path:
    """Push a second cluster, `other`, whose state is damaged; return the access to both."""
    known = yaml.safe_load(server.kubeconfig.read_text())
    context = known["contexts"][0]["context"]
    kubeconfig = folder / "several"
    contexts = [{"name": name, "context": context} for name in ("other", "main")]
    kubeconfig.write_text(yaml.safe_dump({**known, "contexts": contexts}))
    config = (person.folder / "reconciler.yaml").read_text()
    config = config.replace("    - name: main\n", "    - {name: other, backend: none}\n    - name: main\n")
    push(person, {"reconciler.yaml": config.encode(), **policy(FAST)})
    server.client.ensure_namespaces([NAMESPACE])
    metadata = {"name": "reconciler-health-fleet-other", "namespace": NAMESPACE, "labels": {LABEL: "fleet-other"}}
    state = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "binaryData": {"state": "eA=="}}
    fleet.cluster.create(state)
    return kubeconfig


def test_a_damaged_state_of_one_cluster_stops_no_other(
    fleet: LiveFleet, private_server: ApiServer, person: Sandbox, run: Round, tmp_path: Path
) -> None:
    """The breaker of that cluster is not known, so nothing is decided there; all others are looked at."""
    made = run(damaged(fleet, private_server, person, tmp_path), mode=Mode.OBSERVE)
    assert made.failure is not None
    assert (made.failure.reason, made.failure.stalled) == ("OutsideFailed", False)
    assert "reconciler-health-fleet-other: the state of node health is damaged" in made.failure.message
    assert "other: not checked: ConfigMap" in made.message
    assert "main: 10 nodes" in made.message
    assert set(made.gauges) == {"main"}


def test_the_rights_of_the_chart_are_enough(
    fleet: LiveFleet, private_server: ApiServer, person: Sandbox, run: Round
) -> None:
    """F-132: a round as the service account that `health.enabled` gives its rights to."""
    private_server.client.ensure_namespaces([NAMESPACE])
    rights = access(BUILT_IN)
    push(person, policy(FAST))
    fleet.report(fleet.names[0], lost())
    with granted(private_server.client, {"lane": rights["health"] + rights["healthState"]}, NAMESPACE, ""):
        made = run(user=account(NAMESPACE, "lane"))
    assert made.failure is None, made.failure
    assert "NodeHealthChecks" not in made.message
    assert taints(fleet.node(fleet.names[0])) == [TAINT]


def test_deep_runs_begin_where_policy_and_chart_allow_them(
    fleet: LiveFleet,
    private_server: ApiServer,
    person: Sandbox,
    run: Round,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F-089: a request becomes a Job on an idle node, TESTING while it runs and not after it died, once an hour."""
    private_server.client.ensure_namespaces([NAMESPACE])
    rights = access(BUILT_IN)
    rules = rights["health"] + rights["healthState"] + rights["deepRuns"]
    settings = json.dumps({"image": "reconciler:1", "namespace": NAMESPACE, "serviceAccount": "agents"})
    asking, busy = fleet.add(2, pool="deep")
    wanted = ProfileRun(profile=ProbeProfile.DEEP, requested_at=fleet.clock.at)
    for name in (asking, busy):
        fleet.report(name, runs=(wanted,))
    container = {"name": "train", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    pod = {"metadata": {"name": "train", "namespace": NAMESPACE}, "spec": {"nodeName": busy, "containers": [container]}}
    fleet.cluster.create({"apiVersion": "v1", "kind": "Pod", **pod})

    def started() -> list[str]:
        with granted(private_server.client, {"lane": rules}, NAMESPACE, ""):
            made = run(user=account(NAMESPACE, "lane"))
        assert made.failure is None, made.failure
        jobs = fleet.cluster.list(fleet.cluster.resource("batch", "Job"), namespace=NAMESPACE).objects
        return [job["spec"]["template"]["spec"]["affinity"]["nodeAffinity"] for job in jobs]

    monkeypatch.setenv(ALERT_WEBHOOKS, "/none")
    monkeypatch.setenv(DEEP_RUNS, settings)
    push(person, policy(FAST))
    assert started() == [], "no policy allows it"
    monkeypatch.delenv(DEEP_RUNS)
    push(person, policy({**FAST, "deepRuns": {"enabled": True, "atOnce": 2}}))
    for _ in range(2):  # the first one fetches the policy
        assert started() == [], "the chart does not allow it"
    monkeypatch.setenv(DEEP_RUNS, settings)
    (place,) = started()
    assert asking in str(place), "not on the node whose GPUs are in use"
    assert len(started()) == 1
    fleet.clock.pause(60.0)
    running = replace(wanted, started_at=fleet.clock.at, deadline=fleet.clock.at + 60.0)
    fleet.report(asking, runs=(running,))
    started()
    assert fleet.node(asking)["metadata"]["labels"][AUTOPILOT_HEALTH] == "TESTING"
    fleet.clock.pause(61.0)
    fleet.report(asking, runs=(running,))
    assert len(started()) == 1
    assert fleet.node(asking)["metadata"]["labels"][AUTOPILOT_HEALTH] == "PASS"
    for seconds, jobs in ((2000.0, 1), (1800.0, 2)):
        fleet.clock.pause(seconds)
        fleet.report(asking, runs=(replace(running, requested_at=fleet.clock.at),))
        assert len(started()) == jobs, "an hour between two starts"
