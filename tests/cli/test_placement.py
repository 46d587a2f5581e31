"""Placement from the command line: the section of a plan, strategies side by side, what-if, and the strategy."""

import json
from typing import Any

import pytest

from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth, ObservedNode, write_health
from reconciler.repo.evidence.usage import Usage, UsedWorkload, write_usage
from reconciler.sizing.inventory import Inventory, Node, write_inventory
from tests.cli.fleet import Fleet
from tests.placement.fleets import H100, L40S, RACK, node, used, waiting

_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - {name: main, backend: kueue, namespace: team, external: [Namespace, LocalQueue, ClusterQueue]}
  sources: [jobs]
  evidence: {maxAge: 7d}
  placement:
    strategy: least_utilized  # the default
    utilisationGoal: 80
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: team
  labels: {{kueue.x-k8s.io/queue-name: gpus}}
spec:
  parallelism: {pods}
  completions: {pods}
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      {selector}
      containers:
        - {{name: train, image: "registry.example.com/t:1", resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}
"""
NODES = (
    node("a100-0"),
    node("h100-0", product=H100),
    node("l40s-0", product=L40S, memory=46068),
)


def write_job(fleet: Fleet, name: str, gpus: int, pods: int = 1, product: str = "") -> None:
    selector = f"nodeSelector: {{nvidia.com/gpu.product: {product}}}" if product else ""
    fleet.write(f"jobs/{name}.yaml", JOB.format(name=name, gpus=gpus, pods=pods, selector=selector))


def observe(
    fleet: Fleet, *workloads: UsedWorkload, nodes: tuple[Node, ...] = NODES, at: str = "2026-11-02T09:00:00Z"
) -> None:
    folder = fleet.root / "evidence" / "main"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nodes.yaml").write_bytes(write_inventory(Inventory(cluster="main", taken_at=at, nodes=nodes)))
    (folder / "usage.yaml").write_bytes(write_usage(Usage(cluster="main", observed_at=at, workloads=workloads)))


@pytest.fixture
def placed(empty: Fleet) -> Fleet:
    fleet = empty
    fleet.write("reconciler.yaml", _CONFIG)
    write_job(fleet, "first", 4)
    observe(fleet, used("first", [("a100-0", 1)], gpus=4), waiting("other", gpus=4))
    fleet.commit("start")
    assert fleet.run("commit").code == 0
    return fleet


def _plan(fleet: Fleet, *flags: str) -> dict[str, Any]:
    found = json.loads(fleet.run("plan", "-o", "json", *flags).out)
    (line,) = found["placement"]
    return dict(line)


def test_a_plan_says_where_its_jobs_run_and_why_others_wait(placed: Fleet) -> None:
    """F-160: nodes, what guarantees them, GPUs in use before and after, and the reason of what fits nowhere."""
    write_job(placed, "vit", 2, pods=2, product=H100)
    write_job(placed, "huge", 16)
    line = _plan(placed)
    figures = (line["gpus"], line["used"], line["allocatedBefore"], line["allocatedAfter"])
    assert figures == (24, 4, 8, 12)
    workloads = {one["key"]["name"]: one for one in line["workloads"]}
    assert workloads["vit"]["nodes"] == [["h100-0", 2]]
    assert workloads["huge"]["word"] == "waits"
    assert "no node that it may use has more than 8" in workloads["huge"]["why"]
    text = placed.run("plan", "--width", "160").out
    assert "Placement" in text
    assert "by least_utilized: 8 → 12 of 24 GPUs allocated" in text
    assert "nodeAffinity" in text
    assert "no: Job huge finds no room: a pod requests 16 GPUs" in text
    assert "**Placement**" in (review := placed.run("plan", "-o", "markdown").out) or "Placement" in review


def test_evidence_that_is_too_old_says_nothing(placed: Fleet) -> None:
    """AF-12: the section says Unknown with the age; nothing is placed, and nothing pinned."""
    observe(placed, at="2026-10-20T09:00:00Z")
    write_job(placed, "vit", 2)
    line = _plan(placed)
    assert line["unknown"] == "the evidence is 13 days old, and spec.evidence.maxAge allows 7"
    assert (line["days"], line["workloads"], line["allocatedAfter"]) == (13, [], 0)
    text = placed.run("plan", "--width", "160").out
    assert "Where the jobs of main will run is unknown: the evidence is 13 days old" in text
    assert "Nothing is pinned" in text


def test_new_evidence_counts_before_it_is_committed(placed: Fleet) -> None:
    """AF-12: evidence of a working tree is newer than its last commit, which makes it not too old."""
    observe(placed, at="2026-11-05T09:00:00Z")
    write_job(placed, "vit", 2)
    line = _plan(placed)
    assert (line["unknown"], line["days"], [one["word"] for one in line["workloads"]]) == ("", 0, ["starts"])


def test_without_evidence_of_use_the_plan_says_only_that(placed: Fleet) -> None:
    (placed.root / "evidence/main/usage.yaml").unlink()
    write_job(placed, "vit", 2)
    assert json.loads(placed.run("plan", "-o", "json").out)["placement"] == []
    placed.edit("reconciler.yaml", "least_utilized", "best_fit")
    line = _plan(placed)
    assert line["unknown"] == "there is no evidence of use; `reconciler observe` records it"


def test_a_removed_job_gives_its_gpus_to_what_waits(placed: Fleet) -> None:
    """What the plan stops is free in its forecast; what starts for that reason is part of it."""
    observe(placed, used("first", [("a100-0", 1)], gpus=4), waiting("large", gpus=8), nodes=NODES[:1])
    placed.commit()
    (placed.root / "jobs/first.yaml").unlink()
    line = _plan(placed)
    (large,) = line["workloads"]
    assert (large["key"]["name"], large["before"], large["word"]) == ("large", "waits", "starts")
    assert large["nodes"] == [["a100-0", 1]]


def test_a_workload_is_placed_by_the_strategy_that_it_names(placed: Fleet) -> None:
    """F-024, F-029: annotations of any kind of job are read."""
    write_job(placed, "vit", 2)
    placed.edit(
        "jobs/vit.yaml", "  labels:", "  annotations: {agentaflow.gpu/scheduling-strategy: best_fit}\n  labels:"
    )
    (vit,) = _plan(placed)["workloads"]
    assert (vit["strategy"], vit["nodes"]) == ("best_fit", [["a100-0", 1]])


def test_equal_inputs_give_equal_plans(placed: Fleet) -> None:
    """AF-06: same inputs, same bytes."""
    write_job(placed, "vit", 2, pods=3)
    first, second = (placed.run("plan", "-o", "json").out for _ in range(2))
    assert first == second


_PRICES = """\
  prices: {currency: EUR, source: contract, date: "2026-01-31", gpuHours: {NVIDIA-H100-80GB-HBM3: 2.5}}
"""
_SCENARIO = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PlacementScenario
spec:
  addNodes: [{count: COUNT, gpus: 8, product: NVIDIA-H200}]
  drainNodes: [NODE]
"""


def _report(fleet: Fleet, *flags: str) -> dict[str, Any]:
    ran = fleet.run("placement", "plan", "-o", "json", *flags)
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)["clusters"]
    return dict(found)


