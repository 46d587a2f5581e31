"""Quotas follow quarantines: `reconciler propose` lowers them by the lost GPUs, and raises them again."""

import yaml

from tests.cli.fleet import Fleet
from tests.cli.test_health_kinds import QUARANTINE
from tests.live.observe.test_propose import EVIDENCE, H100, inventory, node


def _quota(fleet: Fleet) -> int:
    assert fleet.run("propose", "--write").code == 0
    documents = [
        document
        for path in (fleet.root / "queues").glob("*-pools.yaml")
        for document in yaml.safe_load_all(path.read_text())
    ]
    (queue,) = [document for document in documents if document and document["kind"] == "ClusterQueue"]
    resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return next(int(one["nominalQuota"]) for one in resources if one["name"] == "nvidia.com/gpu")


def test_lost_gpus_lower_the_quota_and_come_back(fleet: Fleet) -> None:
    """F-102: no quota promises GPUs of a node that is out of use."""
    fleet.edit("reconciler.yaml", "backend: kai", "backend: kueue")
    fleet.write(EVIDENCE, inventory(*(node(f"gpu-{number}", H100, "NVIDIA-H100-80GB-HBM3") for number in range(1, 5))))
    assert _quota(fleet) == 32
    fleet.write("queues/health.yaml", QUARANTINE)
    assert _quota(fleet) == 24
    fleet.write("queues/health.yaml", QUARANTINE.replace("  slots:", "  effect: PreferNoSchedule\n  slots:"))
    assert _quota(fleet) == 32, "a preference loses nothing"
    (fleet.root / "queues/health.yaml").unlink()
    assert _quota(fleet) == 32
