"""Fixtures of the real parts, for every test. All of them skip with the reason where a part cannot be had.

A skip says what was left out; with `CI=true` it is a failure. No program is built here: `make test-cluster` does that
first, and `python -m tests.cluster.build` alone. Every fixture gets its programs from `parts`, which is what makes a
test one of the cluster tier (`tests/tiers.py`).
"""

import json
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.cluster import build, server
from tests.cluster.bed import argo_cd as argo_cd_part
from tests.cluster.bed import bed as cluster_bed
from tests.cluster.bed import flux as flux_part
from tests.cluster.bed import git_http, operators
from tests.cluster.bed import gitea as gitea_part
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.git_http import GitServer
from tests.cluster.bed.gitea import Gitea
from tests.cluster.bed.kai import start_kai
from tests.cluster.bed.operators import Operator, start_operator
from tests.cluster.build import to_stderr
from tests.cluster.judges import Judge, judge_by_schemas, judge_by_server
from tests.cluster.parts import (
    ARGO_CD,
    BED_MODULES,
    CRD_MODULES,
    FLUX_KUSTOMIZE,
    FLUX_SOURCE,
    GITEA,
    HELM,
    KAI,
    KUSTOMIZE,
    KWOK,
    REPORT_MODULES,
    SYNC_MODULES,
    ControlPlane,
    Module,
    Part,
)
from tests.cluster.server import ApiServer
from tests.cluster.store import PartsUnavailableError

USER_CLUSTER = "RECONCILER_TEST_KUBECONFIG"
_ENDED_EARLY = ("bed", "worker", "private_server", "_fragile")
"""Servers of few tests, which are consecutive (`tests.shares`). An idle bed takes a quarter of a processor."""


def left_out(what: str) -> NoReturn:
    """Skip this test, or fail it with `CI=true`: there nothing may be left out."""
    if os.environ.get("CI", "").lower() in {"1", "true"}:
        pytest.fail(f"left out: {what}", pytrace=False)
    pytest.skip(f"left out: {what}")


class Parts:
    """What was built before; a test that asks for something that is not there is left out."""

    def folder(self, what: Part) -> Path:
        """Return the folder with the programs of a part."""
        if not build.part_is_built(what):
            left_out(f"{what.name} is not built; `python -m tests.cluster.build {what.name}` builds it once")
        return build.part(what)

    def program(self, what: Part) -> Path:
        """Return the program of a part that has one."""
        ((name, _),) = what.programs
        return self.folder(what) / name

    def control_plane(self) -> ControlPlane:
        """Return the programs of a control plane: built before, or those of `KUBEBUILDER_ASSETS`."""
        if not build.control_plane_is_built():
            left_out("the real API server is not built; `make test-cluster` builds it once, in about four minutes")
        try:
            return build.control_plane()
        except PartsUnavailableError as problem:
            left_out(str(problem))

    def crds(self, modules: tuple[Module, ...] = CRD_MODULES) -> Path:
        """Return the folder of the definitions of some modules, `<group>_<plural>.json`; they are fetched if need be."""
        try:
            return build.crds(modules=modules)
        except PartsUnavailableError as problem:
            left_out(str(problem))

    def redis(self) -> Path:
        """Return the program of the store in memory."""
        if not build.redis_is_built():
            left_out("redis is not built; `make test-cluster` builds it once, in seconds")
        return build.redis()


@pytest.fixture(scope="session")
def parts() -> Parts:
    """Return the parts that were built before. A test that uses them, through whatever fixture, is of the cluster tier."""
    return Parts()


@pytest.fixture(scope="session")
def package_index() -> None:
    """Say that a test installs packages from the index: it is of the cluster tier, as no network is needed without."""


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a folder of this test run that all its pytest-xdist workers see."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "cluster"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def control_plane_programs(parts: Parts) -> ControlPlane:
    """Return the programs of a control plane."""
    return parts.control_plane()


@pytest.fixture(scope="session")
def crd_folder(parts: Parts) -> Path:
    """Return the folder of the pinned CRDs, `<group>_<plural>.json`."""
    return parts.crds()


@pytest.fixture(scope="session")
def sync_crd_folder(parts: Parts) -> Path:
    """Return the folder of the CRDs of Argo CD and Flux."""
    return parts.crds(SYNC_MODULES)