def test_strategies_stand_side_by_side_with_the_moves_between_them(placed: Fleet) -> None:
    """F-160: allocated and stranded GPUs, who waits, and every workload whose nodes differ."""
    write_job(placed, "small", 1)
    write_job(placed, "huge", 16)
    found = _report(placed, "--compare", "least_utilized", "best_fit", "fragmentation")
    assert [line["strategy"] for line in found["strategies"]] == ["least_utilized", "best_fit", "fragmentation"]
    moves = {move["workload"]: move["nodes"] for move in found["moves"] if move["strategies"][1] == "best_fit"}
    assert moves["Job team/small"] == [[["l40s-0", 1]], [["h100-0", 1]]]
    assert found["unplaced"]["key"]["name"] == "huge"
    text = placed.run("placement", "plan", "--compare", "best_fit", "--width", "140").out
    assert "The first that no strategy can place: huge: a pod requests 16 GPUs" in text
    assert "cost per hour" in text


def test_more_nodes_start_what_waits_and_cost_something(placed: Fleet) -> None:
    """AF-18: which waiting workloads start, and the cost; nothing is written."""
    path = placed.root / "reconciler.yaml"
    path.write_text(path.read_text() + _PRICES)
    observe(placed, used("first", [("a100-0", 1)], gpus=4), waiting("large", gpus=8, count=6))
    before = placed.git("status", "--short")
    for product, cost in ((H100, 80.0), ("NVIDIA-H200", None)):
        found = _report(placed, "--what-if", f"nodes+=4x8x{product}")
        assert found["starts"] == ["Job team/large"]
        assert found["added"] == [{"product": product, "gpus": 32, "perHour": cost, "currency": "EUR"}]
        assert found["edits"][0].startswith(f"add 4 x 8 {product} to cluster main")
    text = placed.run("placement", "plan", "--what-if", "nodes+=4x8xNVIDIA-H200", "--width", "140").out
    assert "Costs: 32 NVIDIA-H200: unknown, spec.prices has no price of it" in text
    assert "Costs per hour are those of the workloads that start" in text
    assert "Nothing was written" in text
    assert placed.git("status", "--short") == before


