"""Fixtures of the real parts, for every test. All of them skip with the reason where a part cannot be had.

A skip says what was left out; with `CI=true` it is a failure. Nothing is built here: `make cluster` does that.
"""

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.cluster import server
from tests.cluster.build import (
    control_plane,
    control_plane_is_built,
    crds,
    part,
    part_is_built,
    to_stderr,
)
from tests.cluster.judges import Judge
from tests.cluster.kai import Kai, Programs, scheduling_cluster
from tests.cluster.parts import KAI, KWOK, SCHEDULER_PARTS, SYNC_MODULES, TRAINING_OPERATOR, ControlPlane
from tests.cluster.server import ApiServer
from tests.cluster.store import PartsUnavailableError

USER_CLUSTER = "RECONCILER_TEST_KUBECONFIG"


def left_out(what: str) -> NoReturn:
    """Skip this test, or fail it with `CI=true`: there nothing may be left out."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"left out: {what}", pytrace=False)
    pytest.skip(f"left out: {what}")


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a folder of this test run that all its pytest-xdist workers see."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "cluster"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def control_plane_programs() -> ControlPlane:
    """Return the programs of a control plane: built before, or those of `KUBEBUILDER_ASSETS`."""
    if not control_plane_is_built():
        left_out("the real API server is not built; `make cluster` builds it once, in about four minutes")
    try:
        return control_plane()
    except PartsUnavailableError as problem:
        left_out(str(problem))


@pytest.fixture(scope="session")
def crd_folder() -> Path:
    """Return the folder of the pinned CRDs, `<group>_<plural>.yaml` and `.json`."""
    try:
        return crds()
    except PartsUnavailableError as problem:
        left_out(str(problem))


@pytest.fixture(scope="session")
def sync_crd_folder() -> Path:
    """Return the folder of the CRDs of Argo CD and Flux."""
    try:
        return crds(modules=SYNC_MODULES)
    except PartsUnavailableError as problem:
        left_out(str(problem))


@pytest.fixture(scope="session")
def api_server(shared_folder: Path, crd_folder: Path, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """Run one real API server for the whole test run, with the CRDs; or use the cluster that the user named."""
    own = os.environ.get(USER_CLUSTER)
    if own:
        running = server.existing_cluster(Path(own), crd_folder, shared_folder)
    else:
        programs: ControlPlane = request.getfixturevalue("control_plane_programs")
        seed = server.stored_state(programs, crd_folder, to_stderr)
        running = server.api_server(shared_folder / "api-server", programs, crd_folder, seed=seed)
    with running as started:
        yield started


@pytest.fixture(scope="session")
def kai(shared_folder: Path, control_plane_programs: ControlPlane, crd_folder: Path) -> Iterator[Kai]:
    """Run the real KAI scheduler on a cluster of its own, once for the whole test run."""
    missing = [what.name for what in SCHEDULER_PARTS if not part_is_built(what)]
    if missing:
        # Optional everywhere, and so no failure with `CI=true`.
        pytest.skip(f"left out: {', '.join(missing)} not built; `make test-scheduler` builds them, in eight minutes")
    if control_plane_programs.manager is None:
        pytest.skip("left out: KUBEBUILDER_ASSETS has no kube-controller-manager, which makes the pods of Jobs")
    programs = Programs(
        control_plane=control_plane_programs,
        state=server.stored_state(control_plane_programs, crd_folder, to_stderr),
        manager=control_plane_programs.manager,
        kai=part(KAI),
        kwok=part(KWOK) / "kwok",
        operator=part(TRAINING_OPERATOR) / "training-operator",
    )
    with scheduling_cluster(shared_folder, programs, crd_folder) as running:
        yield running


@pytest.fixture(scope="session")
def kubectl(control_plane_programs: ControlPlane) -> Path:
    """Return the real kubectl (built with the control plane, of `KUBEBUILDER_ASSETS`, or on PATH)."""
    if control_plane_programs.kubectl is None:
        left_out("no kubectl in KUBEBUILDER_ASSETS nor on PATH")
    return control_plane_programs.kubectl


@pytest.fixture(scope="session")
def judged(request: pytest.FixtureRequest) -> Judge:
    """Return the judge: `judged(manifests)` fails unless a real API server accepts every one.

    Call it last in a test: where no server can be had it skips the test, after the test's own assertions.
    """
    return Judge(lambda: request.getfixturevalue("api_server"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs the real parts, so that `-m "not cluster"` leaves it out."""
    for item in items:
        names: set[str] = set(getattr(item, "fixturenames", ()))
        if "kai" in names:
            item.add_marker("scheduler")
        elif names & {"api_server", "kubectl", "control_plane_programs", "crd_folder"}:
            item.add_marker("cluster")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say where the logs of the parts lie when a test that used them fails."""
    report = yield
    started = getattr(item, "funcargs", {}).get("api_server")
    if report.failed and started is not None:
        report.sections.append(("real parts", f"logs: {started.logs}"))
    return report
