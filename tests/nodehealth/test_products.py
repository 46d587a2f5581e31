"""Ports and links as products and Git expect them: what is by design is no fault, and what everybody lost is one."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import NodeExpectation, PortExpectation
from reconciler.nodehealth.readings import ReadError, Sweep
from tests.nodehealth.readers.fakes.library import changed, sound

PASS, WARN, FAIL, SKIP = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.SKIP


def node(product: str, links: Sequence[int], *, kinds: int = 12, **values: Any) -> Sweep:
    """Return a node of GPUs of one product with so many active links each."""
    sweep = sound(len(links))
    sweep = replace(sweep, gpus=tuple(replace(gpu, product=product) for gpu in sweep.gpus))
    for gpu, active in zip(sweep.gpus, links, strict=True):
        states = [1] * active + [0] * (kinds - active)
        sweep = changed(sweep, {"nvml.nvlink_states": states, "nvml.fabric": ReadError.NOT_SUPPORTED}, gpu.slot)
    return changed(sweep, values) if values else sweep


def statuses(sweep: Sweep, check: str) -> list[CheckStatus]:
    return [found.status for found in judge(sweep, only=[check])]


@pytest.mark.parametrize(
    ("product", "links", "kinds", "expected"),
    [
        ("NVIDIA A100 80GB PCIe", (12, 12, 0, 0), 12, [PASS, PASS, SKIP, SKIP]),  # one bridged pair
        ("NVIDIA H100 PCIe", (12, 12, 12, 0), 12, [PASS, PASS, PASS, FAIL]),  # a bridge has two ends
        ("NVIDIA H200 NVL", (18, 17), 18, [PASS, FAIL]),
        ("NVIDIA A100-SXM4-80GB", (12, 0), 12, [PASS, FAIL]),
        ("NVIDIA H200", (17, 17), 18, [WARN, WARN]),  # the same link is down on all
        ("NVIDIA H800", (8, 8), 18, [PASS, PASS]),
        ("NVIDIA X1", (17, 17), 18, [PASS, PASS]),
    ],
)
def test_links_of_products(product: str, links: Sequence[int], kinds: int, expected: list[CheckStatus]) -> None:
    assert statuses(node(product, links, kinds=kinds), "nvlink.active") == expected


def test_a_gpu_in_mig_mode_needs_no_reset() -> None:
    """It uses no NVLink and is not part of a fabric, which is no fault."""
    sweep = node("NVIDIA A100-SXM4-80GB", (12, 0))
    sweep = changed(sweep, {"nvml.mig_mode": {"current": 1, "pending": 1}}, sweep.gpus[1].slot)
    assert statuses(sweep, "nvlink.active") == [PASS, SKIP]
    assert statuses(sweep, "fabric.state") == [SKIP, SKIP]


def test_a_product_without_ecc_does_not_warn_for_ever() -> None:
    off = {"nvml.ecc_mode": {"current": 0, "pending": 0}}
    sweep = node("NVIDIA GeForce RTX 4090", (0,))
    assert statuses(changed(sweep, off, sweep.gpus[0].slot), "ecc.mode") == [SKIP]
    pro = node("NVIDIA A100-SXM4-80GB", (12,))
    assert statuses(changed(pro, off, pro.gpus[0].slot), "ecc.mode") == [WARN]


def test_a_dead_fabric_manager_of_a_board_with_switches() -> None:
    """An A100 does not tell the state of its fabric: without the service no program starts."""
    board = node("NVIDIA A100-SXM4-80GB", (12,) * 8)
    assert statuses(changed(board, {"procfs.daemons": ["kubelet"]}), "fabricmanager") == [FAIL]
    assert statuses(changed(board, {"procfs.daemons": ["kubelet", "nv-fabricmanager"]}), "fabricmanager") == [SKIP]
    assert statuses(changed(board, {"procfs.daemons": []}), "fabricmanager") == [SKIP], "the host is not seen"
    four = node("NVIDIA A100-SXM4-80GB", (12,) * 4)
    assert statuses(changed(four, {"procfs.daemons": ["kubelet"]}), "fabricmanager") == [SKIP]


def test_imex_where_git_expects_it() -> None:
    """F-166: a policy that expects IMEX fails a node without its daemon."""
    sweep, wanted = sound(1), NodeExpectation(imex=True, origin="HealthPolicy nvl72")
    (found,) = judge(sweep, only=["imex"], expected=wanted)
    assert (found.status, "HealthPolicy nvl72" in found.message) == (FAIL, True)
    running = changed(sweep, {"procfs.daemons": ["nvidia-imex"]})
    assert judge(running, only=["imex"], expected=wanted)[0].status is PASS


def ports(count: int = 8, layer: str = "InfiniBand", **odd: Any) -> list[dict[str, Any]]:
    """Return active ports, of which the fourth has other values."""
    row = {"port": "1", "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
           "link_layer": layer, "link_downed": 0, "symbol_error": 0}  # fmt: skip
    return [{**row, "device": f"mlx5_{index}", **(odd if index == 3 else {})} for index in range(count)]


def state(
    rows: list[dict[str, Any]], *earlier: tuple[float, list[dict[str, Any]]], **expected: PortExpectation
) -> HealthFinding:
    sweep = changed(sound(1), {"sysfs.infiniband_ports": rows})
    history = [
        replace(changed(sweep, {"sysfs.infiniband_ports": was}), taken_at=sweep.taken_at - age) for age, was in earlier
    ]
    wanted = NodeExpectation(**expected, origin="HealthPolicy base") if expected else NodeExpectation()  # type: ignore[arg-type]
    (found,) = judge(sweep, history=history, only=["ib.state"], expected=wanted)
    return found


DOWN: dict[str, Any] = {"state": "1: DOWN", "phys_state": "2: Polling"}


def test_a_port_that_is_down_for_long_stays_down() -> None:
    """F-166: the baseline does not age out with the hour, and a restart of the agent proves nothing."""
    lost = state(ports(**DOWN), (3660, ports()), (60, ports(**DOWN)))
    assert (lost.status, lost.message) == (FAIL, "ports went down: mlx5_3/1")
    assert state(ports(**DOWN), (6 * 86_400, ports())).status is FAIL
    fresh = state(ports(**DOWN))
    assert (fresh.status, fresh.since) == (PASS, 0.0), "perhaps no cable: this pass ends no failure"
    assert state(ports()).since > 0


def test_ports_that_git_expects() -> None:
    """F-166: number and rate, without any baseline; of InfiniBand and of Ethernet each."""
    wanted = PortExpectation(ports=8, rate=400)
    assert state(ports(), ib=wanted).status is PASS
    short = state(ports(**DOWN), ib=wanted)
    assert short.status is FAIL
    assert short.message == "7 of 8 InfiniBand ports are active (HealthPolicy base); down: mlx5_3/1"
    slow = state(ports(rate="200 Gb/sec (2X NDR)"), ib=wanted)
    assert (slow.status, "below 400 Gb/s: mlx5_3/1" in slow.message) == (FAIL, True)
    assert state([], ib=wanted).status is FAIL
    assert state(ports(layer="Ethernet"), ib=wanted).status is FAIL
    assert state(ports(layer="Ethernet"), ethernet=wanted).status is PASS
    assert state(ports(**DOWN), (60, ports()), ib=PortExpectation(ports=7)).status is PASS, "Git knows better"


def test_ports_beside_the_others() -> None:
    """Half the rate of its peers, and a link without a subnet manager, are seen at the first look."""
    slow = state(ports(rate="200 Gb/sec (2X NDR)"))
    assert (slow.status, slow.message) == (WARN, "mlx5_3/1 runs at 200 of 400 Gb/s")
    unmanaged = state(ports(state="2: INIT"))
    assert (unmanaged.status, "no subnet manager" in unmanaged.message) == (WARN, True)
