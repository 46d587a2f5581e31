"""Domains of IMEX: the output of `nvidia-imex-ctl -N -j` of the field, other outputs, and which node is to blame."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readers.imex import ImexSource, imex_domain
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, SourceReadings
from tests.nodehealth.readers.fakes.library import changed, sound

PASS, WARN, FAIL, UNKNOWN = CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL, CheckStatus.UNKNOWN
RUNS = SourceReadings(readings=(NodeReading(name=ReadingId.PROCFS_DAEMONS, value=["nvidia-imex"]),))


def domain(bad: str = "", status: str = "UNAVAILABLE", *, count: int = 4, names: bool = True) -> dict[str, Any]:
    """Return what the program prints for nodes `n0` …; one of them is bad, so no other is connected to it."""
    hosts = {f"n{index}": f"10.0.0.{index}" for index in range(count)}
    nodes = {}
    for index, (name, host) in enumerate(hosts.items()):
        links = {
            str(number): {"host": other, "status": "INVALID" if bad in (peer, name) else "CONNECTED", "changed": True}
            for number, (peer, other) in enumerate(hosts.items())
        }
        row = {"status": status if name == bad else "READY", "host": host, "connections": links, "changed": True}
        nodes[str(index)] = {**row, "version": "570.133.20", **({"hostName": name} if names else {})}
    return {"nodes": nodes, "timestamp": "9/4/2026 00:00:00.000", "status": "DEGRADED" if bad else "UP"}


def read(tmp_path: Path, script: str) -> NodeReading:
    program = tmp_path / "nvidia-imex-ctl"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    environ = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    (reading,) = ImexSource(environ=environ).read(ProbeProfile.LIGHT, RUNS).readings
    return reading


def test_the_program_is_asked_where_the_service_runs(tmp_path: Path) -> None:
    (tmp_path / "out.json").write_text(json.dumps(domain(count=18)))
    reading = read(tmp_path, f'[ "$*" = "-N -j" ] && cat {tmp_path}/out.json')
    assert isinstance(reading.value, dict)
    assert (reading.value["status"], len(reading.value["nodes"])) == ("UP", 18)
    without = SourceReadings(readings=(NodeReading(name=ReadingId.PROCFS_DAEMONS, value=["kubelet"]),))
    for before in (without, SourceReadings()):
        assert ImexSource(environ={"PATH": str(tmp_path)}).read(ProbeProfile.LIGHT, before).readings == ()
    missing = ImexSource(environ={"PATH": "/nowhere"}).read(ProbeProfile.LIGHT, RUNS).readings[0]
    assert missing.error is ReadError.NOT_SUPPORTED


@pytest.mark.parametrize(
    "output",
    ["", "[]", "null", "{", '{"nodes": []}', '{"nodes": {}, "status": "UP"}', "Unable to connect", "[" * 99999],
)
def test_other_outputs_are_errors(tmp_path: Path, output: str) -> None:
    (tmp_path / "out").write_text(output)
    reading = read(tmp_path, f"cat {tmp_path}/out; echo 'no server' >&2; exit 1")
    assert (reading.error, reading.value) == (ReadError.FAILED, None)
    assert reading.detail.startswith("exit code 1, ")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(field=st.sampled_from(["status", "nodes", "host", "connections"]), value=JSON)
def test_half_a_domain_is_no_domain(field: str, value: Any) -> None:
    """Whatever stands in the place of a part: a domain of the same form, or an error."""
    document = domain()
    body = document if field in document else document["nodes"]["2"]
    body[field] = value
    try:
        found = imex_domain(json.dumps(document))
    except ValueError:
        return
    assert isinstance(found["status"], str)
    assert all(isinstance(one["host"], str) and isinstance(one["cut"], list) for one in found["nodes"])


def judged(node: str, document: dict[str, Any] | ReadError, **expected: Any) -> HealthFinding:
    value = document if isinstance(document, ReadError) else imex_domain(json.dumps(document))
    sweep = changed(replace(sound(4), node=node), {"procfs.daemons": ["nvidia-imex"], "imex.domain": value})
    (found,) = judge(sweep, only=["imex"], expected=NodeExpectation(**expected, origin="HealthPolicy nvl72"))
    return found


def test_one_node_of_a_domain_is_to_blame() -> None:
    """The node that is down fails; the others warn, so that one bad node does not take a rack."""
    assert judged("n1", domain()).status is PASS
    assert [judged(f"n{index}", domain("n2")).status for index in range(4)] == [WARN, WARN, FAIL, WARN]
    found = judged("n2", domain("n2"))
    assert found.message == "3 of 4 nodes of the IMEX domain are connected, and it is DEGRADED: n2 UNAVAILABLE"
    assert judged("n2", domain("n2", "READY")).status is FAIL, "ready, and connected to nobody"
    lost = domain()
    lost["nodes"]["0"]["connections"]["3"]["status"] = lost["nodes"]["3"]["connections"]["0"]["status"] = "RECOVERING"
    lost["status"] = "DEGRADED"
    assert [judged(f"n{index}", lost).status for index in range(4)] == [WARN] * 4, "one link, and nobody is to blame"
    assert judged("elsewhere", domain("n2", names=False)).status is WARN, "a node that cannot be told apart"


def test_a_domain_is_compared_with_what_git_expects() -> None:
    """Nodes that the domain was started without are missed; a program that does not answer is no pass."""
    found = judged("n1", domain(count=17), imex_nodes=18)
    assert (found.status, found.observed) == (WARN, 17)
    assert found.message.endswith("and it is UP (HealthPolicy nvl72)")
    assert judged("n1", domain(count=18), imex_nodes=18).status is PASS
    assert judged("n1", ReadError.FAILED, imex_nodes=18).status is UNKNOWN
    running = changed(sound(1), {"procfs.daemons": ["nvidia-imex"]})
    (silent,) = judge(running, only=["imex"], expected=NodeExpectation(imex_nodes=18))
    assert silent.status is UNKNOWN
