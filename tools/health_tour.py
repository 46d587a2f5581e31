"""Play the agents of all GPU nodes of a cluster: `python -m tools.health_tour`, for the tour of docs/health.md.

Every node reports what a recorded sweep of eight GPUs says: those of `--xid79` also that the kernel lost one, those of
`--deep` that a deep test passed. Nothing but NodeHealthReports is written.
"""

import argparse
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.health.fleet_reading import read_fleet
from reconciler.health.node import peak_table, xid_table
from reconciler.health.probe import read_replay
from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.nodehealth.findings import CheckStatus, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.merging import SweepResult, merged, with_run
from reconciler.nodehealth.published import body_of
from reconciler.nodehealth.readings import NodeReading, ReadingId, Sweep
from reconciler.nodehealth.report import ProfileRun

_MANAGER = "gpureconciler-agent"
_RECORDED = Path(__file__).parents[1] / "tests/nodehealth/readers/replays/fake-h200.json"


def sweep_of(node: str, recorded: Sweep, *, has_xid: bool) -> Sweep:
    """Return the recorded sweep as one of this node and moment."""
    now = time.time()
    readings = tuple(one for one in recorded.readings if not has_xid or one.name is not ReadingId.KMSG_LINES)
    if has_xid:
        slot = recorded.gpus[0].slot.removesuffix(".0")
        text = f"NVRM: Xid (PCI:{slot}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        row = {"seconds": now - 1, "boot": recorded.boot_id, "text": text}
        readings += (NodeReading(name=ReadingId.KMSG_LINES, value=[row]),)
    return replace(recorded, node=node, taken_at=now, readings=readings)


def publish(cluster: KubernetesCluster, body: Mapping[str, Any]) -> None:
    """Write one report."""
    cluster.apply({name: value for name, value in body.items() if name != "status"}, manager=_MANAGER)
    cluster.apply(body, manager=_MANAGER, force=True, subresource="status")


def main() -> int:
    """Publish one report of every node; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.health_tour", description=__doc__)
    parser.add_argument("--xid79", metavar="NODE", nargs="*", default=[], help="nodes that lost a GPU")
    parser.add_argument("--deep", metavar="NODE", nargs="*", default=[], help="nodes that passed a deep test")
    options = parser.parse_args()
    recorded = read_replay(_RECORDED.read_bytes(), str(_RECORDED))[-1]
    xids, peaks = xid_table(), peak_table()
    with KubernetesCluster(load_access(os.environ)) as cluster:
        fleet = read_fleet(cluster)
        for name, node in sorted(fleet.facts.items()):
            sweep = sweep_of(name, recorded, has_xid=name in options.xid79)
            profile = ProbeProfile.DEEP if name in options.deep else ProbeProfile.LIGHT
            findings = judge(sweep, xids=xids, peaks=peaks)
            if profile is ProbeProfile.DEEP:  # what a deep test after a restart would say: no GPU is here to run one
                sweep = replace(sweep, boot_id=f"repaired-{sweep.boot_id}")
                heavy = (replace(one, status=CheckStatus.PASS, profile=profile) for one in findings if one.slot)
                findings = (*heavy, *(one for one in findings if not one.slot))
            result = SweepResult(sweep=sweep, findings=findings, profile=profile)
            report = merged(fleet.reports.get(name), result, node_uid=node.uid, version="tour")
            if profile is ProbeProfile.DEEP:
                run = ProfileRun(profile=profile, finished_at=sweep.taken_at, status=CheckStatus.PASS)
                report = with_run(report, run)
            publish(cluster, body_of(report))
    sys.stdout.write(f"{len(fleet.facts)} reports\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