def test_a_scenario_is_compared_with_what_its_workloads_cost_now(placed: Fleet) -> None:
    path = placed.root / "reconciler.yaml"
    path.write_text(path.read_text() + _PRICES)
    observe(placed, waiting("now", gpus=4), waiting("large", gpus=8, count=6), nodes=NODES[1:2])
    found = _report(placed, "--what-if", f"nodes+=6x8x{H100}")
    assert (found["costBefore"], found["costs"]) == (10.0, [130.0])
    text = placed.run("placement", "plan", "--what-if", f"nodes+=6x8x{H100}", "--width", "140").out
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("  least_utilized")] == [
        "10.00",
        "130.00",
    ]


def test_a_node_that_is_drained_twice_is_one_edit(placed: Fleet) -> None:
    observe(placed, used("first", [("a100-0", 1)], gpus=8), nodes=NODES[:2])
    found = _report(placed, "--what-if", "nodes-=a100-0,a100-0", "--what-if", "nodes-=a100-0")
    assert found["edits"] == ["reconciler new quarantine a100-0 --reason TEXT --effect NoExecute"]


@pytest.mark.parametrize("words", ["nodes+=0x8xNVIDIA-H200", "nodes+=4x0xNVIDIA-H200"])
def test_nothing_is_no_scenario(placed: Fleet, words: str) -> None:
    """As in a file, where both numbers are 1 or more."""
    observe(placed, nodes=NODES)
    ran = placed.run("placement", "plan", "--what-if", words)
    assert (ran.code, f"{words!r} is neither a file nor a scenario" in ran.err) == (2, True), ran.err


def test_a_drained_node_sends_its_work_back_to_the_queue(placed: Fleet) -> None:
    observe(placed, used("first", [("a100-0", 1)], gpus=8), used("second", [("h100-0", 1)], gpus=8), nodes=NODES[:2])
    found = _report(placed, "--what-if", "nodes-=a100-0")
    assert found["stops"] == [
        "Job team/first: a pod requests 8 GPUs; 0 of those that it may use are free, at most 0 on one node"
    ]
    assert found["edits"] == ["reconciler new quarantine a100-0 --reason TEXT --effect NoExecute"]