@pytest.fixture(scope="session")
def report_definitions(parts: Parts) -> list[dict[str, Any]]:
    """Return the definitions of PolicyReport and ClusterPolicyReport."""
    paths = sorted(parts.crds(REPORT_MODULES).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


@pytest.fixture(scope="session")
def api_server(shared_folder: Path, crd_folder: Path, parts: Parts) -> Iterator[ApiServer]:
    """Run one real API server for the whole test run, with the CRDs; or use the cluster that the user named."""
    own = os.environ.get(USER_CLUSTER)
    if own:
        running = server.existing_cluster(Path(own), crd_folder, shared_folder)
    else:
        programs = parts.control_plane()
        seed = server.stored_state(programs, crd_folder, to_stderr)
        running = server.api_server(shared_folder / "api-server", programs, crd_folder, seed=seed)
    with running as started:
        yield started


def joined(start: Callable[[], None]) -> None:
    """Start a part; leave the test out where the user's own cluster lacks it."""
    try:
        start()
    except PartsUnavailableError as problem:
        left_out(str(problem))


def run_operator(bed: Bed, operator: Operator, parts: Parts) -> None:
    """Run an operator in the bed; see `joined`."""
    joined(lambda: start_operator(bed, operator, parts.folder(operator.part)))


@pytest.fixture(scope="session")
def bed(shared_folder: Path, crd_folder: Path, parts: Parts) -> Iterator[Bed]:
    """Run one cluster with the controllers of Kubernetes for the whole test run, or use the one that the user named.

    What else a test needs it names: `kwok`, `scheduler`, `kueue`, `kai`, `training_operator`, `mpi_operator`, `jobset`,
    `trainer`, `lws`, `kuberay`, `appwrapper`, `flux`, `argo_cd`.
    """
    own = os.environ.get(USER_CLUSTER)
    if own:
        running = cluster_bed.existing(Path(own), crd_folder, shared_folder)
    else:
        programs = parts.control_plane()
        if programs.manager is None:
            left_out("KUBEBUILDER_ASSETS has no kube-controller-manager, which makes the pods of Jobs")
        definitions = parts.crds(BED_MODULES)
        state = server.stored_state(programs, definitions, to_stderr)
        running = cluster_bed.bed(shared_folder / "bed", programs, definitions, state)
    with running as started:
        yield started


@pytest.fixture(scope="session")
def worker(shared_folder: Path, crd_folder: Path, parts: Parts) -> Iterator[Bed]:
    """Run a second cluster with kwok, a scheduler, Kueue and JobSet, to which the Kueue of the bed can send jobs."""
    programs = parts.control_plane()
    if programs.manager is None or programs.scheduler is None:
        left_out("KUBEBUILDER_ASSETS has no kube-controller-manager or no kube-scheduler")
    state = server.stored_state(programs, crd_folder, to_stderr)
    with cluster_bed.bed(shared_folder / "worker", programs, crd_folder, state) as started:
        cluster_bed.start_kwok(started, parts.program(KWOK))
        cluster_bed.start_scheduler(started, programs.scheduler)
        for operator in (operators.KUEUE, operators.JOBSET):
            start_operator(started, operator, parts.folder(operator.part))
        yield started


@pytest.fixture(scope="session")
def scheduler(bed: Bed, parts: Parts) -> None:
    """Run kube-scheduler in the bed."""
    program = None
    if bed.folder is not None:
        program = parts.control_plane().scheduler or left_out("KUBEBUILDER_ASSETS has no kube-scheduler")
    joined(lambda: cluster_bed.start_scheduler(bed, program or Path()))


@pytest.fixture(scope="session")
def kwok(bed: Bed, parts: Parts) -> None:
    """Run kwok in the bed: it plays the kubelet of every node."""
    joined(lambda: cluster_bed.start_kwok(bed, parts.program(KWOK)))


@pytest.fixture(scope="session")
def kueue(bed: Bed, parts: Parts) -> None:
    """Run Kueue with its webhooks in the bed."""
    run_operator(bed, operators.KUEUE, parts)


@pytest.fixture(scope="session")
def kai(bed: Bed, parts: Parts) -> None:
    """Run the KAI scheduler, binder, podgrouper and queue controller in the bed."""
    joined(lambda: start_kai(bed, parts.folder(KAI)))


@pytest.fixture(scope="session")
def training_operator(bed: Bed, parts: Parts) -> None:
    """Run the Kubeflow training operator in the bed, for all its kinds but its MPIJob."""
    run_operator(bed, operators.TRAINING_OPERATOR, parts)


@pytest.fixture(scope="session")
def jobset(bed: Bed, parts: Parts) -> None:
    """Run the JobSet controller in the bed."""
    run_operator(bed, operators.JOBSET, parts)


@pytest.fixture(scope="session")
def trainer(bed: Bed, parts: Parts, jobset: None) -> None:
    """Run the Kubeflow Trainer in the bed, which makes a JobSet of each TrainJob."""
    del jobset
    run_operator(bed, operators.TRAINER, parts)


@pytest.fixture(scope="session")
def lws(bed: Bed, parts: Parts) -> None:
    """Run the LeaderWorkerSet controller in the bed."""
    run_operator(bed, operators.LWS, parts)


@pytest.fixture(scope="session")
def kuberay(bed: Bed, parts: Parts) -> None:
    """Run KubeRay in the bed: it makes pods, but nothing in them answers as Ray does."""
    run_operator(bed, operators.KUBERAY, parts)


@pytest.fixture(scope="session")
def appwrapper(bed: Bed, parts: Parts) -> None:
    """Run the AppWrapper controller in the bed."""
    run_operator(bed, operators.APPWRAPPER, parts)


@pytest.fixture(scope="session")
def mpi_operator(bed: Bed, parts: Parts) -> None:
    """Run the MPI operator in the bed, for MPIJobs of v2beta1."""
    run_operator(bed, operators.MPI_OPERATOR, parts)


@pytest.fixture(scope="session")
def flux(bed: Bed, parts: Parts, sync_crd_folder: Path) -> None:
    """Run Flux's source-controller and kustomize-controller in the bed."""
    source, kustomize = parts.program(FLUX_SOURCE), parts.program(FLUX_KUSTOMIZE)
    joined(lambda: flux_part.start_flux(bed, source, kustomize, sync_crd_folder))


@pytest.fixture(scope="session")
def argo_cd(bed: Bed, parts: Parts, sync_crd_folder: Path) -> None:
    """Run Argo CD in the bed."""
    builders = parts.program(KUSTOMIZE), parts.program(HELM)
    joined(lambda: argo_cd_part.start_argo_cd(bed, parts.program(ARGO_CD), parts.redis(), builders, sync_crd_folder))


@pytest.fixture(scope="session")
def git_server(shared_folder: Path) -> Iterator[GitServer]:
    """Run a Git server over smart HTTP for the whole test run; repositories are each test's own."""
    with git_http.git_server(shared_folder / "git") as running:
        yield running


@pytest.fixture(scope="session")
def gitea(shared_folder: Path, parts: Parts) -> Iterator[Gitea]:
    """Run Gitea for the whole test run; repositories are each test's own."""
    with gitea_part.gitea(shared_folder / "gitea", parts.folder(GITEA)) as running:
        yield running


@pytest.fixture(scope="session")
def kubectl(control_plane_programs: ControlPlane) -> Path:
    """Return the real kubectl (built with the control plane, of `KUBEBUILDER_ASSETS`, or on PATH)."""
    if control_plane_programs.kubectl is None:
        left_out("no kubectl in KUBEBUILDER_ASSETS nor on PATH")
    return control_plane_programs.kubectl


@pytest.fixture(scope="session", params=["schemas", pytest.param("server", marks=pytest.mark.cluster)])
def judged(request: pytest.FixtureRequest) -> Judge:
    """Return the judge: `judged(manifests)` fails unless every one is accepted.

    A test that uses it is two: the schemas that we ship judge in the offline tier, a real API server in the other one.
    Call it last: where no server can be had it skips the test, after the test's own assertions.
    """
    if request.param == "schemas":
        return Judge(judge_by_schemas)
    return Judge(lambda bodies: judge_by_server(request.getfixturevalue("api_server"), bodies))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop servers that the next test does not use."""
    following: set[str] = set(getattr(nextitem, "fixturenames", ()))
    for name in _ENDED_EARLY:
        if name not in following:
            for fixture in item.session._fixturemanager.getfixturedefs(name, item) or ():
                fixture.finish(item._request)  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say where the logs of the parts lie when a test that used them fails."""
    report = yield
    if report.failed:
        used = getattr(item, "funcargs", {})
        folders = [
            *([used["api_server"].logs] if "api_server" in used else []),
            *([used["bed"].folder or used["bed"].server.logs] if "bed" in used else []),
            *(used[name].folder for name in ("git_server", "gitea") if name in used),
        ]
        if folders:
            report.sections.append(("real parts", "\n".join(f"logs: {folder}" for folder in folders)))
    return report
