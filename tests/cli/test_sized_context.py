"""What a sized job depends on besides its own file: flavors, nodes, configurations. A warm plan equals a cold one."""

import json
from typing import Any

import pytest

from reconciler.launch import is_configuration, resolve_file
from tests.cli.fleet import Fleet
from tests.cli.test_sized_plan import JOB, OWN_MODEL, RENDERED, plan

SELECTOR = "          nodeSelector:\n            nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n"
ANY_CARD = JOB.replace(SELECTOR, "")
QUEUED = ANY_CARD.replace("    team: vision\n", "    team: vision\n    kueue.x-k8s.io/queue-name: lane\n")
FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {{name: {name}}}
spec: {{nodeLabels: {{nvidia.com/gpu.product: {product}}}}}
---
"""
LANE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: lane, namespace: vision}
spec: {clusterQueue: lanes}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: lanes}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: one
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
        - name: two
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
"""
FSDP = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_sharding_strategy: FULL_SHARD}\n"


def note(fleet: Fleet, *flags: str) -> dict[str, Any]:
    """Return how the job was sized, the same by a warm and by a cold plan."""
    warm = plan(fleet, *flags)
    assert warm == plan(fleet, *flags, "--cache", "off")
    found: dict[str, Any] = next(change for change in warm["changes"] if change["path"] == RENDERED)["sizing"]
    return found


def products(told: dict[str, Any]) -> set[str]:
    return {one["product"] for one in told["candidates"]}


def flavor(name: str, product: str) -> str:
    return FLAVOR.format(name=name, product=product)


def test_flavors_of_the_queue_are_compared_by_price(fleet: Fleet) -> None:
    """F-005: LocalQueue, ClusterQueue, ResourceFlavors; a changed flavor sizes the job anew; the pods are bound to it."""
    fleet.write("jobs/llama.yaml", QUEUED)
    fleet.write("queues/lane.yaml", LANE)
    one = flavor("one", "NVIDIA-H100-80GB-HBM3")
    fleet.write("queues/flavors.yaml", one + flavor("two", "NVIDIA-L40S"))
    assert products(note(fleet)) == {"NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"}
    fleet.write("queues/flavors.yaml", one + flavor("two", "NVIDIA-A100-SXM4-80GB"))
    told = note(fleet)
    assert products(told) == {"NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"}
    chosen = next(one["product"] for one in told["candidates"] if one["chosen"])
    assert chosen in fleet.run("render").out.partition("kind: PyTorchJob")[2].partition("nodeSelector")[2]


def test_prices_of_the_settings_decide(fleet: Fleet) -> None:
    fleet.write("jobs/llama.yaml", QUEUED)
    fleet.write("queues/lane.yaml", LANE)
    cards = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB")
    fleet.write("queues/flavors.yaml", flavor("one", cards[0]) + flavor("two", cards[1]))
    settings = fleet.root / "reconciler.yaml"
    base = settings.read_text().rstrip("\n")
    for cheap, dear in (cards, cards[::-1]):
        settings.write_text(f"{base}\n  sizing: {{prices: {{{cheap}: 0.1, {dear}: 50}}}}\n")
        assert next(one["product"] for one in note(fleet)["candidates"] if one["chosen"]) == cheap


def test_a_configuration_that_the_line_names(fleet: Fleet) -> None:
    """F-001: accelerate's file in the repository is read as the container would find it; it is no manifest."""
    line = "accelerate launch --config_file /etc/accelerate/fsdp.yaml \\"
    own = JOB.replace("accelerate launch \\", line).replace("-m tuning.sft_trainer", "train.py --bf16 true")
    fleet.write("jobs/llama.yaml", own)
    ran = fleet.run("plan")
    assert ran.code == 3
    assert "fsdp.yaml" in ran.out
    fleet.write("jobs/accelerate/fsdp.yaml", FSDP)
    assert "fsdp-full" in note(fleet)["read"]
    fleet.write("jobs/accelerate/fsdp.yaml", FSDP.replace("FULL_SHARD", "SHARD_GRAD_OP"))
    assert "fsdp-grad-op" in note(fleet)["read"]


def test_the_model_beside_the_job_wins(fleet: Fleet) -> None:
    """F-004: a changed config.json sizes the job anew."""
    fleet.write("jobs/own/llama.yaml", JOB.replace("ibm-granite/granite-3.1-8b-instruct", "/models/our-own"))
    fleet.write("jobs/own/config.json", json.dumps(OWN_MODEL))
    before = note(fleet)["read"]
    fleet.write("jobs/own/config.json", json.dumps({**OWN_MODEL, "num_hidden_layers": 16}))
    assert note(fleet)["read"] != before


def test_memory_that_was_measured_wins(fleet: Fleet) -> None:
    """F-005: what the nodes really have is what the job is sized against."""
    fleet.write("jobs/llama.yaml", ANY_CARD)
    before = note(fleet)["candidates"][0]["memoryGib"]
    evidence = fleet.root / "evidence/main/nodes.yaml"
    text = evidence.read_text()
    assert "memoryMiB: 81559" in text
    evidence.write_text(text.replace("memoryMiB: 81559", "memoryMiB: 61440"))
    after = note(fleet)["candidates"][0]["memoryGib"]
    assert (before, after) == (pytest.approx(79.65, abs=0.01), 60.0)


@pytest.mark.parametrize(
    ("written", "near", "found"),
    [
        ("/etc/accelerate/fsdp.yaml", "jobs/a.yaml", "jobs/accelerate/fsdp.yaml"),
        ("fsdp.yaml", "other/a.yaml", "other/fsdp.yaml"),
        ("fsdp.yaml", "jobs/a.yaml", None),
        ("absent.yaml", "jobs/a.yaml", None),
        ("", "jobs/a.yaml", None),
        ("../../fsdp.yaml", "other/a.yaml", "other/fsdp.yaml"),
    ],
)
def test_files_are_found_by_how_they_are_mounted(written: str, near: str, found: str | None) -> None:
    assert resolve_file(written, ("jobs/accelerate/fsdp.yaml", "other/fsdp.yaml"), near) == found


def test_what_claims_a_kind_is_no_configuration() -> None:
    assert is_configuration({"distributed_type": "FSDP"})
    assert not is_configuration({"kind": "ConfigMap", "distributed_type": "FSDP"})
    assert not is_configuration({"metadata": {"name": "a"}})


def test_all_jobs_means_all_that_name_a_model(fleet: Fleet) -> None:
    """F-017: with `all`, scripts that train something else pass as they are; one that names a model must be understood."""
    settings = fleet.root / "reconciler.yaml"
    settings.write_text(settings.read_text().rstrip("\n") + "\n  sizing: {select: {all: true}}\n")
    assert fleet.run("lint").code == 0
    fleet.write("jobs/llama.yaml", JOB.replace("    autoconf-plugin-name: resource-requirements-appwrapper\n", ""))
    assert note(fleet)["read"].startswith("granite-3.1-8b")
    fleet.edit("jobs/llama.yaml", "size=4", "size=many")
    assert fleet.run("lint").code == 3