def test_a_failed_rack_takes_its_nodes(placed: Fleet) -> None:
    """The racks are those of the Topology of the repository."""
    topology = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "racks"}}
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}
    placed.write("jobs/topology.yaml", json.dumps({**topology, "spec": levels}))
    nodes = tuple(node(f"n{number}", labels={RACK: f"r{number // 2}"}) for number in range(4))
    observe(placed, used("first", [("n0", 1)], gpus=8), waiting("pair", gpus=8, count=2), nodes=nodes)
    found = _report(placed, "--what-if", "rack-=r0")
    (line,) = found["strategies"]
    assert (line["gpus"], line["racksAfter"]) == (16, 1)
    assert {one["key"]["name"]: one["word"] for one in line["workloads"]} == {"first": "starts", "pair": "waits"}
    wrong = placed.run("placement", "plan", "--what-if", "rack-=r7")
    assert (wrong.code, "there is no rack 'r7' in the evidence; known: r0 and r1" in wrong.err) == (2, True)


def test_a_larger_queue_names_its_edit_and_who_gets_in(placed: Fleet) -> None:
    """What-if about a quota prints the place of the edit; nodes still decide who starts."""
    placed.write("jobs/queue.yaml", _QUEUE)
    observe(placed, waiting("one", gpus=4, queue="gpus"), waiting("two", gpus=8, queue="gpus"))
    found = _report(placed, "--what-if", "queue=gpus+4")
    assert found["edits"] == [
        "jobs/queue.yaml:1:1: quota of ClusterQueue gpus: 8 → 12 GPUs",
        "4 more GPUs are enough for these workloads that wait in gpus: team/one",
    ]
    assert _report(placed, "--what-if", "queue=gpus+2")["edits"][1:] == [
        "2 more GPUs are not enough for the workload that is first in gpus"
    ]
    observe(placed)
    assert _report(placed, "--what-if", "queue=gpus+2")["edits"][1:] == ["nothing waits in gpus"]


_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: gpus}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
"""


@pytest.mark.parametrize(
    ("count", "name", "place"),
    [("0", "a100-0", "4:22: spec.addNodes[0].count"), ("1", "gone", "5:16: spec.drainNodes[0]")],
)
def test_a_scenario_is_validated_as_a_source(placed: Fleet, count: str, name: str, place: str) -> None:
    path = placed.write("scenario.yaml", _SCENARIO.replace("COUNT", count).replace("NODE", name))
    ran = placed.run("placement", "plan", "--what-if", str(path))
    assert (ran.code, f"scenario.yaml:{place}" in ran.err) == (3, True), ran.err


def test_a_strategy_is_one_edited_line(placed: Fleet) -> None:
    """AF-07, F-024; defect 6 of agentaflow: comments stay, the queue keeps its order and length, and the moves are listed."""
    pending = len(_report(placed)["strategies"][0]["workloads"])
    ran = placed.run("placement", "strategy", "best_fit", "--width", "140")
    assert ran.code == 0
    assert placed.git("diff", "--stat", "reconciler.yaml").endswith("1 file changed, 1 insertion(+), 1 deletion(-)")
    assert "    strategy: best_fit  # the default\n" in (placed.root / "reconciler.yaml").read_text()
    assert "Job team/other" in ran.out
    assert len(_report(placed)["strategies"][0]["workloads"]) == pending
    assert placed.run("placement", "strategy").out == "best_fit\n"


def test_an_unknown_strategy_names_the_nearest(placed: Fleet) -> None:
    """AF-15, AF-23: 2 for a flag, 3 with its place for a file."""
    ran = placed.run("placement", "strategy", "best-fit")
    assert (ran.code, "did you mean 'best_fit'?" in ran.err) == (2, True)
    placed.edit("reconciler.yaml", "strategy: least_utilized", "strategy: spread")
    ran = placed.run("placement", "plan")
    assert (ran.code, "reconciler.yaml:10:15" in ran.out + ran.err) == (3, True), ran.err
    write_job(placed, "vit", 2)
    placed.edit("reconciler.yaml", "strategy: spread", "strategy: best_fit")
    annotation = "  annotations: {agentaflow.gpu/scheduling-strategy: least_utilised}\n  labels:"
    placed.edit("jobs/vit.yaml", "  labels:", annotation)
    ran = placed.run("plan", "--width", "200")
    assert (ran.code, "did you mean least_utilized?" in ran.out, "jobs/vit.yaml:6" in ran.out) == (3, True, True)


def test_priorities_of_annotations_decide_the_order(placed: Fleet) -> None:
    """F-029, F-022: of two jobs for one node the one of a higher priority gets it."""
    observe(placed, nodes=NODES[:1])
    for name, priority in (("low", "1"), ("top", "10")):
        write_job(placed, name, 8)
        annotation = f'  annotations: {{agentaflow.gpu/priority: "{priority}"}}\n  labels:'
        placed.edit(f"jobs/{name}.yaml", "  labels:", annotation)
    (line,) = _report(placed, "--strategy", "priority")["strategies"]
    assert {one["key"]["name"]: one["word"] for one in line["workloads"]} == {"top": "starts", "low": "waits"}


def test_a_pin_is_an_edit_that_needs_consent_and_recent_evidence(placed: Fleet) -> None:
    """AF-12: `pin: true` alone changes nothing; old evidence pins nothing; the plan warns about a pinned job."""
    write_job(placed, "vit", 2, pods=3)
    refused = placed.run("placement", "pin", "--write")
    assert (refused.code, "spec.placement.pin is false" in refused.err) == (2, True)
    placed.edit("reconciler.yaml", "utilisationGoal: 80", "utilisationGoal: 80\n    pin: true\n    annotate: true")
    source = (placed.root / "jobs/vit.yaml").read_text()
    (before,) = _plan(placed)["workloads"]
    shown = placed.run("placement", "pin")
    assert (shown.code, (placed.root / "jobs/vit.yaml").read_text()) == (0, source)
    assert placed.run("placement", "pin", "--write").code == 0
    (pinned,) = _plan(placed)["workloads"]
    assert pinned["nodes"] == before["nodes"] != []
    names = [name for name, _ in before["nodes"]]
    assert (pinned["guaranteedBy"], f"pinned to {', '.join(names)}" in pinned["notes"][0]) == ("nodeAffinity", True)
    assert f"agentaflow.gpu/assigned-node: {','.join(names)}" in (placed.root / "jobs/vit.yaml").read_text()
    placed.write("jobs/vit.yaml", source)
    observe(placed, at="2026-10-20T09:00:00Z")
    stale = placed.run("placement", "pin", "--write")
    assert "main: nothing is pinned: the evidence is 13 days old" in stale.err
    assert (placed.root / "jobs/vit.yaml").read_text() == source


def test_torchrun_jobs_leave_nodes_with_warnings(fleet: Fleet) -> None:
    """F-099, F-102: a job is placed off WARN nodes while others have room, and never on FAIL ones; gangs of KAI, too."""
    job = (fleet.root / "jobs/vision/vit.yaml").read_text()
    fleet.write("jobs/vision/vit-two.yaml", job.replace("name: vit\n", "name: vit-two\n"))
    warned = {f"h100-0{number}": CheckStatus.WARN for number in (1, 2, 3)}
    health = {**warned, "h100-04": CheckStatus.FAIL}
    nodes = {name: ObservedNode(name=name, status=status) for name, status in health.items()}
    nodes |= {f"h100-0{number}": ObservedNode(name=f"h100-0{number}", status=CheckStatus.PASS) for number in (5, 6)}
    folder, at = fleet.root / "evidence/main", "2026-11-02T09:00:00Z"
    (folder / "health.yaml").write_bytes(write_health(FleetHealth(cluster="main", taken_at=at, nodes=nodes)))
    (folder / "usage.yaml").write_bytes(write_usage(Usage(cluster="main", observed_at=at)))
    fleet.commit()
    (line,) = json.loads(fleet.run("plan", "-o", "json").out)["placement"]
    (one,) = line["workloads"]
    assert (one["key"]["name"], one["word"], one["guaranteedBy"]) == ("vit-two", "starts", "KAI")
    assert not {name for name, _ in one["nodes"]} & set(health)
    assert line["excluded"] == ["1 node with 8 GPUs: failed health checks"]
